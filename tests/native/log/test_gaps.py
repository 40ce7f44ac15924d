"""Gaps between offsets: legal ones, which compaction may have left, and losses."""

import os
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from kraft_native.base.errors import CorruptLogError
from kraft_native.batch.records import BatchBuilder
from kraft_native.facade.log import Log
from kraft_native.file.faults import Trace
from kraft_native.segment.checkpoints import read_log_state, write_log_state, write_offsets
from tests.native.logs import START_MS, batch, readable, small

KEYS = 5


def settings(**others):
    return small(cleanup_policy="compact", delete_retention_ms=1 << 40, **others)


def keyed(number: int) -> bytes:
    builder = BatchBuilder()
    builder.append(b"%d" % number * 40, b"key-%d" % (number % KEYS), START_MS + number)
    return builder.build()


def fill(log: Log, count: int = 60) -> None:
    for number in range(count):
        log.append(keyed(number))


def compact(log: Log) -> None:
    log.flush()
    log.compact(START_MS, force=True)


@pytest.fixture
def compacted(tmp_path) -> Path:
    """A closed log of several segments, with gaps before and inside the first one that has batches, and none behind
    it."""
    directory = tmp_path / "log-0"
    with Log(directory, settings()) as log:
        fill(log)
        log.roll()
        compact(log)
        fill(log)
        assert len(log.segments) > 3
    return directory


def killed(directory: Path) -> Path:
    """Mark the log as if its owner had been killed at the end."""
    state = read_log_state(directory)
    write_log_state(directory, type(state)(state.log_start, 0, -1, False, state.extra))
    return directory


def log_files(directory: Path) -> list[Path]:
    """Return the log files that are not empty: compaction leaves empty ones, too."""
    return sorted(path for path in directory.glob("*.log") if path.stat().st_size > 0)


def noted(directory: Path) -> tuple[int, dict[int, int]]:
    extra = read_log_state(directory).extra
    sizes = [pair.split(":") for pair in extra.get("compacted_segments", "").split()]
    return int(extra["gaps_end"]), {int(base): int(size) for base, size in sizes}


def serve(directory: Path, **others):
    with Log(directory, settings(**others)) as log:
        found, damage = readable(log)
        return found, [(error.offset, error.next_offset) for error in damage], log.recovery


def test_the_noted_state(compacted):
    first, second = log_files(compacted)[:2]
    assert noted(compacted) == (int(second.stem), {int(first.stem): first.stat().st_size})
    found, refused, report = serve(compacted)
    assert refused == []
    assert report.intact
    assert found[0][0] > 0              # a gap exists, and it is legal


@pytest.mark.parametrize("stop", ["clean", "killed"])
def test_a_gap_behind_what_was_compacted_is_a_loss(compacted, stop):
    before = serve(compacted)[0]
    if stop == "killed":
        killed(compacted)
    removed, following = log_files(compacted)[1:3]
    removed.unlink()
    found, refused, report = serve(compacted)
    assert refused == [(int(removed.stem), int(following.stem))]
    assert found == [pair for pair in before if not int(removed.stem) <= pair[0] < int(following.stem)]
    assert not report.intact or stop == "clean"


@pytest.mark.parametrize("stop", ["clean", "killed"])
@pytest.mark.parametrize("left", [0, 1, 2])
def test_a_compacted_segment_that_ends_at_a_batch_too_early(compacted, stop, left):
    """Its offsets have gaps anyway; only the noted size shows the loss."""
    before = serve(compacted)[0]
    if stop == "killed":
        killed(compacted)
    path, following = log_files(compacted)[:2]
    data = path.read_bytes()
    size = sum(12 + int.from_bytes(data[at + 8:at + 12], "big") for at in starts(data)[:left])
    os.truncate(path, size)
    end = before[left - 1][1] + 1 if left else int(path.stem)
    wanted = before[:left] + [pair for pair in before if pair[0] >= int(following.stem)]
    for _ in range(2):                  # the next open reports it, too
        found, refused, report = serve(compacted)
        assert found[:len(wanted)] == wanted
        assert refused == [(end, int(following.stem))]
        assert [tuple(lost) for lost in report.lost_ranges] == [(end, int(following.stem))]
        with Log(compacted, settings()) as log:
            log.append(keyed(0))


