"""The metadata log of a single voter: epochs, commits, restarts, snapshots; and directories that Kafka wrote."""

import errno
import select
import shutil
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kraft.metadata.errors import MetadataLogError
from kraft.metadata.image import Endpoint
from kraft.metadata.snapshot import decode_snapshot
from kraft.protocol.messages.begin_transaction_record import BeginTransactionRecord
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kraft.protocol.messages.delete_topics_request import DeleteTopicsRequest
from kraft.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from kraft.protocol.messages.topic_record import TopicRecord
from kraft.protocol.record_frames import encode_record
from kraft.runtime.metadata_loader import load
from kraft.runtime.metadata_log import DIRECTORY_NAME, TOPIC_ID, Identity, MetadataLog, NotSoleVoterError
from kraft.runtime.quorum_state import QuorumStateFile, read_quorum_state, write_quorum_state
from kraft.runtime.snapshot_files import SnapshotId, list_snapshots
from kraft.runtime.storage import FormatRequest, format_storage
from kraft_native import checkpoints, faults
from kraft_native.batch import walk
from kraft_native.config import LogConfig
from kraft_native.control import control_records
from kraft_native.errors import StorageError
from kraft_native.flusher import Flusher
from kraft_native.log import Log
from tests.golden import golden, load_json, needs_golden
from tests.runtime.metadata_nodes import ENDPOINT, NOW_MS, Node, formatted


def create(node: Node, *names: str, **configs: str) -> None:
    answer = node.ask(CreateTopicsRequest(topics=[
        CreatableTopic(name=name, num_partitions=2, replication_factor=1, configs=[
            CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()])
        for name in names]))
    assert [result.error_code for result in answer.topics] == [0] * len(names)


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
        batches = list(walk(bytes(node.log.log.read(0, isolation="log_end"))))
        assert [(batch.base_offset, batch.record_count, batch.is_control, batch.leader_epoch)
                for batch in batches] == [(0, 3, True, 1), (3, 9, False, 1)]
        assert [control.type for control in control_records(batches[0])] == [2, 5, 6]
        assert node.controller.image.features["metadata.version"] == 30
        assert node.controller.active
    directory = tmp_path / DIRECTORY_NAME
    assert read_quorum_state(directory) == QuorumStateFile(leader_id=1, leader_epoch=1)
    assert checkpoints.read_leader_epochs(directory / "leader-epoch-checkpoint") == [(1, 0)]
    assert checkpoints.read_partition_metadata(directory) == TOPIC_ID


@needs_golden
def test_the_first_batch_is_kafkas(tmp_path: Path) -> None:
    """Bytes from the record count on, where no time, epoch or checksum is; voters with the ids of golden/node."""
    data = golden("node", "data", DIRECTORY_NAME, "00000000000000000000.log").read_bytes()
    kafkas = bytes(next(iter(walk(data))))
    request = FormatRequest(node_id=1, cluster_id="c", directories=(tmp_path / "d",),
                            endpoints=(Endpoint("CONTROLLER", "127.0.0.1", 32191, 0),))
    format_storage(request, NOW_MS, lambda: UUID("bb002582-a45e-45f7-b44e-6ff8d91d0a37"))
    with Node(tmp_path / "d") as node:
        ours = bytes(next(iter(walk(bytes(node.log.log.read(0, isolation="log_end"))))))
    assert ours[57:] == kafkas[57:]
    assert (ours[:17], ours[21:27]) == (kafkas[:17], kafkas[21:27])


def test_every_start_is_a_new_epoch_and_replays(tmp_path: Path) -> None:
    formatted(tmp_path)
    images = []
    for epoch in (1, 2, 3):
        with Node(tmp_path) as node:
            assert node.log.leader_epoch == epoch
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
        create_epoch = node.log.leader_epoch
    state = read_quorum_state(tmp_path / DIRECTORY_NAME)
    assert state is not None
    write_quorum_state(tmp_path / DIRECTORY_NAME, QuorumStateFile(leader_id=1, leader_epoch=create_epoch + 7))
    with Node(tmp_path) as node:
        assert node.log.leader_epoch == create_epoch + 8
    (tmp_path / DIRECTORY_NAME / "quorum-state").unlink()
    with Node(tmp_path) as node:
        assert node.log.leader_epoch == create_epoch + 9


def test_a_new_address_is_told(tmp_path: Path) -> None:
    formatted(tmp_path)
    with Node(tmp_path, endpoints=(ENDPOINT,)):
        pass
    moved = ENDPOINT._replace(port=9999)
    for expected in (2, 1):
        with Node(tmp_path, endpoints=(moved,)) as node:
            start = node.log.log.epochs.entries()[-1][1]
            first = next(iter(walk(bytes(node.log.log.read(start, isolation="log_end")))))
            assert first.record_count == expected
            assert node.log.loaded.quorum.voters is not None
            assert node.log.loaded.quorum.voters.voters[0].endpoints[0].port == 9999


