"""The metadata log of a quorum of one: epochs, commits, restarts, snapshots; and directories that Kafka wrote."""

import errno
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kraft.metadata.errors import MetadataLogError
from kraft.metadata.image import Endpoint
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.begin_transaction_record import BeginTransactionRecord
from kraft.protocol.messages.controller_heartbeat_request import ControllerHeartbeatRequest
from kraft.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kraft.protocol.messages.delete_topics_request import DeleteTopicsRequest
from kraft.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from kraft.protocol.messages.topic_record import TopicRecord
from kraft.protocol.messages.voters_record import VotersRecord
from kraft.protocol.record_frames import encode_record
from kraft.raft.transitions import Role
from kraft.raft.types import OffsetAndEpoch
from kraft.runtime.quorum.quorum_replica import NotAVoterError
from kraft.runtime.quorum.state_file import QuorumStateFile, read_quorum_state, write_quorum_state
from kraft.runtime.storage.formatting import FormatRequest, format_storage
from kraft.runtime.storage.metadata_directory import DIRECTORY_NAME, TOPIC_ID
from kraft.runtime.storage.snapshot_files import SnapshotId, list_snapshots
from kraft_native.base.errors import CorruptFileError, LogReadOnlyError, StorageError
from kraft_native.batch.batch import walk
from kraft_native.batch.control import control_records
from kraft_native.facade.log import Log
from kraft_native.file import faults
from kraft_native.log.flusher import Flusher
from kraft_native.segment import checkpoints
from tests.golden import golden, load_json, needs_golden
from tests.runtime.quorum.metadata_nodes import CLUSTER, ENDPOINT, NOW_MS, Node, formatted


def create(node: Node, *names: str, **configs: str) -> None:
    answer = node.send(CreateTopicsRequest(topics=[
        CreatableTopic(name=name, num_partitions=2, replication_factor=1, configs=[
            CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()])
        for name in names]))
    assert [result.error_code for result in answer.topics] == [ErrorCode.NONE] * len(names)


def names(node: Node) -> list[str]:
    return list(node.controller.image.topic_ids)


