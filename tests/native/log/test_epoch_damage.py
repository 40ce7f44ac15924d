"""A leader epoch lies outside the CRC of its batch. The epoch cache detects a changed epoch, and the checksum in the
state file detects a changed cache."""

import os
import shutil

import pytest

from kraft_native.base.errors import CorruptLogError
from kraft_native.facade.log import Log
from kraft_native.segment.checkpoints import read_leader_epochs, read_log_state
from tests.native.logs import batch, files, read_all, readable, small
from tests.native.recovery_logs import config, fill, flip, killed, original, right_answers, segments, template

CACHE = "leader-epoch-checkpoint"
EPOCH_BYTES = range(12, 16)


@pytest.fixture
def closed(tmp_path):
    return shutil.copytree(template(), tmp_path / "log-0")


def expect_one_damaged(directory, found, path, **open_options) -> None:
    """Check that the read is refused at one batch only, with its place, and that everything else is served."""
    with Log(directory, config(), **open_options) as log:
        seen, damage = readable(log)
    assert seen == [(one.base_offset, one.last_offset) for one in original() if one != found]
    assert [(error.offset, error.next_offset) for error in damage] == [(found.base_offset, found.last_offset + 1)]
    assert damage[0].position == found.position
    assert damage[0].path == str(path)
    assert "leader epoch" in str(damage[0])


def batches_with_paths(directory):
    paths = segments(directory)
    for found in original():
        yield found, max(path for path in paths if int(path.stem) <= found.base_offset)


def test_every_changed_epoch_byte_is_found(tmp_path):
    for number, (found, path) in enumerate(batches_with_paths(template())):
        directory = shutil.copytree(template(), tmp_path / f"{number}" / "log-0")
        flip(directory / path.name, found.position + EPOCH_BYTES[number % 4], 1 << number % 8)
        expect_one_damaged(directory, found, directory / path.name)


def test_one_refused_read_is_enough_to_go_on_behind(closed):
    found, path = list(batches_with_paths(closed))[5]
    flip(path, found.position + 15)
    with Log(closed, config()) as log:
        with pytest.raises(CorruptLogError) as caught:
            log.read(found.last_offset, isolation="log_end")
        assert log.read(caught.value.next_offset, 1, "log_end").first_offset == found.last_offset + 1


def test_after_a_kill_a_changed_epoch_below_the_recovery_point_is_found(tmp_path):
    directory = killed(tmp_path)
    wanted = killed_batches(directory)
    flip(segments(directory)[1], 15, 2)
    base = int(segments(directory)[1].stem)
    with Log(directory, config()) as log:
        seen, damage = readable(log)
        assert [error.offset for error in damage] == [base]
    assert seen == [found for found in wanted if found[0] != base]


def killed_batches(directory):
    with Log(shutil.copytree(directory, directory.parent / "whole" / "log-0"), config()) as log:
        seen, damage = readable(log)
    assert damage == []
    return seen


