"""Upkeep of a node's logs: which work runs in threads, and how little remains for the loop."""

import asyncio
import threading
import time
from importlib import import_module

import confluent_kafka

from kraft.broker import apis
from kraft.client.producer import Producer
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kraft.protocol.messages.create_topics_response import CreateTopicsResponse
from kraft.runtime.upkeep import housekeeping
from kraft.runtime.upkeep.cleaning import Throttle
from kraft.runtime.upkeep.housekeeping import Housekeeping
from kraft_native.batch.records import BatchBuilder
from tests.integration.admin import wait_until
from tests.runtime.nodes import config, with_node

KEYS = 50
ROUNDS = 40


def node_config(tmp_path, **settings):
    return config(tmp_path / "data", **{"log_cleaner_backoff_ms": "86400000", "log_segment_delete_delay_ms": "0",
                                        "log_retention_check_interval_ms": "86400000",
                                        "log_flush_offset_checkpoint_interval_ms": "86400000"} | settings)


def create(cluster, name: str, **settings: str) -> None:
    """Create a topic of one partition, in segments of two batches."""
    settings = {"internal_segment_bytes": "131072"} | settings
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=[
        CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in settings.items()])
    answer = cluster.controller().send(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), CreateTopicsResponse)
    assert answer.topics[0].error_code == ErrorCode.NONE, answer.topics[0].error_message


def fill(cluster, topic: str) -> None:
    """Append `ROUNDS` batches with the same keys, of some 60 kB each."""
    producer = Producer(cluster)
    for number in range(ROUNDS):
        builder = BatchBuilder()
        for key in range(KEYS):
            builder.append(b"%d/%d " % (key, number) + bytes(1200), b"key %d" % key)
        producer.send({(topic, 0): builder.build()})


def on_loop(node, work):
    """Run a coroutine on the node's loop; return its result."""
    return asyncio.run_coroutine_threadsafe(work, node.parts.housekeeping.cleaner.loop).result()


def run_cleaner(node) -> None:
    on_loop(node, node.parts.housekeeping.cleaner.run())


def test_handlers_that_no_request_has_needed_are_imported_soon(tmp_path, monkeypatch):
    """A package that is replaced below a running node must not be read by it."""
    imported: list[str] = []

    def recorded(name: str) -> object:
        imported.append(name)
        return import_module(name)

    monkeypatch.setattr(apis, "import_module", recorded)
    monkeypatch.setattr(housekeeping, "IMPORT_PAUSE_SECONDS", 0.0)
    with_node(node_config(tmp_path), lambda cluster, node: wait_until(
        lambda: {f"kraft.broker.apis.{file}" for file in apis.FILES} <= set(imported), "all are imported"))
    assert all(callable(apis.handler_of(key)) for key in apis.SERVED)


