"""A controller that lost its vote or its log does not start as a new one."""

import shutil
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kraft.raft.records import LeaderChange
from kraft.raft.types import Endpoint, ReplicaKey
from kraft.raft.voters import Voter
from kraft.runtime.quorum.raft_log import RaftLog
from kraft.runtime.quorum.start_mark import StartMark, VoterMark, check_metadata_log
from kraft.runtime.quorum.state_file import QuorumStateFile, write_quorum_state
from kraft.runtime.storage.metadata_directory import DIRECTORY_NAME, START_MARK, VOTER_MARK, MetadataLogSettings
from kraft_native.base.errors import CorruptFileError
from kraft_native.facade.log import Log
from tests.golden import golden, needs_golden
from tests.runtime.quorum.metadata_nodes import NOW_MS, Node, formatted

RECORD = bytes(8) + b"\0\0\0\x01" + bytes(49)


def test_a_formatted_directory_is_new_until_the_mark_exists(tmp_path: Path) -> None:
    log = formatted(tmp_path) / DIRECTORY_NAME
    assert not check_metadata_log(tmp_path, ()).exists
    (log / f"{0:020}.log").write_bytes(bytes(100))      # opened, with space reserved: no election, no record
    mark = check_metadata_log(tmp_path, ())
    mark.note(records=False)
    with pytest.raises(CorruptFileError, match=r"quorum-state: the vote .* is missing"):
        check_metadata_log(tmp_path, ())
    (log / "quorum-state").write_text("{}")
    assert check_metadata_log(tmp_path, ()).exists, "a vote may come before any record"
    mark.note(records=True)
    mark.note(records=False)
    with pytest.raises(CorruptFileError, match="every record of the metadata log is missing"):
        check_metadata_log(tmp_path, ())
    (log / f"{0:020}.log").write_bytes(RECORD)
    assert check_metadata_log(tmp_path, ()).has_records


@needs_golden
@pytest.mark.parametrize("parts", [("node", "data"), ("quorum", "dynamic", "node-1"), ("quorum", "static", "node-2")])
def test_directories_that_kafka_wrote_have_no_mark_and_start(parts: tuple[str, ...]) -> None:
    assert not check_metadata_log(golden(*parts), (golden(*parts),)).exists


def test_without_a_mark_records_or_partitions_show_an_earlier_start(tmp_path: Path) -> None:
    """Kafka formats a voter of a static quorum without any directory for the log."""
    (tmp_path / "data").mkdir()
    assert not check_metadata_log(tmp_path, (tmp_path / "data",)).exists
    (tmp_path / "data" / "t-0").mkdir()
    with pytest.raises(CorruptFileError, match="the metadata log of this controller is missing"):
        check_metadata_log(tmp_path, (tmp_path / "data",))
    (tmp_path / DIRECTORY_NAME).mkdir()
    assert not check_metadata_log(tmp_path, (tmp_path / "data",)).exists, "formatted with --keep-data"
    (tmp_path / DIRECTORY_NAME / f"{0:020}.log").write_bytes(RECORD)
    with pytest.raises(CorruptFileError, match="the vote of this controller"):
        check_metadata_log(tmp_path, ())


@pytest.mark.parametrize("content", ["", "{}", '{"version":1,"records":true}', "[]"])
def test_a_damaged_mark_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / START_MARK).write_text(content)
    with pytest.raises(CorruptFileError, match=START_MARK):
        StartMark(tmp_path)


# --- the mark in the other log directories


def voted(top: Path, epoch: int, **fields: Any) -> tuple[Path, Path]:
    """Return a metadata directory and a log directory of a controller that stopped cleanly in this epoch."""
    metadata, data = top / "m", top / "a"
    formatted(metadata, directories=(data,), metadata_directory=metadata, **fields)
    mark = check_metadata_log(metadata, (data,))
    write_quorum_state(metadata / DIRECTORY_NAME, QuorumStateFile(leader_epoch=epoch))
    mark.note(records=False)
    mark.close(epoch)
    mark.close(epoch)
    check_metadata_log(metadata, (data,))
    return metadata, data


def lose(metadata: Path, data: Path, **fields: Any) -> None:
    """Lose the metadata directory, and format it again."""
    shutil.rmtree(metadata)
    formatted(metadata, directories=(data,), metadata_directory=metadata, **fields)


