"""Directories with messages of formats v0 and v1: every record, from any offset, at any time."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from kraft_native.batch.batch import walk
from kraft_native.facade.log import Log
from tests.oracle.legacy import Message, decode, sample
from tests.spark.reading import rows

ALL = {"startingOffsets": "earliest"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Message]]:
    """Two old segments, and batches of v2 after them."""
    top = tmp_path_factory.mktemp("old")
    directory = top / "old-0"
    directory.mkdir()
    first = sample(random.Random(1), 0, 40, (1,))
    second = sample(random.Random(2), list(walk(first))[-1].next_offset, 40)
    (directory / f"{0:020}.log").write_bytes(first)
    (directory / f"{list(walk(first))[-1].next_offset:020}.log").write_bytes(second)
    messages = [message for outer in decode(first) + decode(second) for message in outer.messages]
    with Log(directory) as log:
        for number in range(3):
            log.append_record(b"new %d" % number, b"k", timestamp_ms=1_600_000_000_000)
            messages.append(Message(len(messages), b"k", b"new %d" % number, 1_600_000_000_000))
    return top, messages


def shown(row: dict[str, Any]) -> Message:
    return Message(row["offset"], row["key"], row["value"], round(row["timestamp"].timestamp() * 1000))


def options(top: Path, **more: str) -> dict[str, str]:
    return {"path": str(top), "subscribe": "old", **more}


def test_every_record(data: tuple[Path, list[Message]]) -> None:
    top, messages = data
    found = rows(options(top, **ALL))
    assert [shown(row) for row in found] == messages
    assert {row["timestampType"] for row in found} == {-1, 0, 1}
    assert all((row["timestampType"] == -1) == (row["timestamp"].timestamp() < 0) for row in found)


def test_from_any_offset(data: tuple[Path, list[Message]]) -> None:
    top, messages = data
    for start in range(0, len(messages), len(messages) // 5):
        end = min(start + 20, len(messages))
        found = rows(options(top, startingOffsets=json.dumps({"old": {"0": start}}),
                             endingOffsets=json.dumps({"old": {"0": end}})))
        assert [shown(row) for row in found] == messages[start:end]


def test_from_a_time(data: tuple[Path, list[Message]]) -> None:
    top, messages = data
    wanted = messages[len(messages) // 4]
    first = next(each.offset for each in messages if each.timestamp_ms >= wanted.timestamp_ms)
    found = rows(options(top, startingTimestamp=str(wanted.timestamp_ms)))
    assert found[0]["offset"] == first
    assert len(found) == len(messages) - first