@pytest.mark.parametrize("change", [(b" 7", b" 9"), (b"1 7", b"3 7"), (b" 72", b" 2"), (b"1 72\n", b"")])
def test_a_changed_cache_is_rebuilt_and_costs_no_batch(closed, change):
    content = (closed / CACHE).read_bytes()
    first, second = read_leader_epochs(closed / CACHE)
    old, new = (part.replace(b"72", b"%d" % second[1]).replace(b" 7", b" %d" % (second[1] // 10)) for part in change)
    assert old in content
    (closed / CACHE).write_bytes(content.replace(b"0\n2\n", b"0\n1\n" if not new else b"0\n2\n").replace(old, new))
    with Log(closed, config()) as log:
        assert log.epochs.entries() == [first, second]
        assert log.epochs.trusted
        assert [os.path.basename(note.path) for note in log.recovery.ignored] == [CACHE]
        assert readable(log) == ([(one.base_offset, one.last_offset) for one in original()], [])
        assert log.offset_for_time(0, "log_end") == right_answers()[1][0]


def test_after_a_kill_a_changed_cache_costs_no_batch(tmp_path):
    directory = killed(tmp_path)
    wanted = killed_batches(directory)
    (_, _), (epoch, start) = read_leader_epochs(directory / CACHE)[:2]
    content = (directory / CACHE).read_bytes()
    (directory / CACHE).write_bytes(content.replace(b"%d %d\n" % (epoch, start), b"%d %d\n" % (epoch, start - 9)))
    with Log(directory, config()) as log:
        assert not log.epochs.trusted
        assert readable(log) == (wanted, [])


def forget_state(directory) -> None:
    """Remove our own state, so that only the files that Kafka writes are left."""
    (directory / "kraft-log-state").unlink()


def test_without_a_checksum_of_the_cache_both_neighbours_must_contradict(closed):
    found, path = list(batches_with_paths(closed))[6]
    flip(path, found.position + 13)
    forget_state(closed)
    expect_one_damaged(closed, found, path, clean=True, recovery_point=original()[-1].last_offset + 1)


def test_without_its_checksum_a_wrong_cache_costs_no_batch(closed):
    content = (closed / CACHE).read_bytes()
    (_, (epoch, start)) = read_leader_epochs(closed / CACHE)
    (closed / CACHE).write_bytes(content.replace(b"%d %d\n" % (epoch, start), b"%d %d\n" % (epoch, start + 40)))
    forget_state(closed)
    with Log(closed, config(), clean=True, recovery_point=original()[-1].last_offset + 1) as log:
        assert not log.epochs.trusted
        assert readable(log) == ([(one.base_offset, one.last_offset) for one in original()], [])


def test_the_noted_checksum_is_that_of_the_file_after_each_change(tmp_path):
    def noted(log) -> bool:
        state = read_log_state(directory)
        return int(state.extra["leader_epochs_crc"], 16) == log.epochs.stored_crc and log.epochs.trusted

    directory = tmp_path / "log"
    with Log(directory, small()) as log:
        log.append(batch(3), leader_epoch=1)
        assert noted(log)
        log.begin_epoch(4)
        assert noted(log)
        log.append(batch(3), leader_epoch=6)
        assert noted(log)
        log.truncate_to(3)
        assert log.epochs.entries() == [(1, 0)]
        assert noted(log)
        log.append_as_follower(batch(2, base_offset=3, leader_epoch=9))
        assert noted(log)
        log.delete_records(2)
        assert noted(log)
        log.truncate_fully_and_start_at(40)
        assert noted(log)
    with Log(directory, small()) as log:
        assert log.epochs.trusted


def test_a_note_of_epochs_keeps_what_was_noted_as_durable(tmp_path):
    with Log(tmp_path / "log", small()) as log:
        fill(log)
        log.flush()
        log.checkpoint()
        before = read_log_state(tmp_path / "log")
        log.begin_epoch(9)
        after = read_log_state(tmp_path / "log")
        assert after.extra["durable_end"] == before.extra["durable_end"] == str(log.log_end_offset)
        assert after.recovery_point == before.recovery_point


def test_a_batch_between_two_damaged_ones_is_served_after_a_restart_too(tmp_path):
    """Its index entry leads to it directly; the missing offsets before it are no fault of its own."""
    directory = tmp_path / "log"
    settings = {"index_interval_bytes": 1, "segment_bytes": 1 << 20}
    with Log(directory, small(**settings)) as log:
        for _ in range(9):
            log.append(batch(2, value=bytes(300)))
        log.roll()
        whole = read_all(log)
    size = len(whole) // 9
    for number in (2, 4):
        flip(directory / f"{0:020d}.log", size * number + 100)
    wanted = [(2 * number, 2 * number + 1) for number in range(9) if number not in (2, 4)]
    for _ in range(2):
        with Log(directory, small(**settings)) as log:
            piece = log.read(6, 1, "log_end")
            assert (piece.first_offset, piece.next_offset) == (6, 8)
            seen, damage = readable(log)
            assert seen == wanted
            assert [(error.offset, error.next_offset) for error in damage] == [(4, 6), (8, 10)]
    assert files(directory)
