"""The log file of a node: its lines, its rotation, the levels of parts, and disks that fail."""

import json
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraft.config.errors import InvalidConfigError
from kraft.config.node_config import NodeConfig
from kraft.runtime.base import line_writer, log_file
from kraft.runtime.base.log_file import LogFile, log_settings, part_levels
from kraft.runtime.base.log_output import JsonLines, TextLines
from tests.integration.admin import wait_until
from tests.runtime.nodes import config


def lines_of(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def record(number: int, text: str = "line %d") -> logging.LogRecord:
    return logging.LogRecord("kraft.x", logging.INFO, "x.py", 1, text, (number,), None)


def settings(tmp_path: Path, **more: str) -> NodeConfig:
    return config(tmp_path / "data", kraft_log_file=str(tmp_path / "node.log"), **more)


@pytest.fixture
def stderr() -> Iterator[list[str]]:
    """Lines of a handler that exists before, as that of standard error."""
    found: list[str] = []

    class Seen(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record.getMessage())

    root, handler = logging.getLogger(), Seen()
    level = root.level
    root.addHandler(handler)
    root.setLevel("WARNING")
    yield found
    root.removeHandler(handler)
    root.setLevel(level)


def test_lines_are_written_in_order_and_files_are_replaced(tmp_path: Path) -> None:
    handler = LogFile(tmp_path / "node.log", 1_000, 3, TextLines())
    for number in range(100):
        handler.emit(record(number))
    handler.close()
    handler.close()
    files = sorted(tmp_path.iterdir())
    assert [each.name for each in files] == ["node.log", "node.log.1", "node.log.2"]
    assert all(each.stat().st_size <= 1_000 for each in files)
    last = [line.rpartition(" ")[2] for each in reversed(files) for line in each.read_text().splitlines()]
    assert last == [str(number) for number in range(100 - len(last), 100)]
    assert handler.discarded == 0


def test_the_file_has_its_own_level_and_standard_error_keeps_its(tmp_path: Path, stderr: list[str]) -> None:
    log = logging.getLogger("kraft.part")
    with log_settings(settings(tmp_path)):
        log.debug("detail")
        log.info("news")
        log.warning("trouble")
    log.info("after the end")
    assert [(line["level"], line["message"]) for line in lines_of(tmp_path / "node.log")] == [
        ("info", "news"), ("warning", "trouble")]
    assert stderr == ["trouble"]
    assert logging.getLogger().level == logging.WARNING


def test_levels_of_parts(tmp_path: Path, stderr: list[str]) -> None:
    given = settings(tmp_path, **{"kraft.log.levels": "kraft.raft=debug, kraft.runtime.net=error",
                                  "kraft.log.format": "text", "kraft.log.level": "warning"})
    with log_settings(given):
        logging.getLogger("kraft.raft.raft").debug("a vote")
        logging.getLogger("kraft.runtime.net.server").warning("a client")
        logging.getLogger("kraft.runtime.upkeep").info("a check")
    assert [line.partition(": ")[2] for line in (tmp_path / "node.log").read_text().splitlines()] == ["a vote"]
    assert stderr == []
    assert logging.getLogger("kraft.raft").level == logging.NOTSET


def test_levels_of_parts_need_no_file(tmp_path: Path, stderr: list[str]) -> None:
    with log_settings(config(tmp_path, **{"kraft.log.levels": "kraft.raft=info"})):
        logging.getLogger("kraft.raft").info("a vote")
        logging.getLogger("kraft.runtime").info("a check")
    assert stderr == ["a vote"]


@pytest.mark.parametrize(("text", "why"), [
    ("kraft.raft", "is not part=level"), ("kraft.raft=trace", "a level of debug, info, warning"),
    ("kraft.rafd=info", "no part of kraft"), ("os=info", "no part of kraft"), ("kraft..=info", "no part of kraft"),
])
def test_a_part_that_does_not_exist_is_named(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(InvalidConfigError, match=rf"kraft\.log\.levels: .*{why}"):
        part_levels(config(tmp_path, **{"kraft.log.levels": text}))


def test_a_full_disk_discards_lines_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, failed, real = tmp_path / "node.log", threading.Event(), os.write

    def full(_descriptor: int, _data: bytes) -> int:
        failed.set()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(line_writer, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(os, "write", full)
    handler = LogFile(path, 1 << 20, 2, JsonLines())
    handler.emit(record(1))
    assert failed.wait(10)
    monkeypatch.setattr(os, "write", real)
    wait_until(lambda: handler.discarded == 1, "the loss is counted")
    handler.emit(record(2))
    handler.close()
    assert [line["message"] for line in lines_of(path)] == ["line 2", "1 lines of the log were discarded"]


def test_a_thread_that_is_behind_bounds_the_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_file, "LINES_WAITING_MAX", 0)
    handler = LogFile(tmp_path / "node.log", 1 << 20, 2, JsonLines())
    handler.emit(record(1))
    monkeypatch.setattr(log_file, "LINES_WAITING_MAX", 10)
    handler.emit(record(2))
    handler.close()
    assert [line["message"] for line in lines_of(tmp_path / "node.log")] == [
        "line 2", "1 lines of the log were discarded"]
