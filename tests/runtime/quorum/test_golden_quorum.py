"""Metadata logs that Kafka's controllers left, opened by the core: voters, epochs, snapshots, votes and log ends are
those that Kafka's own tools reported."""

import json
import random
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kraft.protocol.ids import id_of
from kraft.raft.config import RaftConfig
from kraft.raft.raft import Raft
from kraft.raft.ready import HardState
from kraft.raft.replica import Ports
from kraft.raft.transitions import Role
from kraft.raft.types import NOBODY, Endpoint, OffsetAndEpoch, ReplicaKey
from kraft.raft.voters import NO_VOTERS, Voter, VoterSet
from kraft.runtime.quorum.raft_log import RaftLog
from kraft.runtime.quorum.raft_snapshots import RaftSnapshots
from kraft.runtime.quorum.state_file import QuorumStateFile, read_quorum_state
from kraft.runtime.storage.metadata_directory import MetadataLogSettings
from kraft_native.facade.log import Log
from kraft_native.segment import checkpoints
from tests.golden import golden, load_json, needs_golden

pytestmark = needs_golden

NODES = [(kind, node) for kind in ("dynamic", "static") for node in (1, 2, 3)]


def voters_of(facts: dict[str, Any]) -> VoterSet:
    """Return the voters of `kafka-metadata-quorum describe --status`."""
    text = re.search(r"CurrentVoters:\s*(.*)", facts["quorum_status"])
    assert text is not None
    found = []
    for each in json.loads(text[1]):
        listener, host, port = re.fullmatch(r"(\w+)://(.*):(\d+)", each["endpoints"][0]).groups()
        directory = id_of(each["directoryId"]) if "directoryId" in each else UUID(int=0)
        found.append(Voter(ReplicaKey(each["id"], directory), (Endpoint(listener, host, int(port)),)))
    return VoterSet.of(*found)


@contextmanager
def opened(kind: str, node: int, directory: Path) -> Iterator[tuple[Raft, RaftLog, RaftSnapshots, QuorumStateFile]]:
    shutil.copytree(golden("quorum", kind, f"node-{node}"), directory, dirs_exist_ok=True)
    properties = checkpoints.read_meta_properties(directory)
    assert properties is not None
    assert properties.node_id == node
    assert properties.directory_id is not None
    path = directory / "__cluster_metadata-0"
    state = read_quorum_state(path)
    assert state is not None
    voted = None if state.voted_id == NOBODY else ReplicaKey(state.voted_id, state.voted_directory_id)
    is_static = kind == "static"
    with Log(path, MetadataLogSettings().log_config()) as log:
        snapshots = RaftSnapshots(path, RaftLog(log))
        start = next((each.epoch for each in snapshots.ids if each.end_offset == log.log_start_offset), 0)
        raft_log = RaftLog(log, start)
        snapshots = RaftSnapshots(path, raft_log)
        facts = load_json(golden("quorum", kind, "expected", "facts.json"))
        config = RaftConfig(
            key=ReplicaKey(node) if is_static else ReplicaKey(node, properties.directory_id),
            cluster_id=properties.cluster_id, static_voters=voters_of(facts) if is_static else NO_VOTERS)
        raft = Raft(config, HardState(state.leader_epoch, voted, state.leader_id),
                    Ports(raft_log, snapshots, random.Random(1), lambda *_: None), 0)
        yield raft, raft_log, snapshots, state


@pytest.mark.parametrize(("kind", "node"), NODES)
def test_opens(kind: str, node: int, tmp_path: Path) -> None:
    facts = load_json(golden("quorum", kind, "expected", "facts.json"))
    lines = golden("quorum", kind, "expected", "records.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    files = load_json(golden("quorum", kind, "expected", "files.json"))["files"]
    ends = [batch["lastOffset"] + 1 for name, contents in files.items()
            if name.startswith(f"node-{node}/") and name.endswith(".log") for batch in contents["batches"]]
    with opened(kind, node, tmp_path) as (raft, log, snapshots, state):
        replica = raft.replica
        assert [(each.key, each.endpoints) for each in replica.voters.voters] == [
            (each.key, each.endpoints) for each in voters_of(facts).voters]
        assert replica.history.latest.kraft_version == (1 if kind == "dynamic" else 0)
        contents = facts["quorum_state"][f"node-{node}"]
        assert (replica.epoch, replica.leader_id) == (contents["leaderEpoch"], contents["leaderId"])
        assert (replica.voted.node_id if replica.voted else -1) == contents["votedId"]
        assert replica.role.role is (Role.RESIGNED if state.leader_id == node else Role.FOLLOWER)

        by_offset = {record["offset"]: record["epoch"] for record in records}
        end = max(ends)
        assert log.end == OffsetAndEpoch(end, by_offset[end - 1])
        began: dict[int, int] = {}
        for offset in sorted(by_offset):
            began.setdefault(by_offset[offset], offset)
        start = log.start_offset
        for epoch, first in began.items():
            later = [each for other, each in began.items() if other > epoch]
            if start <= first < end:
                assert log.end_of_epoch(epoch) == OffsetAndEpoch(min([*later, end]), epoch)

        names = {each.file_name for each in snapshots.ids}
        listed = load_json(golden("quorum", kind, "expected", "snapshots.json"))
        assert names == {path.rpartition("/")[2] for paths in listed.values() for path in paths
                         if path.startswith(f"node-{node}/") and path.endswith(".checkpoint")
                         and "__cluster_metadata-0" in path}
        latest = snapshots.latest()
        assert latest is not None
        assert latest.offset == 0 or latest.epoch == by_offset[latest.offset - 1]


@pytest.mark.parametrize(("kind", "node"), NODES)
def test_the_file_of_the_vote_is_written_as_it_was(kind: str, node: int) -> None:
    path = golden("quorum", kind, f"node-{node}", "__cluster_metadata-0")
    state = read_quorum_state(path)
    assert state is not None
    assert state.encode() == (path / "quorum-state").read_bytes()