def test_a_static_voter_whose_metadata_directory_was_formatted_again_is_refused(tmp_path: Path) -> None:
    metadata, data = voted(tmp_path, 3, standalone=False)
    lose(metadata, data, standalone=False)
    with pytest.raises(CorruptFileError, match=r"__cluster_metadata-0: the metadata log with .*a/\.kraft-voter"):
        check_metadata_log(metadata, (data,), is_static=True)
    (data / VOTER_MARK).unlink()
    assert not check_metadata_log(metadata, (data,), is_static=True).exists, "the way out that the message names"


def test_a_voter_of_the_log_is_refused_with_its_former_directory_id_only(tmp_path: Path) -> None:
    """`--initial-controllers` names the ids of directories; another id is another voter."""
    voter = Voter(ReplicaKey(1, UUID(int=1 << 100)), (Endpoint("CONTROLLER", "127.0.0.1", 9093),))
    metadata, data = voted(tmp_path, 3, standalone=False, initial_voters=(voter,))
    assert VoterMark.read(data) == VoterMark(voter.key.directory_id, 3)
    lose(metadata, data, standalone=False, initial_voters=(voter,))
    with pytest.raises(CorruptFileError, match="is missing, and without it the node could vote twice"):
        check_metadata_log(metadata, (data,))
    lose(metadata, data, standalone=False)
    mark = check_metadata_log(metadata, (data,))
    mark.note(records=False)
    assert VoterMark.read(data) == VoterMark(mark.directory_id or UUID(int=0), -1), "the new voter's"


def test_an_older_vote_from_a_copy_is_refused(tmp_path: Path) -> None:
    metadata, data = voted(tmp_path, 3)
    for mark in (metadata / START_MARK, data / VOTER_MARK):
        found = check_metadata_log(metadata, (data,))
        found.check_vote(3, 3)
        with pytest.raises(CorruptFileError, match=r"quorum-state: it is of epoch 2, .* epoch 3 \(.*\.kraft-"):
            found.check_vote(2, 2)
        mark.unlink()
    found = check_metadata_log(metadata, (data,))
    found.check_vote(2, 2)
    with pytest.raises(CorruptFileError, match=r"epoch 2, .* epoch 3 \(the end of the metadata log"):
        found.check_vote(2, 3)


@pytest.mark.parametrize("voters", [1, 2])
def test_a_vote_that_is_older_than_the_log_is_refused_but_for_a_single_voter(tmp_path: Path, voters: int) -> None:
    """The single voter writes its first record and its vote at once; others vote before there is a leader."""
    first = tuple(Voter(ReplicaKey(number, UUID(int=number << 100)), (Endpoint("CONTROLLER", "127.0.0.1", number),))
                  for number in range(1, voters + 1))
    formatted(tmp_path, standalone=False, initial_voters=first)
    keys = tuple(voter.key for voter in first)
    directory = tmp_path / DIRECTORY_NAME
    with Log(directory, MetadataLogSettings(durability="per-append").log_config()) as log:
        RaftLog(log).append_control([LeaderChange(1, keys, keys)], 5, NOW_MS)
    write_quorum_state(directory, QuorumStateFile(leader_epoch=5))
    Node(tmp_path, leads=False).close()
    (tmp_path / START_MARK).unlink(missing_ok=True)
    write_quorum_state(directory, QuorumStateFile(leader_epoch=4))
    if voters == 1:
        with Node(tmp_path) as node:
            assert node.quorum.raft.replica.epoch > 5
    else:
        with pytest.raises(CorruptFileError, match=r"it is of epoch 4, but .* epoch 5 \(the end of the metadata log"):
            Node(tmp_path, leads=False)


@pytest.mark.parametrize("content", ["", "{}", '{"version":1,"directory":"AAAAAAAAAAAAAAAAAAAAAQ"}', "[]",
                                     '{"version":0,"directory":"short"}',
                                     '{"version":0,"directory":"AAAAAAAAAAAAAAAAAAAAAQ","epoch":"x"}'])
def test_a_damaged_voter_mark_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / VOTER_MARK).write_text(content)
    with pytest.raises(CorruptFileError, match=rf"{VOTER_MARK}: it cannot be read .* delete it if"):
        VoterMark.read(tmp_path)