def starts(data: bytes) -> list[int]:
    found, at = [], 0
    while at < len(data):
        found.append(at)
        at += 12 + int.from_bytes(data[at + 8:at + 12], "big")
    return found


def test_a_missing_compacted_segment_behind_a_legal_gap(tmp_path):
    """The read begins in the gap before the segment."""
    directory = tmp_path / "log-0"
    with Log(directory, settings(segment_bytes=1_500)) as log:
        fill(log, 40)
        log.roll()
        compact(log)
        fill(log, 40)
        log.roll()
        compact(log)
        found, _ = readable(log)
    paths = log_files(directory)
    for removed, following in pairwise(paths[1:]):
        if int(removed.stem) in noted(directory)[1]:
            copy = Path(shutil.copytree(directory, tmp_path / removed.stem / "log-0"))
            (copy / removed.name).unlink()
            left = [pair for pair in found if not int(removed.stem) <= pair[0] < int(following.stem)]
            assert serve(copy)[:2] == (left, [(int(removed.stem), int(following.stem))])


def test_a_base_offset_that_changed_in_the_newest_segment_after_a_kill(compacted):
    before = serve(compacted)[0]
    newest = log_files(compacted)[-1]
    killed(compacted)
    data = bytearray(newest.read_bytes())
    at = starts(bytes(data))[1]
    data[at + 5] ^= 0x20                # 2,097,152 further: contradicted only by batches that do not continue from it
    newest.write_bytes(data)
    hurt = int(newest.stem) + 1
    found, refused, _ = serve(compacted)
    assert found == [pair for pair in before if pair[0] != hurt]
    assert refused == [(hurt, hurt + 1)]


@pytest.mark.parametrize("changed", [0, 1])
def test_of_two_batches_that_contradict_each_other_none_is_believed_unless_the_offsets_go_on(compacted, changed):
    """One of two base offsets became the other one's. Where a gap is legal before them, either may be the wrong one."""
    before = serve(compacted)[0]
    path = log_files(compacted)[0]
    data = bytearray(path.read_bytes())
    places = starts(bytes(data))
    data[places[changed]:places[changed] + 8] = data[places[1 - changed]:places[1 - changed] + 8]
    path.write_bytes(data)
    found, refused, _ = serve(compacted)
    # The first one's offset moved behind the second one; the offsets continue after the second one, so it is right.
    first_right = 1 if changed == 0 else 2
    assert found == before[first_right:]
    assert refused == [(int(path.stem), before[first_right][0])]


@pytest.mark.parametrize("base", [16, 18, 20])
def test_of_two_batches_neither_is_believed_where_the_first_has_no_room_before_the_second(tmp_path, base):
    """The second one's base offset moved back into the gap before the first one, which has five records. The second
    must not be taken as right and the first as wrong."""
    directory = tmp_path / "log-0"
    with Log(directory, settings(segment_bytes=1 << 20)) as log:
        for offset in [*range(16), 21, 26, 30, 31]:
            log.append_as_follower(batch(5 if offset == 21 else 1, base_offset=offset, leader_epoch=0))
    before = serve(directory)[0]
    [path] = log_files(directory)
    data = bytearray(path.read_bytes())
    at = starts(bytes(data))[-3]
    data[at:at + 8] = base.to_bytes(8, "big")
    path.write_bytes(data)
    found, refused, _ = serve(directory)
    assert found == [pair for pair in before if pair[0] < 16 or pair[0] >= 30]
    assert refused == [(16, 30)]


