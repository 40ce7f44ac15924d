"""`kraft audit`: events of files and of the topic, and which of them are wanted."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kraft.cli.audit_source import FileSource, followed
from kraft.cli.command import run
from kraft.client import Cluster
from kraft.client.topics import create_topic
from kraft.runtime.audit.file import line_of
from kraft.runtime.base.rotating_file import RotatingFile
from kraft.security.audit import event as events
from kraft.security.audit.event import Node, Origin
from kraft.security.audit.reading import Wanted, parse
from kraft.security.audit.resources import Named, Requested
from kraft.security.principal import Principal
from tests.cli.nodes import Started, Tool, command, running
from tests.integration.admin import wait_until

NODE = Node(1, "1", 0)
NOON_MS = 1_769_860_800_000          # 2026-01-31T12:00:00Z
CREATE, FETCH = 19, 1


def origin(name: str) -> Origin:
    return Origin(Principal.user(name), "10.0.0.7", 4711, "app", "OUTSIDE")


def some_events() -> list[dict[str, Any]]:
    ann, bob = origin("ann"), origin("bob")
    orders = Requested(CREATE, 7, (Named("topic", "orders"),))
    return [
        events.change(NODE, 1, NOON_MS, ann, orders, {}, ((12, 14),)),
        events.change(NODE, 2, NOON_MS + 1_000, bob, orders, {36: 1}, ()),
        events.denial(NODE, 3, NOON_MS + 2_000, bob, Requested(FETCH, 12, (Named("topic", "pay"),)), "READ", 29),
        events.login(NODE, 4, NOON_MS + 3_000, bob, "PLAIN", "another password"),
        events.repeated(NODE, 5, events.login(NODE, 5, NOON_MS, bob, "PLAIN", "no"), 7, NOON_MS, NOON_MS + 4_000),
        events.loss(NODE, 6, NOON_MS + 5_000, "file", 3),
    ]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "audit.jsonl"
    path.write_bytes(b"".join(map(line_of, some_events())))
    return path


def numbers(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[int]:
    capsys.readouterr()
    assert run(["audit", *map(str, arguments), "--json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    return [int(json.loads(line)["metadata"]["uid"].rpartition("-")[2]) for line in lines]


@pytest.mark.parametrize(("options", "expected"), [
    ("", [1, 2, 3, 4, 5, 6]), ("--principal ann", [1]), ("--principal User:bob", [2, 3, 4, 5]),
    ("--api createtopics", [1, 2]), ("--resource orders", [1, 2]), ("--resource topic:pay", [3]),
    ("--resource group:pay", []), ("--decision denied", [3, 4, 5]), ("--decision failed", [2, 6]),
    ("--since 2026-01-31T12:00:02Z", [3, 4, 5, 6]), ("--until 2026-01-31T12:00:01Z", [1, 2]), ("--offset 13", [1]),
    ("--offset 15", []), ("--address 10.0.0.7 --principal ann", [1]), ("--address 10.0.0.8", [])])
def test_only_wanted_events_are_shown(file: Path, capsys: pytest.CaptureFixture[str], options: str,
                                      expected: list[int]) -> None:
    assert numbers(capsys, file, *options.split()) == expected


def test_each_event_is_a_line(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == ("2026-01-31T12:00:00Z  allowed    User:ann  10.0.0.7  CreateTopics  topic orders  "
                        "metadata 12-14")
    assert lines[1].endswith("CreateTopics  topic orders  TOPIC_ALREADY_EXISTS")
    assert lines[3].endswith("User:bob  10.0.0.7  login by PLAIN  another password")
    assert lines[4].endswith("7 times")
    assert "3 audit events were discarded" in lines[5]


def test_a_wrong_time_is_named(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", str(file), "--since", "noon"]) == 1
    assert "--since: 'noon' is not a time" in capsys.readouterr().err


def test_older_files_come_first_and_cut_lines_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "audit.jsonl"
    writer = RotatingFile(path, 1, 12)
    for each in some_events():
        writer.append(line_of(each))
    writer.close()
    (tmp_path / "audit.jsonl.3").write_bytes(b'{"time":1}\n')
    (tmp_path / "audit.jsonl.bak").write_bytes(b"not of the audit\n")
    capsys.readouterr()
    assert run(["audit", str(path), "--json"]) == 0
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 5
    assert "1 line cannot be read as events" in printed.err
    assert numbers(capsys, tmp_path / "audit.jsonl.1") == [5]


def test_a_followed_file_that_is_replaced_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "audit.jsonl"
    lines = [line_of(each) for each in some_events()]
    path.write_bytes(lines[0] + lines[1][:10])

    def added(_seconds: float) -> None:
        with path.open("ab") as file:
            file.write(lines[1][10:])
        path.replace(tmp_path / "audit.jsonl.1")
        path.write_bytes(b"".join(lines[2:4]))

    monkeypatch.setattr("kraft.cli.audit_source.time.sleep", added)
    source = FileSource(path)
    found = followed([source])
    assert [next(found).uid[-1] for _ in range(4)] == ["1", "2", "3", "4"]
    source.close()


def test_what_is_no_event_is_none() -> None:
    for line in (b"", b"[]", b"{}", b'{"time":"x","metadata":{},"class_uid":1}', b"\xff", b'{"time":1'):
        assert parse(line) is None
    assert Wanted().includes(parse(line_of(some_events()[0])))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    with running(tmp_path_factory.mktemp("audited") / "data", "--set", "kraft.audit.topic.enable=true", "--set",
                 "kraft.audit.topic.num.partitions=3") as started:
        yield started


def test_the_topic_is_followed(audited: Started) -> None:
    with Cluster(audited.bootstrap, timeout=10) as cluster:
        create_topic(cluster, "orders", partitions=1)
        wait_until(lambda: any(topic.name == "__kraft_audit" for topic in cluster.metadata().topics),
                   "the topic exists")
        with subprocess.Popen(command("audit", "--follow", "--json", "--bootstrap", audited.bootstrap), text=True,
                              stdout=subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": "1"}) as follower:
            assert follower.stdout is not None
            assert json.loads(follower.stdout.readline())["resources"][0]["name"] == "orders"
            create_topic(cluster, "payments", partitions=1)
            assert json.loads(follower.stdout.readline())["resources"][0]["name"] == "payments"
            follower.terminate()


def test_a_cluster_without_the_topic_is_named(tool: Tool) -> None:
    code, _, error = tool.run("audit")
    assert code == 1
    assert "topic __kraft_audit" in error