def test_a_wiped_or_foreign_disk_does_not_lead(tmp_path: Path) -> None:
    formatted(tmp_path)
    with Node(tmp_path) as node:
        end = node.log.end_offset
    for identity in (Identity(1, UUID(int=99), ()), Identity(2, node.properties.directory_id or UUID(int=0), ())):
        with pytest.raises(NotSoleVoterError, match="not the only voter"):
            MetadataLog(tmp_path / DIRECTORY_NAME, identity, NOW_MS)
    with Node(tmp_path) as node:
        assert node.log.leader_epoch == 2
        assert node.log.end_offset == end + 1


def test_a_transaction_that_was_left_open_is_aborted(tmp_path: Path) -> None:
    formatted(tmp_path)
    with Node(tmp_path) as node:
        node.log.append([encode_record(BeginTransactionRecord(name="x"), 0),
                         encode_record(TopicRecord(name="half", topic_id=UUID(int=5000)), 0)], NOW_MS)
    with Node(tmp_path) as node:
        assert not names(node)
        node.join()
        create(node, "whole")
    with Node(tmp_path) as node:
        assert names(node) == ["whole"]


# --- committing -----------------------------------------------------------------------------------------------------


def test_answers_wait_for_the_disk(tmp_path: Path) -> None:
    """Group commit: the eventfd tells when to look; many requests are decided meanwhile. A flusher that gathers for the
    logs of a node does not keep who waits for metadata."""
    formatted(tmp_path)
    with Flusher(linger_us=60_000_000) as flusher, Node(tmp_path, durability="group-commit", flusher=flusher) as node:
        node.join()
        answers: list[Any] = []
        told: list[int] = []
        node.controller.subscribe(lambda delta, image: told.append(len(image.topic_ids)))
        for number in range(20):
            node.controller.submit(CreateTopicsRequest(topics=[
                CreatableTopic(name=f"t{number}", num_partitions=1, replication_factor=1)]), 7, NOW_MS, answers.append)
        assert not answers
        assert len(node.controller.decided.topic_ids) == 20
        while len(answers) < 20:
            assert select.select([node.log.eventfd], [], [], 30)[0]
            node.log.poll(NOW_MS)
            assert len(told) == len(answers) == len(names(node))
        assert told == list(range(1, 21))


def test_a_failed_flush_is_final(tmp_path: Path) -> None:
    formatted(tmp_path)
    node = Node(tmp_path)
    node.join()
    answers: list[Any] = []
    request = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])
    with (faults.fail_at(1, error=errno.EIO, kinds=("datasync", "sync"), under=tmp_path) as plan,
          pytest.raises(StorageError)):
        node.controller.submit(request, 7, NOW_MS, answers.append)
    assert plan.fired
    with pytest.raises(StorageError):
        node.log.poll(NOW_MS)
    assert not answers
    assert not names(node)
    node.log.close()


def test_describe_quorum(tmp_path: Path) -> None:
    formatted(tmp_path)
    with Node(tmp_path, endpoints=(ENDPOINT,)) as node:
        topics = [TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)]),
                  TopicData(topic_name="other", partitions=[PartitionData(partition_index=0)])]
        answer = node.ask(DescribeQuorumRequest(topics=topics), 2)
        partition = answer.topics[0].partitions[0]
        assert (partition.leader_id, partition.leader_epoch, partition.error_code) == (1, 1, 0)
        assert partition.high_watermark == node.log.end_offset
        assert [voter.replica_directory_id for voter in partition.current_voters] == [node.properties.directory_id]
        assert answer.topics[1].partitions[0].error_code == 3
        assert [(each.name, each.port) for each in answer.nodes[0].listeners] == [("CONTROLLER", 9093)]
        assert answer.encode(2)
        for version in (0, 1):
            old = node.ask(DescribeQuorumRequest(topics=topics), version)
            assert old.topics[0].partitions[0].current_voters[0].log_end_offset == node.log.end_offset
            assert old.encode(version), "directories and addresses are told from version 2 on"


# --- snapshots ------------------------------------------------------------------------------------------------------


def test_a_restart_reads_the_newest_snapshot(tmp_path: Path) -> None:
    formatted(tmp_path)
    with Node(tmp_path) as node:
        node.join()
        create(node, "a", "b", cleanup_policy="compact")
        node.ask(DeleteTopicsRequest(topic_names=["a"]), 5)
        first = node.log.write_snapshot(node.controller.image, NOW_MS)
        assert first == SnapshotId(node.log.end_offset, 1)
        create(node, "c")
        state = node.controller.image.state()
    with Node(tmp_path) as node:
        assert node.log.loaded.snapshot == first
        assert node.controller.image.state() == state
        assert node.log.loaded.replayed_bytes < 1_500
        create(node, "d")
        node.log.write_snapshot(node.controller.image, NOW_MS)
        state = node.controller.image.state()
    with Node(tmp_path) as node:
        assert node.controller.image.state() == state
        assert node.log.loaded.quorum.voter_ids() == [1]