def test_compaction_leaves_the_loop_a_few_short_steps(tmp_path):
    """The cleaner's thread reads and writes the bytes. The loop does two checks, one swap for each group of segments,
    and one note, whatever the size."""
    threads: list[int] = []

    def work(cluster, node):
        create(cluster, "compacted", cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
        fill(cluster, "compacted")
        cleaner = node.parts.housekeeping.cleaner
        log = node.parts.path.table.get("compacted", 0).log
        pause = cleaner.throttle.seconds_for

        def seconds_for(moved: int) -> float:
            threads.append(threading.get_ident())
            return pause(moved)

        cleaner.throttle.seconds_for = seconds_for
        before = len(log.segments)
        run_cleaner(node)
        assert before > 15
        assert cleaner.counts.compactions == 1
        assert cleaner.counts.bytes_read > 2 * 1024 * 1024
        assert cleaner.loop_steps <= before + 3
        assert log.size_bytes < 400_000

    main = threading.get_ident()
    with_node(node_config(tmp_path), work)
    assert threads and main not in threads


def test_a_log_that_fails_is_left_alone(tmp_path):
    def work(cluster, node):
        create(cluster, "compacted", cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
        fill(cluster, "compacted")
        log = node.parts.path.table.get("compacted", 0).log
        path = log.segments[1].path
        with open(path, "r+b") as file:
            file.seek(log.segments[1].size // 2)
            file.write(b"damage")
        cleaner = node.parts.housekeeping.cleaner
        run_cleaner(node)
        assert cleaner.counts.uncleanable == 1
        steps = cleaner.loop_steps
        run_cleaner(node)
        assert cleaner.loop_steps == steps
        assert log.failure is None

    with_node(node_config(tmp_path), work)


def test_retention_and_file_removal(tmp_path):
    def work(cluster, node):
        create(cluster, "short", retention_bytes="0", file_delete_delay_ms="0")
        fill(cluster, "short")
        partition = node.parts.path.table.get("short", 0)
        directory = tmp_path / "data" / "short-0"
        assert len(list(directory.glob("*.log"))) > 15
        on_loop(node, node.parts.housekeeping._retain())
        assert partition.log.log_start_offset > 0
        assert list(directory.glob("*.log.deleted"))
        on_loop(node, node.parts.housekeeping._remove_files())
        assert not list(directory.glob("*.deleted"))

    with_node(node_config(tmp_path), work)


def test_retention_takes_few_segments_at_once(tmp_path, monkeypatch):
    """Retention deletes few segments with one mark between two checks of the clock."""
    taken: list[int] = []
    retain_some = Housekeeping._retain_some

    def counted(housekeeping, partition) -> bool:
        before = len(partition.log.segments)
        more = retain_some(housekeeping, partition)
        taken.append(before - len(partition.log.segments))
        return more

    monkeypatch.setattr(Housekeeping, "_retain_some", counted)

    def work(cluster, node):
        create(cluster, "short", retention_bytes="0")
        fill(cluster, "short")
        on_loop(node, node.parts.housekeeping._retain())
        assert len(node.parts.path.table.get("short", 0).log.segments) == 1

    with_node(node_config(tmp_path), work)
    assert sum(taken) > 15
    assert max(taken) <= 5


def test_retention_waits_for_what_is_not_in_memory(tmp_path):
    """Retention deletes nothing before another thread has read what it checks."""
    requested: list[tuple[int, int]] = []

    class Cold:
        def warm_retention(self, log, now_ms, done, *, segments_max):
            requested.append((len(log.segments), segments_max))
            asyncio.get_running_loop().call_soon(done)
            return True

    def work(cluster, node):
        create(cluster, "short", retention_ms="1")
        fill(cluster, "short")
        cold, node.parts.core.broker.cold_reader = node.parts.core.broker.cold_reader, Cold()
        log = node.parts.path.table.get("short", 0).log
        segments = len(log.segments)
        node.parts.housekeeping.clock = lambda: 1 << 50
        on_loop(node, node.parts.housekeeping._retain())
        node.parts.core.broker.cold_reader = cold
        left = [each for each in requested if each[0] > 1]
        assert left == [(count, 5) for count in range(segments, 1, -5)]
        assert len(log.segments) == 1

    with_node(node_config(tmp_path), work)


def test_checkpoints(tmp_path):
    def work(cluster, node):
        create(cluster, "noted", flush_messages="1")
        fill(cluster, "noted")
        log = node.parts.path.table.get("noted", 0).log
        on_loop(node, node.parts.housekeeping._checkpoint())
        assert log.recovery_point == log.segments[-1].base_offset
        lines = (tmp_path / "data" / "recovery-point-offset-checkpoint").read_text().splitlines()
        assert f"noted 0 {log.recovery_point}" in lines

    with_node(node_config(tmp_path), work)


def test_throttle_keeps_to_its_rate():
    now = [100.0]
    throttle = Throttle(lambda: now[0])
    assert throttle.seconds_for(1 << 30) == 0.0
    throttle.bytes_per_second = 1000.0
    assert throttle.seconds_for(500) == 0.5
    assert throttle.seconds_for(500) == 1.0
    now[0] = 128.0
    assert throttle.seconds_for(250) == 0.25


def test_the_first_round_comes_soon_after_the_start(tmp_path):
    """Retention that is due when a node starts does not wait for a whole interval."""
    def fill_log(cluster, _node):
        create(cluster, "old", retention_bytes="1", file_delete_delay_ms="0")
        fill(cluster, "old")

    async def start_offset(node) -> int:
        return node.parts.path.table.get("old", 0).log.log_start_offset

    def wait(_cluster, node):
        deadline = time.monotonic() + 10
        while not on_loop(node, start_offset(node)):
            assert time.monotonic() < deadline, "nothing was deleted"

    with_node(node_config(tmp_path), fill_log)
    with_node(node_config(tmp_path, log_initial_task_delay_ms="10"), wait)


def test_idle_producers_are_forgotten_at_their_own_interval(tmp_path):
    """The time-out works although the next retention is far away."""
    def work(cluster, node):
        create(cluster, "t")
        producer = confluent_kafka.Producer({
            "bootstrap.servers": f"127.0.0.1:{node.listeners['PLAINTEXT'].port}", "enable.idempotence": True})
        producer.produce("t", b"once")
        assert producer.flush(20) == 0

        async def known() -> int:
            return len(node.parts.core.broker.table.get("t", 0).producers())

        wait_until(lambda: on_loop(node, known()) == 0, "it is forgotten", 20)

    with_node(node_config(tmp_path, producer_id_expiration_ms="1", producer_id_expiration_check_interval_ms="50"), work)