def copied(tmp_path: Path, *parts: str) -> Path:
    shutil.copytree(golden(*parts), tmp_path / "copy")
    for path in (tmp_path / "copy", *(tmp_path / "copy").rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return tmp_path / "copy"


# --- starting -------------------------------------------------------------------------------------------------------


def test_the_first_start_writes_what_kafka_writes(tmp_path: Path) -> None:
    """LeaderChange, KRaftVersion and Voters in one batch, then the bootstrap records in one transaction."""
    with Node(formatted(tmp_path)) as node:
        batches = list(walk(bytes(node.log.read(0, isolation="log_end"))))
        assert [(batch.base_offset, batch.record_count, batch.is_control, batch.leader_epoch)
                for batch in batches] == [(0, 3, True, 1), (3, 9, False, 1)]
        assert [control.type for control in control_records(batches[0])] == [2, 5, 6]
        assert node.controller.image.features["metadata.version"] == 30
        assert node.controller.active
    directory = tmp_path / DIRECTORY_NAME
    assert read_quorum_state(directory) == QuorumStateFile(
        leader_id=1, leader_epoch=1, voted_id=1, voted_directory_id=node.properties.directory_id)
    assert checkpoints.read_leader_epochs(directory / "leader-epoch-checkpoint") == [(1, 0)]
    assert checkpoints.read_partition_metadata(directory) == TOPIC_ID


@needs_golden
def test_the_first_batch_is_kafkas(tmp_path: Path) -> None:
    """Types and values of golden/node's first control records, except for the cluster's id, which KIP-642 adds to the
    voters."""
    data = golden("node", "data", DIRECTORY_NAME, "00000000000000000000.log").read_bytes()
    kafkas = control_records(next(iter(walk(data))))
    request = FormatRequest(node_id=1, cluster_id="c", directories=(tmp_path / "d",),
                            endpoints=(Endpoint("CONTROLLER", "127.0.0.1", 32191, 0),))
    format_storage(request, NOW_MS, lambda: UUID("bb002582-a45e-45f7-b44e-6ff8d91d0a37"))
    with Node(tmp_path / "d") as node:
        ours = control_records(next(iter(walk(bytes(node.log.read(0, isolation="log_end"))))))
    assert [(each.type, each.value) for each in ours[:2]] == [(each.type, each.value) for each in kafkas[:2]]
    voters = VotersRecord.decode(ours[2].value or b"", 0)
    assert voters.cluster_id == "c"
    voters.cluster_id = None
    assert voters.encode(0) == kafkas[2].value


def test_every_start_is_a_new_epoch_and_replays(tmp_path: Path) -> None:
    formatted(tmp_path)
    images = []
    for epoch in (1, 2, 3):
        with Node(tmp_path) as node:
            assert node.metadata.leader_epoch == epoch
            if images:
                assert node.controller.image.state() == images[-1]
            node.join(epoch)
            create(node, f"t{epoch}", retention_ms="5")
            images.append(node.controller.image.state())
    with Node(tmp_path) as node:
        assert names(node) == ["t1", "t2", "t3"]


def test_a_start_that_got_no_further_than_its_epoch_is_not_repeated(tmp_path: Path) -> None:
    """Hazard 1: two leaderships never share an epoch."""
    formatted(tmp_path)
    with Node(tmp_path) as node:
        create_epoch = node.metadata.leader_epoch
    state = read_quorum_state(tmp_path / DIRECTORY_NAME)
    assert state is not None
    write_quorum_state(tmp_path / DIRECTORY_NAME, QuorumStateFile(leader_id=1, leader_epoch=create_epoch + 7))
    with Node(tmp_path) as node:
        assert node.metadata.leader_epoch == create_epoch + 8


def test_a_controller_without_its_vote_does_not_start(tmp_path: Path) -> None:
    """It could vote a second time in an epoch. The error names the remedy for a controller that is alone."""
    formatted(tmp_path)
    with Node(tmp_path) as node:
        epoch = node.metadata.leader_epoch
    file = tmp_path / DIRECTORY_NAME / "quorum-state"
    file.unlink()
    with pytest.raises(CorruptFileError, match="the vote of this controller is missing") as found:
        Node(tmp_path)
    file.write_text(str(found.value).partition("write ")[2].removesuffix(" to the file"))
    with Node(tmp_path) as node:
        assert node.metadata.leader_epoch == epoch + 1


def test_the_log_is_not_for_other_accounts(tmp_path: Path) -> None:
    """The log holds keys of SCRAM credentials."""
    log = formatted(tmp_path) / DIRECTORY_NAME
    log.chmod(0o755)
    Node(tmp_path).close()
    assert log.stat().st_mode & 0o777 == 0o750


def test_a_new_address_is_announced(tmp_path: Path) -> None:
    formatted(tmp_path)
    with Node(tmp_path, endpoints=(ENDPOINT,)) as node:
        assert node.quorum.raft.replica.history.latest.offset == 2
    moved = ENDPOINT._replace(port=9999)
    offsets = []
    for _ in range(2):
        with Node(tmp_path, endpoints=(moved,)) as node:
            latest = node.quorum.raft.replica.history.latest
            assert latest.voters.voters[0].endpoints[0].port == 9999
            offsets.append(latest.offset)
    assert offsets[0] == offsets[1] > 2


def test_a_wiped_disk_does_not_lead(tmp_path: Path) -> None:
    formatted(tmp_path)
    with Node(tmp_path) as node:
        end = node.log.log_end_offset
    with pytest.raises(NotAVoterError, match="does not vote, and no other controller is known"):
        Node(tmp_path, directory_id=UUID(int=99))
    with Node(tmp_path) as node:
        assert node.metadata.leader_epoch == 2
        assert node.log.log_end_offset == end + 1


def test_a_configured_voter_leads_alone(tmp_path: Path) -> None:
    """A node whose `controller.quorum.voters` names only itself has kraft.version 0, as Kafka's nodes without
    --standalone have it. A directory that was formatted with the node itself as voter follows what it contains."""
    static = {"controller.quorum.voters": "1@127.0.0.1:9093"}
    formatted(tmp_path / "static", standalone=False)
    formatted(tmp_path / "dynamic")
    for name, version in (("static", 0), ("dynamic", 1)):
        for epoch in (1, 2):
            with Node(tmp_path / name, static=static) as node:
                assert node.metadata.leader_epoch == epoch
                assert node.quorum.raft.replica.history.latest.kraft_version == version
                node.join(epoch)
                create(node, f"t{epoch}")
        state = read_quorum_state(tmp_path / name / DIRECTORY_NAME)
        assert state is not None
        assert (state.version, state.voters) == (version, () if version else (1,))


def test_a_transaction_that_was_left_open_is_aborted(tmp_path: Path) -> None:
    formatted(tmp_path)
    with Node(tmp_path) as node:
        node.metadata.append([encode_record(BeginTransactionRecord(name="x"), 0),
                         encode_record(TopicRecord(name="half", topic_id=UUID(int=5000)), 0)], NOW_MS)
    with Node(tmp_path) as node:
        assert not names(node)
        node.join()
        create(node, "whole")
    with Node(tmp_path) as node:
        assert names(node) == ["whole"]


# --- committing -----------------------------------------------------------------------------------------------------


def test_answers_wait_for_the_disk(tmp_path: Path) -> None:
    """Group commit: the eventfd reports when to check, and many requests are decided meanwhile. A flusher that gathers
    for the logs of a node does not delay requests that wait for metadata."""
    formatted(tmp_path)
    with Flusher(linger_us=60_000_000) as flusher, Node(tmp_path, durability="group-commit", flusher=flusher) as node:
        node.join()
        answers: list[Any] = []
        reported: list[int] = []
        node.metadata.subscribe(lambda delta, image: reported.append(len(image.topic_ids)))
        for number in range(20):
            node.controller.submit(CreateTopicsRequest(topics=[
                CreatableTopic(name=f"t{number}", num_partitions=1, replication_factor=1)]), 7, NOW_MS, answers.append)
        assert not answers
        assert len(node.controller.decided.topic_ids) == 20
        node.wait(lambda: bool(answers))
        assert len(reported) == len(answers) == len(names(node))
        node.wait(lambda: len(answers) == 20)
        assert reported == list(range(1, 21))


def test_a_failed_flush_is_final(tmp_path: Path) -> None:
    formatted(tmp_path)
    node = Node(tmp_path, durability="group-commit")
    node.join()
    answers: list[Any] = []
    request = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])
    with faults.fail_at(1, error=errno.EIO, kinds=("datasync", "sync"), under=tmp_path) as plan:
        with suppress(LogReadOnlyError):          # the flusher may be faster than the call
            node.controller.submit(request, 7, NOW_MS, answers.append)
        with pytest.raises(StorageError):
            node.commit()
    assert plan.fired
    assert not answers
    assert not names(node)
    node.close()


