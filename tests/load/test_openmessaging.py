"""Workload files of the OpenMessaging Benchmark: what they mean, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

from kraft.load.errors import InvalidWorkloadError
from kraft.load.openmessaging import SETTINGS, Client, WorkloadFile, read_workload
from kraft.load.workload import Place

WHOLE = """
# A file with the settings that those of the project have.
name: two topics / 3 partitions / 1Kb
topics: 2
partitionsPerTopic: 3
keyDistributor: "NO_KEY"
messageSize: 1024
useRandomizedPayloads: true
randomBytesRatio: 0.5
randomizedPayloadPoolSize: 100
subscriptionsPerTopic: 2
consumerPerSubscription: 3
producersPerTopic: 4
producerRate: 80000
consumerBacklogSizeGB: 0
testDurationMinutes: 15
"""


def read(tmp_path: Path, text: str = WHOLE, **changes: Any) -> WorkloadFile:
    """Read a file in which settings have other values; None removes one."""
    lines = [line for line in text.splitlines() if line.partition(":")[0] not in changes]
    lines += [f"{name}: {value}" for name, value in changes.items() if value is not None]
    file = tmp_path / "workload.yaml"
    file.write_text("\n".join(lines))
    return read_workload(file)


def test_every_setting_becomes_part_of_the_load(tmp_path: Path) -> None:
    """10,000 messages per second and producer fill 20 in a linger of 2 ms."""
    found = read(tmp_path)
    assert (found.name, found.seconds, found.warmup_seconds) == ("two topics / 3 partitions / 1Kb", 900, 60)
    load = found.workload(Client(linger_ms=2, acks=1, in_flight=9), "t")
    assert (load.kind, load.connections, load.topics, load.groups, load.spread) == ("end-to-end", 8, 2, 2, True)
    assert (load.records_per_batch, load.rate, load.record_bytes) == (20, 4000, 1024)
    assert (load.pool, load.random_share, load.keys, load.payload_file) == (5, 0.5, "none", "")
    assert (load.acks, load.in_flight, found.backlog()) == (1, 9, None)
    pool = load.batches(Place("t-0", 0, 3), stamped=True)
    assert [batch.records for batch in pool] == [20] * 5
    assert pool[0].data.count(bytes(512)) == 20


def test_a_batch_is_limited_and_has_one_message_at_least(tmp_path: Path) -> None:
    assert read(tmp_path).workload(Client(batch_bytes=5000), "t").records_per_batch == 4
    slow = read(tmp_path, producerRate=8).workload(Client(), "t")
    assert (slow.records_per_batch, slow.batch_bytes, slow.rate) == (1, 0, 8)
    fastest = read(tmp_path, producerRate=0).workload(Client(batch_bytes=5000), "t")
    assert (fastest.records_per_batch, fastest.rate) == (4, 0)


def test_without_consumers_nothing_is_read(tmp_path: Path) -> None:
    for changes in ({"subscriptionsPerTopic": 0}, {"consumerPerSubscription": 0}, {"subscriptionsPerTopic": None}):
        load = read(tmp_path, **changes).workload(Client(codec="zstd"), "t")
        assert (load.kind, load.groups, load.codec) == ("produce", 1, "zstd")


@pytest.mark.parametrize(("distributor", "partitions", "keys"), [
    ("NO_KEY", 3, "none"), ("KEY_ROUND_ROBIN", 3, "cycle:10000"), ("RANDOM_NANO", 1000, "random:64000")])
def test_each_distributor_of_keys(tmp_path: Path, distributor: str, partitions: int, keys: str) -> None:
    found = read(tmp_path, keyDistributor=distributor, partitionsPerTopic=partitions)
    assert found.workload(Client(), "t").keys == keys


def test_a_backlog_may_take_as_long_as_the_rate_needs(tmp_path: Path) -> None:
    backlog = read(tmp_path, consumerBacklogSizeGB=1, backlogDrainRatio=0.9).backlog()
    assert backlog is not None
    assert (backlog.data_bytes, backlog.ratio) == (1 << 30, 0.9)
    assert backlog.build_seconds == pytest.approx(60 + 2 * (1 << 30) / (80_000 * 1024))
    assert backlog.drain_seconds > 900


def test_a_payload_file_is_found_beside_the_workload(tmp_path: Path) -> None:
    (tmp_path / "payload").mkdir()
    (tmp_path / "workloads").mkdir()
    (tmp_path / "payload" / "p.data").write_bytes(b"x" * 100)
    for directory in (tmp_path, tmp_path / "workloads"):
        found = read(directory, useRandomizedPayloads="false", payloadFile="payload/p.data", messageSize=100)
        load = found.workload(Client(), "t")
        assert (Path(load.payload_file), load.whole_file) == (tmp_path / "payload" / "p.data", True)
        assert [batch.records for batch in load.batches(Place("t-0", 0, 1))] == [load.records_per_batch]


@pytest.mark.parametrize(("changes", "says"), [
    ({"topics": 0}, r"^topics: 0 is not a whole number of 1 to 1000$"),
    ({"topics": None}, r"^topics: it is missing; it must be a whole number"),
    ({"messageSize": 1.5}, r"^messageSize: 1\.5 is not a whole number"),
    ({"producersPerTopic": "yes"}, r"^producersPerTopic: True is not a whole number"),
    ({"useRandomizedPayloads": 1}, r"^useRandomizedPayloads: 1 is not true or false$"),
    ({"randomBytesRatio": 1.1}, r"^randomBytesRatio: 1\.1 is not a number of 0 to 1$"),
    ({"keyDistributor": "ZIPF"}, r"^keyDistributor: 'ZIPF' is not one of NO_KEY, KEY_ROUND_ROBIN, RANDOM_NANO$"),
    ({"keyDistributor": "[1]"}, r"^keyDistributor: \[1\] is not one of"),
    ({"partitions": 3}, r"^partitions: 3 is of a setting that is not supported; allowed are name, topics, "),
    ({"testDurationMinutes": 0}, r"^testDurationMinutes: 0 is not a number of 0\.001 to 30000$"),
    ({"testDurationMinutes": ".nan"}, r"^testDurationMinutes: nan is not"),
    ({"randomizedPayloadPoolSize": 0}, r"^randomizedPayloadPoolSize: 0, but useRandomizedPayloads"),
    ({"useRandomizedPayloads": "false"}, r"^payloadFile: it is missing"),
    ({"useRandomizedPayloads": "false", "payloadFile": "nil"}, r"^payloadFile: 'nil' does not exist; tried nil, /"),
    ({"useRandomizedPayloads": "false", "payloadFile": "workload.yaml"}, r"^payloadFile: .* bytes, but messageSize is"),
    ({"consumerBacklogSizeGB": 1, "producerRate": 0}, r"^producerRate: 0 has no rate"),
    ({"consumerBacklogSizeGB": 1, "subscriptionsPerTopic": 0}, r"^consumerBacklogSizeGB: 1, but there are no"),
    ({"topics": 1000, "producersPerTopic": 11}, r"^producersPerTopic: 11 for 1000 topics are more than"),
])
def test_what_a_file_may_not_say(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidWorkloadError, match=says):
        read(tmp_path, **changes)


@pytest.mark.parametrize(("text", "says"), [
    ("", "NoneType is not a mapping"), ("- 1", "list is not a mapping"), ("a: [", "no YAML"), ("\0", "no YAML"),
    ("!!python/object/apply:os.system [ls]", "no YAML"), ("#" * ((1 << 20) + 1), "larger than")])
def test_a_file_that_is_no_workload(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(InvalidWorkloadError, match=says):
        read(tmp_path, text)


def test_the_settings_are_those_of_the_benchmark() -> None:
    assert len(SETTINGS) == 17
