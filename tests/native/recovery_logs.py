"""A log of several segments to damage, and its answers, which must not change whatever was done to its files."""

import atexit
import functools
import shutil
import tempfile
from pathlib import Path
from typing import Any

from kraft_native.batch.control import marker
from kraft_native.facade.log import Log
from kraft_native.segment.config import LogConfig
from tests.native.logs import START_MS, batch, small
from tests.native.unclean_cases import FOREVER_MS
from tests.oracle.damage import Found, markers, read_log

ROUNDS = 24


def config(**settings) -> LogConfig:
    return small(producer_id_expiration_ms=FOREVER_MS, **settings)


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def fill(log: Log, first: int = 0, end: int = ROUNDS) -> None:
    """Fill some segments: plain, idempotent and transactional batches, aborted and committed ones, two leader
    epochs."""
    for turn in range(first, end):
        now = START_MS + turn * 100
        log.append(batch(3, timestamp_ms=now, value=b"plain%d" % turn), leader_epoch=turn * 2 // ROUNDS)
        log.append(batch(2, timestamp_ms=now + 10, producer_id=7, producer_epoch=0, base_sequence=2 * turn,
                         transactional=True, value=b"x" * 40))
        if turn % 2:
            log.append(marker(commit=turn % 4 == 1, producer_id=7, producer_epoch=0, coordinator_epoch=0,
                              timestamp_ms=now + 20), origin="coordinator")
            log.append(batch(1, timestamp_ms=now + 30, value=b"y" * 100))


@functools.cache
def template() -> Path:
    """Return a cleanly closed log of several segments, to be copied."""
    top = Path(tempfile.mkdtemp(prefix="kraft-recovery-"))
    atexit.register(shutil.rmtree, top)
    directory = top / "log"
    with Log(directory, config()) as log:
        fill(log)
        assert len(log.segments) > 3
    return directory


def killed(tmp_path: Path, **settings) -> Path:
    """Return a log as a killed process leaves it: a copy of the files of an open one."""
    with Log(tmp_path / "open", config(**settings)) as log:
        fill(log)
        log.flush()
        log.checkpoint()
        fill(log, ROUNDS, ROUNDS + 4)
        return Path(shutil.copytree(tmp_path / "open", tmp_path / "log-0"))


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.log"))


def rewrite(path: Path, change) -> None:
    path.write_bytes(bytes(change(bytearray(path.read_bytes()))))


def flip(path: Path, position: int, mask: int = 0xFF) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= mask
    path.write_bytes(data)


def original() -> list[Found]:
    return read_log(template())


def as_served(batches: list[Found]) -> list[tuple[int, int, bytes]]:
    return [(found.base_offset, found.last_offset, found.data) for found in batches]


def answers(log: Log) -> list[object]:
    """Return all answers that go through an index."""
    end = log.log_end_offset
    return [
        [bytes(log.read(offset, 1, "log_end")) for offset in range(0, end, 3)],
        [log.offset_for_time(START_MS + delta, "log_end") for delta in range(-10, 100 * ROUNDS + 50, 7)],
        log.max_timestamp(),
        [log.aborted_transactions(first, first + 9) for first in range(0, end, 4)],
        log.aborted_transactions(0, end),
    ]


@functools.cache
def right_answers() -> list[object]:
    with Log(shutil.copytree(template(), template().parent / "answers"), config()) as log:
        found: list[Any] = answers(log)
    assert [entry[:3] for entry in found[-1]] == markers(original())
    return found