def test_describe_quorum(tmp_path: Path) -> None:
    formatted(tmp_path)
    with Node(tmp_path, endpoints=(ENDPOINT,)) as node:
        topics = [TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)]),
                  TopicData(topic_name="other", partitions=[PartitionData(partition_index=0)])]
        answer = node.send(DescribeQuorumRequest(topics=topics), 2)
        partition = answer.topics[0].partitions[0]
        assert (partition.leader_id, partition.leader_epoch, partition.error_code) == (1, 1, ErrorCode.NONE)
        assert partition.high_watermark == node.log.log_end_offset
        assert [voter.replica_directory_id for voter in partition.current_voters] == [node.properties.directory_id]
        assert answer.topics[1].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert [(each.name, each.port) for each in answer.nodes[0].listeners] == [("CONTROLLER", 9093)]
        assert answer.encode(2)
        for version in (0, 1):
            old = node.send(DescribeQuorumRequest(topics=topics), version)
            assert old.topics[0].partitions[0].current_voters[0].log_end_offset == node.log.log_end_offset
            assert old.encode(version), "directories and addresses are reported from version 2 on"


# --- snapshots ------------------------------------------------------------------------------------------------------


def test_a_restart_reads_the_newest_snapshot(tmp_path: Path) -> None:
    formatted(tmp_path)
    with Node(tmp_path) as node:
        node.join()
        create(node, "a", "b", cleanup_policy="compact")
        node.send(DeleteTopicsRequest(topic_names=["a"]), 5)
        first = node.snapshot()
        assert first == SnapshotId(node.log.log_end_offset, 1)
        create(node, "c")
        state = node.controller.image.state()
    with Node(tmp_path) as node:
        assert node.quorum.snapshots.ids[-1] == first
        assert node.controller.image.state() == state
        assert node.metadata.unsnapshot_bytes < 1_500
        create(node, "d")
        node.snapshot()
        state = node.controller.image.state()
    with Node(tmp_path) as node:
        assert node.controller.image.state() == state
        assert node.quorum.raft.replica.voters.ids == (1,)


