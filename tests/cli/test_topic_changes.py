"""`kraft why topic`: the users that changed it."""

from pathlib import Path
from uuid import UUID

import pytest

from kraft.cli.command import run
from kraft.cli.topic_changes import SHOWN, TopicChanges, change_answers
from kraft.metadata.image import TOPIC_RESOURCE
from kraft.protocol.messages.config_record import ConfigRecord
from kraft.protocol.messages.partition_change_record import PartitionChangeRecord
from kraft.protocol.messages.partition_record import PartitionRecord
from kraft.protocol.messages.remove_topic_record import RemoveTopicRecord
from kraft.protocol.messages.topic_record import TopicRecord
from kraft.runtime.audit.file import line_of
from kraft.security.audit import event as events
from kraft.security.audit.event import Node, Origin
from kraft.security.audit.resources import Named, Requested
from kraft.security.principal import Principal
from tests.cli.nodes import Tool, running
from tests.integration.admin import wait_until

TOPIC_ID = UUID(int=7)
ANN = Origin(Principal.user("ann"), "10.0.0.7", 4711, "app", "OUTSIDE")
TIME_MS = 1_700_000_000_000


def retention(value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name="orders", name="retention.ms", value=value)


def changes(*records: object, first: int = 10) -> TopicChanges:
    found = TopicChanges(["orders"])
    for offset, record in enumerate(records, first):
        found.apply(TIME_MS + offset, record, offset)
    return found


def audit(path: Path, *offsets: tuple[int, int]) -> Path:
    request = Requested(44, 1, (Named("topic", "orders"),))
    path.write_bytes(b"".join(line_of(events.change(Node(1, "1", 0), number, TIME_MS, ANN, request, {}, (each,)))
                              for number, each in enumerate(offsets, 1)))
    return path


def texts(found: TopicChanges, *files: Path) -> list[str]:
    return [each.text for each in change_answers(found, files, None, 1.0)]


def test_a_change_names_its_user(tmp_path: Path) -> None:
    found = changes(TopicRecord(name="orders", topic_id=TOPIC_ID),
                    retention("1000"), PartitionRecord(topic_id=TOPIC_ID, partition_id=0), retention(None))
    assert texts(found, audit(tmp_path / "a", (10, 12), (13, 13))) == [
        ("The topic orders was created at 2023-11-14 22:13:20.010 by User:ann from 10.0.0.7 (IncrementalAlterConfigs, "
         "audit event 1-0-1)."),
        ("retention.ms of orders was reset to its default at 2023-11-14 22:13:20.013 by User:ann from 10.0.0.7 "
         "(IncrementalAlterConfigs, audit event 1-0-2).")]
    assert texts(found) == []


def test_changes_of_partitions_and_of_other_topics(tmp_path: Path) -> None:
    found = changes(TopicRecord(name="orders", topic_id=TOPIC_ID), PartitionRecord(topic_id=TOPIC_ID, partition_id=0),
                    TopicRecord(name="other", topic_id=UUID(int=8)),
                    PartitionChangeRecord(topic_id=UUID(int=8), partition_id=0, leader=3),
                    PartitionRecord(topic_id=TOPIC_ID, partition_id=1),
                    PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=1, adding_replicas=[4]),
                    PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=1, leader=4),
                    PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=1, isr=[4]))
    assert [each.partition(" at ")[0] for each in texts(found, audit(tmp_path / "a", (12, 100)))] == [
        "The partition orders/1 was added", "A reassignment of orders/1 began",
        "Broker 4 became the leader of orders/1"]


def test_only_the_last_changes_of_the_present_topic_are_shown(tmp_path: Path) -> None:
    before = [TopicRecord(name="orders", topic_id=UUID(int=1)), retention("1"), RemoveTopicRecord(topic_id=UUID(int=1))]
    after = [TopicRecord(name="orders", topic_id=TOPIC_ID), *(retention(str(each)) for each in range(SHOWN))]
    shown = texts(changes(*before, *after), audit(tmp_path / "a", (14, 100)))
    assert [each.partition(" at ")[0][-1] for each in shown] == ["0", "1", "2", "3", "4"]
    assert len(texts(changes(*before, after[0]), audit(tmp_path / "a", (10, 100)))) == 1


def test_a_node_names_the_user(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "audit.jsonl"
    with running(tmp_path / "data", "--set", "kraft.audit.topic.enable=true", "--set",
                 f"kraft.audit.file={file}") as started:
        tool = Tool(started.bootstrap, capsys)
        tool.run("topics", "create", "orders", "--partitions", 1)
        assert tool.run("configs", "set", "topic", "orders", "retention.ms=60000")[0] == 0

        def changes_shown(*options: object) -> list[str]:
            return [each["text"] for each in tool.json("why", "orders", *options) if each["about"] == "change"]

        wait_until(lambda: any("retention.ms" in each for each in changes_shown()), "the topic has the event")
        shown = changes_shown()
        assert "retention.ms of orders was set to 60000" in shown[-1]
        assert "by User:ANONYMOUS from 127.0.0.1 (IncrementalAlterConfigs, audit event 1-" in shown[-1]
        assert changes_shown("--audit", file) == shown
        started.stop()
    capsys.readouterr()
    run(["why", "orders", str(tmp_path / "data"), "--audit", str(file)])
    assert shown[-1] in capsys.readouterr().out