def test_a_damaged_snapshot_is_passed_over(tmp_path: Path) -> None:
    """The log still reaches back; when it does not, the node says so and does not start."""
    formatted(tmp_path)
    with Node(tmp_path) as node:
        node.join()
        create(node, "a")
        snapshot = node.log.write_snapshot(node.controller.image, NOW_MS)
        state = node.controller.image.state()
    path = tmp_path / DIRECTORY_NAME / snapshot.file_name
    whole = path.read_bytes()
    for damaged in (b"", whole[:-10], whole[:-75], whole[:100] + bytes([whole[100] ^ 1]) + whole[101:]):
        path.chmod(0o600)
        path.write_bytes(damaged)
        with Node(tmp_path) as node:
            assert node.controller.image.state() == state
            assert [found for found, _ in node.log.loaded.unreadable] == [snapshot]
            end = node.log.end_offset
    with Log(tmp_path / DIRECTORY_NAME) as log:
        log.delete_records(min(end, snapshot.end_offset))
    with pytest.raises(MetadataLogError, match="no readable snapshot"):
        Node(tmp_path)


def test_snapshots_are_due_by_bytes_and_by_time(tmp_path: Path) -> None:
    formatted(tmp_path)
    with Node(tmp_path, snapshot_bytes=4_000, snapshot_interval_ms=1_000) as node:
        node.join()
        assert not node.log.snapshot_due(node.controller.image, NOW_MS + 999)
        assert node.log.snapshot_due(node.controller.image, NOW_MS + 1_000)
        create(node, *(f"t{number}" for number in range(30)))
        assert node.log.snapshot_due(node.controller.image, NOW_MS)
        node.log.write_snapshot(node.controller.image, NOW_MS)
        assert not node.log.snapshot_due(node.controller.image, NOW_MS + 5_000)
        create(node, "another")
        assert not node.log.snapshot_due(node.controller.image, NOW_MS + 999)
        assert node.log.snapshot_due(node.controller.image, NOW_MS + 1_000)


def test_old_snapshots_and_the_log_before_them_go(tmp_path: Path) -> None:
    """The log begins where the oldest snapshot ends, and a restart needs nothing else."""
    formatted(tmp_path)
    with Node(tmp_path, retention_bytes=20_000, retention_ms=-1, segment_bytes=4_096) as node:
        node.join()
        for number in range(12):
            create(node, *(f"t{number}-{index}" for index in range(10)))
            node.ask(DeleteTopicsRequest(topic_names=[f"t{number}-{index}" for index in range(10)]), 5)
            node.log.write_snapshot(node.controller.image, NOW_MS)
        create(node, "last")
        left = list_snapshots(tmp_path / DIRECTORY_NAME)
        assert 1 <= len(left) < 12
        assert node.log.log.log_start_offset == left[0].end_offset > 0
        assert node.log.log.size_bytes < 24_000
        state = node.controller.image.state()
    with Node(tmp_path) as node:
        assert node.controller.image.state() == state


def test_old_snapshots_go_by_age(tmp_path: Path) -> None:
    formatted(tmp_path)
    with Node(tmp_path, retention_ms=1_000) as node:
        node.join()
        create(node, "a")
        first = node.log.write_snapshot(node.controller.image, 0)
        assert list_snapshots(tmp_path / DIRECTORY_NAME) == [SnapshotId(0, 0), first]
        assert node.log.clean(5_000, lambda path: 4_000) == []
        assert node.log.clean(5_001, lambda path: 4_000) == [SnapshotId(0, 0)]
        assert node.log.clean(9_999, lambda path: 0) == []


# --- what Kafka wrote -----------------------------------------------------------------------------------------------


@needs_golden
def test_kafkas_node_goes_on_here(tmp_path: Path) -> None:
    """golden/node: topics, ids, settings and partitions are those that Kafka told; then it is ours to change."""
    directory = copied(tmp_path, "node", "data")
    expected = load_json(golden("node", "expected.json"))
    with Node(directory) as node:
        assert (node.log.leader_epoch, node.properties.cluster_id) == (3, expected["cluster_id"])
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
        node.log.write_snapshot(node.controller.image, NOW_MS)
        state = node.controller.image.state()
    with Node(directory) as node:
        assert node.controller.image.state() == state


@needs_golden
@pytest.mark.parametrize(("kind", "node"), [(kind, node) for kind in ("dynamic", "static") for node in (1, 2, 3)])
def test_kafkas_quorums_are_read_and_not_led(tmp_path: Path, kind: str, node: int) -> None:
    """Every directory opens and replays to its end; a node that is not the only voter refuses to go on alone."""
    directory = copied(tmp_path, "quorum", kind, f"node-{node}")
    with Log(directory / DIRECTORY_NAME, LogConfig(max_message_bytes=8 << 20)) as log:
        loaded = load(directory / DIRECTORY_NAME, log)
        assert loaded.replayer.offset == log.log_end_offset - 1
        assert not loaded.unreadable
        assert loaded.quorum.voter_ids() == ([1, 2, 3] if kind == "dynamic" else [])
        assert loaded.snapshot is not None
        content = decode_snapshot((directory / DIRECTORY_NAME / loaded.snapshot.file_name).read_bytes())
        assert content.messages
    with pytest.raises(NotSoleVoterError, match=r"\[1, 2, 3\]"):
        Node(directory)