def test_a_damaged_snapshot_is_passed_over(tmp_path: Path) -> None:
    """The log still reaches back far enough. If it does not, the node reports that and does not start."""
    formatted(tmp_path)
    with Node(tmp_path) as node:
        node.join()
        create(node, "a")
        snapshot = node.snapshot()
        state = node.controller.image.state()
    path = tmp_path / DIRECTORY_NAME / snapshot.file_name
    whole = path.read_bytes()
    for damaged in (b"", whole[:-10], whole[:-75], whole[:100] + bytes([whole[100] ^ 1]) + whole[101:]):
        path.chmod(0o600)
        path.write_bytes(damaged)
        with Node(tmp_path) as node:
            assert node.controller.image.state() == state
            assert node.quorum.snapshots.ids == (SnapshotId(0, 0),)
            end = node.log.log_end_offset
    with Log(tmp_path / DIRECTORY_NAME) as log:
        log.delete_records(min(end, snapshot.end_offset))
    with pytest.raises(MetadataLogError, match="no readable snapshot"):
        Node(tmp_path)


def test_snapshots_are_due_by_bytes_and_by_time(tmp_path: Path) -> None:
    formatted(tmp_path)
    with Node(tmp_path, snapshot_bytes=4_000, snapshot_interval_ms=1_000) as node:
        def is_due(now_ms: int) -> bool:
            node.now_ms, before = now_ms, node.quorum.snapshots.ids
            node.write_snapshot_when_due()
            return node.quorum.snapshots.ids != before

        node.join()
        assert not is_due(node.metadata.snapshot_ms + 999)
        assert is_due(NOW_MS + 1_000)
        assert not is_due(NOW_MS + 9_000), "nothing is new"
        create(node, "a")
        assert is_due(NOW_MS + 9_000)
        assert not is_due(NOW_MS + 9_000)
        create(node, *(f"t{number}" for number in range(30)))
        assert is_due(NOW_MS + 9_000)
        create(node, "another")
        assert not is_due(NOW_MS + 9_999)
        assert is_due(NOW_MS + 10_000)


def test_the_bytes_of_one_fetch_of_a_snapshot_are_a_setting_of_their_own(tmp_path: Path) -> None:
    formatted(tmp_path)
    with Node(tmp_path, static={"controller.quorum.fetch.snapshot.max.bytes": "70000"}) as node:
        config = node.quorum.raft.replica.config
        assert (config.fetch_snapshot_max_bytes, config.fetch_max_bytes) == (70_000, 1 << 20)