def test_the_note_comes_before_the_first_segment_is_replaced(tmp_path):
    directory = tmp_path / "log-0"
    with Log(directory, settings()) as log:
        fill(log)
        log.roll()
        log.flush()
        trace = Trace(directory)
        with trace:
            log.compact(START_MS, force=True)
    names = [(Path(event.path).name, Path(event.target).name) for event in trace.events() if event.kind == "rename"]
    first_swap = next(at for at, (_, target) in enumerate(names) if target.endswith(".log.swap"))
    notes = [at for at, (_, target) in enumerate(names) if target == "kraft-log-state"]
    assert notes[0] < first_swap < notes[-1]


def test_a_truncation_lowers_the_note_and_forgets_sizes(compacted):
    end, sizes = noted(compacted)
    with Log(compacted, settings()) as log:
        log.truncate_to(end - 1)
        fill(log, 3)
    assert noted(compacted) == (end - 1, {})
    assert sizes
    _, refused, report = serve(compacted)
    assert refused == []
    assert report.intact


def test_a_follower_notes_gaps_before_it_has_them_and_seldom(tmp_path):
    directory = tmp_path / "log-0"
    with Log(directory, small()) as log:
        trace = Trace(directory)
        with trace:
            for number in range(20):
                log.append_as_follower(batch(base_offset=number * 3, leader_epoch=0))
        writes = [event for event in trace.events() if event.kind == "rename" and "kraft-log-state" in event.target]
        assert len(writes) <= 3         # not one for each append
        copy = Path(shutil.copytree(directory, tmp_path / "copy" / "log-0"))
        assert noted(copy)[0] >= 57
        found, damage = readable(log)
        assert damage == []
        assert found == [(number * 3, number * 3) for number in range(20)]
    assert noted(directory)[0] == 57    # exact again after the close
    assert serve(copy)[:2] == (found, [])
    with Log(directory, small()) as log:
        assert readable(log) == (found, [])
        log.append(batch(2))
        assert log.recovery.intact


@pytest.mark.parametrize("kept", [0, 1])
def test_a_log_that_was_cut_inside_a_gap_has_lost_nothing(tmp_path, kept):
    """The log ends behind its last batch, in the gap, or where it began: the leader's next batch follows there."""
    directory = tmp_path / "log-0"
    with Log(directory, settings()) as log:
        for base_offset in (0, 5)[1 - kept:]:
            log.append_as_follower(batch(base_offset=base_offset, leader_epoch=0))
        log.truncate_to(3)
    for epoch in (1, 2):
        with Log(directory, settings()) as log:
            assert log.recovery.intact
            assert (log.log_start_offset, log.log_end_offset) == (0, 3 * epoch)
            log.append_as_follower(batch(base_offset=2 + 3 * epoch, leader_epoch=epoch))
            assert readable(log)[1] == []


def test_a_note_of_kafka_s_cleaner_that_is_younger_counts(compacted):
    end = noted(compacted)[0]
    write_offsets(compacted.parent / "cleaner-offset-checkpoint", {("log", 0): end})
    removed = log_files(compacted)[1]
    removed.unlink()
    state = os.stat(compacted / "kraft-log-state").st_mtime_ns
    os.utime(compacted.parent / "cleaner-offset-checkpoint", ns=(state - 1, state - 1))
    copy = Path(shutil.copytree(compacted, compacted.parent / "copy" / "log-0"))
    write_offsets(copy.parent / "cleaner-offset-checkpoint", {("log", 0): end})
    os.utime(copy.parent / "cleaner-offset-checkpoint", ns=(state + 10**12, state + 10**12))
    assert serve(compacted)[1] != []
    assert serve(copy)[1] == []


def test_a_state_without_the_note_allows_gaps_anywhere(compacted):
    state = read_log_state(compacted)
    for key in ("gaps_end", "compacted_segments", "segments"):
        del state.extra[key]
    write_log_state(compacted, state)
    log_files(compacted)[1].unlink()
    assert serve(compacted)[1] == []


def test_the_error_names_what_is_lost(compacted):
    removed, following = log_files(compacted)[:2]
    removed.unlink()
    with Log(compacted, settings()) as log, pytest.raises(CorruptLogError) as caught:
        log.read(0)
    assert (caught.value.offset, caught.value.next_offset) == (int(removed.stem), int(following.stem))
