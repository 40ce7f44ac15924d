"""Files of the audit: their sizes, their number, and disks that fail."""

import json
import os
import threading
from pathlib import Path

import pytest

from kraft.runtime.audit.file import FileWriter, line_of
from kraft.runtime.audit.queue import EventQueue
from kraft.runtime.base import line_writer
from kraft.runtime.base.rotating_file import RotatingFile
from tests.integration.admin import wait_until


def queue() -> EventQueue:
    return EventQueue(1000, lambda count: {"lost": count})


def test_files_are_replaced_and_bounded(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    some = RotatingFile(path, 100, 3)
    for number in range(10):
        some.append(line_of({"n": number, "text": "x" * 40}))
    some.close()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2"]
    found = [json.loads(line)["n"] for name in ("audit.jsonl.2", "audit.jsonl.1", "audit.jsonl")
             for line in (tmp_path / name).read_text().splitlines()]
    assert found == list(range(10 - len(found), 10))
    assert all(each.stat().st_size <= 100 for each in tmp_path.iterdir())


def test_one_file_begins_again(tmp_path: Path) -> None:
    some = RotatingFile(tmp_path / "audit.jsonl", 50, 1)
    for number in range(4):
        some.append(line_of({"n": number, "text": "x" * 20}))
    some.close()
    assert [each.name for each in tmp_path.iterdir()] == ["audit.jsonl"]


def test_a_line_that_was_cut_ends_at_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_bytes(b'{"n":')
    some = RotatingFile(path, 1000, 2)
    some.append(line_of({"n": 1}))
    some.close()
    assert path.read_bytes() == b'{"n":\n{"n":1}\n'


def test_what_is_queued_is_written_before_the_end(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    writer = FileWriter(path, 1 << 20, 2, queue())
    for number in range(700):
        writer.put({"n": number, "text": "\udcff"})
    writer.close()
    assert [json.loads(line)["n"] for line in path.read_text().splitlines()] == list(range(700))
    assert writer.written == 700


def test_a_disk_that_fails_loses_events_and_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "audit.jsonl"
    writer = FileWriter(path, 1 << 20, 2, queue())
    failed = threading.Event()
    real = os.write

    def full(_descriptor: int, _data: bytes) -> int:
        failed.set()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(line_writer, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(os, "write", full)
    writer.put({"n": 0})
    assert failed.wait(10)
    monkeypatch.setattr(os, "write", real)
    wait_until(lambda: bool(writer._failed), "the loss is counted")
    writer.put({"n": 1})
    writer.close()
    assert [json.loads(line) for line in path.read_text().splitlines()] == [{"lost": 1}, {"n": 1}]
    assert writer.queue.dropped == 1