def test_only_the_active_controller_answers_heartbeats(tmp_path: Path) -> None:
    formatted(tmp_path)
    with Node(tmp_path, snapshot_bytes=1) as node:
        beat = ControllerHeartbeatRequest(controller_id=2, last_snapshot_offset=-1, cluster_id=CLUSTER)
        answer = node.quorum.keeper.heartbeat(beat)
        assert (answer.error_code, answer.start_snapshot) == (ErrorCode.NONE, True)
        assert (answer.leader_id, answer.leader_epoch) == (1, 1)
        beat.last_snapshot_offset = node.log.log_end_offset
        assert not node.quorum.keeper.heartbeat(beat).start_snapshot
        beat.cluster_id = "other"
        assert node.quorum.keeper.heartbeat(beat).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    formatted(tmp_path / "other")
    with Node(tmp_path / "other", leads=False) as node:
        answer = node.quorum.keeper.heartbeat(ControllerHeartbeatRequest(controller_id=2))
        assert (answer.error_code, answer.start_snapshot) == (ErrorCode.NOT_CONTROLLER, False)


def test_old_snapshots_and_the_log_before_them_go(tmp_path: Path) -> None:
    """The log begins where the oldest snapshot ends, and a restart needs nothing older."""
    formatted(tmp_path)
    with Node(tmp_path, retention_bytes=20_000, retention_ms=-1, segment_bytes=4_096, snapshot_bytes=1) as node:
        node.join()
        for number in range(12):
            create(node, *(f"t{number}-{index}" for index in range(10)))
            node.send(DeleteTopicsRequest(topic_names=[f"t{number}-{index}" for index in range(10)]), 5)
            node.write_snapshot_when_due()
        create(node, "last")
        left = list_snapshots(tmp_path / DIRECTORY_NAME)
        assert 1 <= len(left) < 12
        assert node.log.log_start_offset == left[0].end_offset > 0
        assert node.log.size_bytes < 24_000
        state = node.controller.image.state()
    with Node(tmp_path) as node:
        assert node.controller.image.state() == state


def test_old_snapshots_go_by_age(tmp_path: Path) -> None:
    formatted(tmp_path)
    directory = tmp_path / DIRECTORY_NAME
    with Node(tmp_path, retention_ms=1_000, snapshot_bytes=1) as node:
        node.join()
        os.utime(directory / SnapshotId(0, 0).file_name, (0, (NOW_MS - 1_000) / 1_000))
        create(node, "a")
        node.write_snapshot_when_due()
        assert len(list_snapshots(directory)) == 2
        node.now_ms += 1
        create(node, "b")
        node.write_snapshot_when_due()
        assert SnapshotId(0, 0) not in list_snapshots(directory)


def test_a_snapshot_from_the_leader_replaces_the_image(tmp_path: Path) -> None:
    """A node that was offline for longer than the log reaches back learns all that is different, and continues."""
    formatted(tmp_path / "ahead")
    with Node(tmp_path / "ahead") as node:
        node.join()
        create(node, "kept", "gone", "set")
        early = node.snapshot()
        node.send(DeleteTopicsRequest(topic_names=["gone"]), 5)
        create(node, "new", retention_ms="5")
        node.send(CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="set", count=3, assignments=None)]))
        late, state = node.snapshot(), node.controller.image.state()
        files = [(each, (tmp_path / "ahead" / DIRECTORY_NAME / each.file_name).read_bytes()) for each in (early, late)]
    voters = {"controller.quorum.voters": "1@127.0.0.1:1,2@127.0.0.1:2"}
    formatted(tmp_path / "behind", standalone=False)
    with Node(tmp_path / "behind", leads=False, static=voters) as node:
        changes: list[tuple[list[str], list[str], list[tuple[str, int]]]] = []
        node.metadata.subscribe(lambda delta, image: changes.append((
            [topic.name for topic in delta.removed_topics()], [topic.name for topic in delta.created_topics()],
            [(change.topic.name, change.index) for change in delta.partition_changes() if change.after])))
        for snapshot, content in files:
            node.quorum.snapshots.begin(OffsetAndEpoch(*snapshot))
            node.quorum.snapshots.append(content)
            node.quorum.snapshots.install()
            node.metadata.installed(OffsetAndEpoch(*snapshot))
        assert [reported[:2] for reported in changes] == [([], ["kept", "gone", "set"]), (["gone"], ["new"])]
        assert changes[1][2] == [("set", 2), ("new", 0), ("new", 1)]
        assert node.metadata.image.state() == state
        assert node.log.log_start_offset == node.log.log_end_offset == late.end_offset


