"""Segments are not read after a clean stop: the sizes noted at the stop show what was lost since."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kraft import LogDir
from kraft_native.base.errors import CorruptLogError
from kraft_native.facade.log import Log
from kraft_native.segment.checkpoints import read_log_state
from tests.native.logs import batch, small


def fill(log: Log) -> None:
    for _ in range(12):
        log.append(batch(10, value=b"v" * 200))
    assert len(log.segments) > 3


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.log"))


def remove(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def halve(path: Path) -> None:
    """Cut to whole batches, so that nothing in the file shows it."""
    size = len(batch(10, value=b"v" * 200))
    assert path.stat().st_size > size
    os.truncate(path, size)


def middle(found: list[Path]) -> int:
    return len(found) // 2


def newest(found: list[Path]) -> int:
    return len(found) - 1


@pytest.mark.parametrize("which", [middle, newest])
@pytest.mark.parametrize("damage", [remove, empty, halve])
@pytest.mark.parametrize("within", ["log", "log directory"])
def test_a_segment_that_lost_something_after_a_clean_stop_is_found_at_the_start(
        tmp_path: Path, which: Callable[[list[Path]], int], damage: Callable[[Path], None], within: str) -> None:
    directory = tmp_path / "t-0"
    if within == "log":
        with Log(directory, small(segment_bytes=6000)) as log:
            fill(log)
    else:
        with LogDir(tmp_path, config=small(segment_bytes=6000)) as owner:
            fill(owner.log("t", 0))
    found = segments(directory)
    at = which(found)
    base = int(found[at].stem)
    damage(found[at])
    lost_from = base + 10 if damage is halve else base
    lost_to = int(found[at + 1].stem) if at + 1 < len(found) else 120

    def check(log: Log) -> None:
        report = log.recovery
        assert not report.intact
        assert report.lost_ranges == [(lost_from, lost_to)]
        [changed] = report.changed
        assert changed.path == str(found[at])
        assert str(found[at]) in str(report)
        assert f"offsets {lost_from} to {lost_to - 1} are lost" in str(report)
        assert log.first_lost_offset == lost_from
        assert log.log_end_offset == 120
        with pytest.raises(CorruptLogError) as refused:
            log.read(lost_from, isolation="log_end")
        assert refused.value.next_offset == lost_to

    for _ in range(2):             # a loss that was found once is found again
        if within == "log":
            with Log(directory, small(segment_bytes=6000)) as log:
                check(log)
        else:
            with LogDir(tmp_path, config=small(segment_bytes=6000)) as owner:
                check(owner.log("t", 0))
        if which is newest:
            return                 # its segment is created again


def test_a_loss_stays_known_when_the_log_goes_on(tmp_path: Path) -> None:
    with Log(tmp_path / "t-0", small(segment_bytes=6000)) as log:
        fill(log)
    found = segments(tmp_path / "t-0")
    found[1].unlink()
    lost = (int(found[1].stem), int(found[2].stem))
    for _ in range(3):
        with Log(tmp_path / "t-0", small(segment_bytes=6000)) as log:
            assert log.recovery.lost_ranges == [lost]
            log.append(batch(10))


def test_the_sizes_hold_for_a_clean_stop_only(tmp_path: Path) -> None:
    """The first change removes the note: a later removal by retention or truncation is no loss."""
    config = small(segment_bytes=6000, retention_bytes=0)
    with Log(tmp_path / "t-0", config) as log:
        fill(log)
    state = read_log_state(tmp_path / "t-0")
    assert state is not None
    assert len(state.extra["segments"].split()) == len(segments(tmp_path / "t-0"))
    log = Log(tmp_path / "t-0", config)
    assert log.recovery.intact
    assert log.apply_retention(2**62) > 0
    log.append(batch(10))
    log.flush()
    state = read_log_state(tmp_path / "t-0")
    assert state is not None
    assert "segments" not in state.extra
    log.discard()
    with Log(tmp_path / "t-0", config) as log:
        assert log.recovery.intact
        log.truncate_to(log.log_end_offset - 10)
    with Log(tmp_path / "t-0", config) as log:
        assert log.recovery.intact
        assert log.recovery.clean


def test_segments_that_grew_are_no_loss(tmp_path: Path) -> None:
    """Another owner appended since."""
    with Log(tmp_path / "t-0", small()) as log:
        log.append(batch(10))
    [segment] = segments(tmp_path / "t-0")
    with segment.open("ab") as file:
        file.write(batch(10, base_offset=10, leader_epoch=0))
    with Log(tmp_path / "t-0", small()) as log:
        assert log.recovery.intact
        assert log.log_end_offset == 20
