"""Metadata logs that Kafka wrote, of three nodes with and without dynamic voters: records, snapshots, state."""

import json
from base64 import b64encode, urlsafe_b64encode
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kraft.metadata.image import EMPTY, TOPIC_RESOURCE, MetadataImage, Resource
from kraft.metadata.replay import Replayer, logged_records
from kraft.metadata.snapshot import decode_snapshot, encode_snapshot, image_records
from kraft.protocol.record_frames import decode_record, encode_record
from kraft_native.batch.batch import walk
from kraft_native.batch.records import records
from tests.golden import golden, load_json, needs_golden

pytestmark = needs_golden

NODES = [(kind, node) for kind in ("dynamic", "static") for node in (1, 2, 3)]


def directory(kind: str, node: int) -> Path:
    return golden("quorum", kind, f"node-{node}", "__cluster_metadata-0")


def snapshots(kind: str, node: int) -> dict[int, Path]:
    """Snapshots with state, by end offset."""
    found = {int(path.name[:20]): path for path in sorted(directory(kind, node).glob("*.checkpoint"))}
    found.pop(0, None)
    return found


def image_of(path: Path) -> MetadataImage:
    return decode_snapshot(path.read_bytes()).image(int(path.name[:20]), int(path.name[21:31]))


def replay(paths: list[Path], replayer: Replayer, stops: dict[int, Path]) -> dict[int, MetadataImage]:
    """Replay log files from the replayer's position; return the images at the stops."""
    images = {}
    for path in paths:
        for batch in walk(path.read_bytes()):
            for record in logged_records(batch):
                if record.offset <= replayer.offset:
                    continue
                replayer.replay_logged(record)
                if record.offset + 1 in stops:
                    replayer.take()
                    images[record.offset + 1] = replayer.image
    replayer.take()
    return images


@pytest.mark.parametrize(("kind", "node"), NODES)
def test_replay_gives_the_snapshots(kind: str, node: int) -> None:
    """Replaying the log from one snapshot gives the next one, exactly."""
    logs = sorted(directory(kind, node).glob("*.log"))
    found = snapshots(kind, node)
    first = int(logs[0].name[:20])
    start = EMPTY if first == 0 else image_of(found.pop(min(end for end in found if end >= first)))
    images = replay(logs, Replayer(start), found)
    assert len(images) == len([end for end in found if end > start.offset + 1]) > 0
    for end, image in images.items():
        expected = image_of(found[end])
        assert image.state() == expected.state()
        assert (image.offset, image.epoch) == (expected.offset, expected.epoch)


@pytest.mark.parametrize(("kind", "node"), NODES)
def test_an_image_is_written_as_kafka_writes_it(kind: str, node: int) -> None:
    """The records of our snapshot are Kafka's, byte for byte; only their order is free."""
    for path in snapshots(kind, node).values():
        content = decode_snapshot(path.read_bytes())
        ours = Counter(encode_record(record.message, record.version) for record in image_records(image_of(path)))
        assert ours == Counter(encode_record(record.message, record.version) for record in content.messages)


@pytest.mark.parametrize(("kind", "node"), NODES)
def test_a_snapshot_of_ours_reads_back(kind: str, node: int) -> None:
    for path in snapshots(kind, node).values():
        content = decode_snapshot(path.read_bytes())
        image = image_of(path)
        written = b"".join(encode_snapshot(image_records(image), epoch=image.epoch, now_ms=5,
                                           last_timestamp_ms=content.last_timestamp_ms, quorum=content.quorum))
        again = decode_snapshot(written)
        assert again.image(image.offset + 1, image.epoch) == image
        assert again.quorum.voters == content.quorum.voters
        assert again.quorum.kraft_version == (1 if kind == "dynamic" else 0)


@pytest.mark.parametrize("kind", ["dynamic", "static"])
def test_the_records_are_those_that_kafka_names(kind: str) -> None:
    """Every data record of every log, by type, version and fields."""
    expected = {}
    for line in golden("quorum", kind, "expected", "records.jsonl").read_text().splitlines():
        entry = json.loads(line)
        expected[entry["offset"]] = entry
    seen: dict[int, None] = {}
    for node in (1, 2, 3):
        for path in sorted(directory(kind, node).glob("*.log")):
            for batch in walk(path.read_bytes()):
                for record in [] if batch.is_control else records(batch):
                    message, version = decode_record(record.value or b"")
                    entry = expected[record.offset]
                    assert upper_snake(type(message).__name__) == entry["type"]
                    assert version == entry["version"]
                    check_fields(message, entry["data"])
                    seen[record.offset] = None
    assert sorted(seen) == sorted(offset for offset, entry in expected.items() if "type" in entry)


@pytest.mark.parametrize("kind", ["dynamic", "static"])
def test_the_topics_are_those_that_kafka_lists(kind: str) -> None:
    """The listing was taken just before the nodes stopped; what came after only fenced brokers."""
    facts = load_json(golden("quorum", kind, "expected", "facts.json"))
    image = image_of(snapshots(kind, 1)[max(snapshots(kind, 1))])
    replayer = Replayer(image)
    replay(sorted(directory(kind, 1).glob("*.log")), replayer, {})
    image = replayer.image
    assert sorted(image.topic_ids) == sorted(facts["topics_as_fields"])
    for name, fields in facts["topics_as_fields"].items():
        topic = image.topics[image.topic_ids[name]]
        assert text_of(topic.topic_id) == fields["topic_id"].replace("/", "_").replace("+", "-")
        assert [list(partition.replicas) for _, partition in sorted(topic.partitions.items())] == [
            fields["partitions"][index]["replicas"] for index in sorted(fields["partitions"], key=int)]
        for key, value in image.config(Resource(TOPIC_RESOURCE, name)).items():
            assert fields["configs"][key] == value


def upper_snake(name: str) -> str:
    return "".join("_" + letter if letter.isupper() and number else letter
                   for number, letter in enumerate(name)).upper()


def text_of(value: UUID) -> str:
    return urlsafe_b64encode(value.bytes).decode().rstrip("=")


def check_fields(struct: Any, data: dict[str, Any]) -> None:
    """The struct has the fields that Kafka's JSON has; fields at their default may be left out there."""
    for key, value in data.items():
        name = "".join("_" + letter.lower() if letter.isupper() else letter for letter in key)
        ours = getattr(struct, name)
        if isinstance(value, list) and value and isinstance(value[0], dict):
            assert len(ours) == len(value)
            for one, other in zip(ours, value, strict=True):
                check_fields(one, other)
        else:
            assert plain(ours) == value, key


def plain(value: Any) -> Any:
    if isinstance(value, UUID):
        return text_of(value)
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value