def test_a_crash_before_the_log_begins_behind_a_snapshot_from_the_leader(tmp_path: Path) -> None:
    """The case in which the log is longer than the snapshot is included: its records are an overtaken leader's."""
    formatted(tmp_path / "ahead")
    for _ in range(3):
        with Node(tmp_path / "ahead") as node:
            node.join()
            if not (tmp_path / "behind").exists():
                shutil.copytree(tmp_path / "ahead", tmp_path / "behind")
    with Node(tmp_path / "ahead") as node:
        create(node, "committed")
        late = node.snapshot()
    with Node(tmp_path / "behind") as node:
        while node.log.log_end_offset <= late.end_offset:
            create(node, f"divergent-{node.log.log_end_offset}")
    shutil.copy(tmp_path / "ahead" / DIRECTORY_NAME / late.file_name, tmp_path / "behind" / DIRECTORY_NAME)
    with Node(tmp_path / "behind") as node:
        assert node.log.log_start_offset == late.end_offset
        assert names(node) == ["committed"]


# --- what Kafka wrote -----------------------------------------------------------------------------------------------


@needs_golden
def test_kafkas_node_continues_here(tmp_path: Path) -> None:
    """Topics, ids, settings and partitions of golden/node are those that Kafka reported. Afterwards this node can
    change them."""
    directory = copied(tmp_path, "node", "data")
    expected = load_json(golden("node", "expected.json"))
    with Node(directory) as node:
        assert (node.metadata.leader_epoch, node.properties.cluster_id) == (3, expected["cluster_id"])
        node.join()
        image = node.controller.image
        assert sorted(image.topic_ids) == sorted(expected["topics"])
        for name, fields in expected["topics"].items():
            topic = image.topics[image.topic_ids[name]]
            assert {str(index): {"leader": partition.leader, "replicas": list(partition.replicas),
                                 "isrs": list(partition.isr)}
                    for index, partition in topic.partitions.items()} == fields["partitions"]
            for key, value in fields.get("dynamic_configs", {}).items():
                assert image.topic_config(name)[key] == value
        create(node, "ours")
        node.snapshot()
        state = node.controller.image.state()
    with Node(directory) as node:
        assert node.controller.image.state() == state


@needs_golden
@pytest.mark.parametrize(("kind", "node"), [(kind, node) for kind in ("dynamic", "static") for node in (1, 2, 3)])
def test_kafkas_quorums_are_read_and_not_led(tmp_path: Path, kind: str, node: int) -> None:
    """Every directory opens and replays to its end. A node that is not the only voter does not lead alone."""
    directory = copied(tmp_path, "quorum", kind, f"node-{node}")
    voters = {"controller.quorum.voters": "1@127.0.0.1:1,2@127.0.0.1:2,3@127.0.0.1:3"} if kind == "static" else {}
    with Node(directory, leads=False, static=voters) as opened:
        assert opened.quorum.raft.replica.voters.ids == (1, 2, 3)
        assert opened.quorum.raft.leadership.role is not Role.LEADER
        assert opened.quorum.snapshots.ids
        opened.metadata.committed(opened.log.log_end_offset)
        assert opened.metadata.image.offset == opened.log.log_end_offset - 1
