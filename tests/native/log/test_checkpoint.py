"""A checkpoint in steps: whatever the owner does meanwhile, the checkpoint never claims too much."""

import errno
import os

import pytest

from kraft_native.base.errors import LogReadOnlyError, StorageError
from kraft_native.batch.records import BatchBuilder
from kraft_native.facade.log import Log
from kraft_native.file import faults
from kraft_native.segment.checkpoints import read_log_state
from kraft_native.segment.config import LogConfig


def config(**settings) -> LogConfig:
    return LogConfig(**{"segment_bytes": 2000, "durability": "per-append"} | settings)


def fill(log: Log, count: int = 30) -> None:
    for number in range(count):
        builder = BatchBuilder()
        builder.append(b"value %d" % number * 40)
        log.append(builder.build())


def temporary(directory) -> list[str]:
    return [name for name in os.listdir(directory) if name.endswith(".tmp")]


def test_nothing_to_note_is_no_work(tmp_path):
    with Log(tmp_path, config()) as log:
        assert log.begin_checkpoint() is None
        fill(log)
        log.checkpoint()
        assert log.begin_checkpoint() is None
    with Log(tmp_path, config()) as log:
        assert log.begin_checkpoint() is None


def test_it_holds_when_it_is_finished(tmp_path):
    with Log(tmp_path, config()) as log:
        fill(log)
        active = log.segments[-1].base_offset
        checkpoint = log.begin_checkpoint()
        assert log.recovery_point < active
        checkpoint.write()
        assert read_log_state(tmp_path).recovery_point < active
        assert checkpoint.finish()
        assert log.recovery_point == read_log_state(tmp_path).recovery_point == active
        assert read_log_state(tmp_path).extra["durable_end"] == "30"
        assert not temporary(tmp_path)


@pytest.mark.parametrize("change", ["truncate", "retention", "close"])
def test_changes_of_the_owner_meanwhile_win(tmp_path, change):
    log = Log(tmp_path, config())
    fill(log)
    checkpoint = log.begin_checkpoint()
    checkpoint.write()
    if change == "truncate":
        log.truncate_to(2)
    elif change == "retention":
        log.delete_records(25)
    else:
        log.close()
    stored = read_log_state(tmp_path)
    assert not checkpoint.finish()
    assert not temporary(tmp_path)
    assert read_log_state(tmp_path) == stored
    log.close()


def test_a_missing_segment_is_no_failure(tmp_path):
    with Log(tmp_path, config()) as log:
        fill(log)
        checkpoint = log.begin_checkpoint()
        log.delete_records(25)
        checkpoint.write()
        assert not checkpoint.finish()
        assert log.failure is None
        log.checkpoint()
        assert read_log_state(tmp_path).log_start == 25


def test_a_failed_write_is_reported_at_the_end_and_fences_the_log(tmp_path):
    log = Log(tmp_path, config())
    fill(log)
    checkpoint = log.begin_checkpoint()
    with faults.fail_at(1, error=errno.EIO, under=tmp_path):
        checkpoint.write()
    assert log.failure is None
    with pytest.raises(StorageError):
        checkpoint.finish()
    with pytest.raises(LogReadOnlyError):
        log.begin_checkpoint()
    log.close()


def test_retention_a_few_segments_at_a_time(tmp_path):
    with Log(tmp_path, config(retention_bytes=0)) as log:
        fill(log)
        segments = len(log.segments)
        assert segments > 4
        assert log.apply_retention(0, segments_max=2) == 2
        assert len(log.segments) == segments - 2
        assert log.apply_retention(0) >= segments - 3


def test_removed_segments_are_handed_over(tmp_path):
    removed: list[bytes] = []
    with Log(tmp_path, config(retention_bytes=0)) as log:
        fill(log)
        log.remove_with(removed.extend)
        log.apply_retention(0, segments_max=1)
        assert sorted(map(os.fsdecode, removed)) == sorted(
            str(tmp_path / f"{0:020}{suffix}.deleted") for suffix in (".index", ".log", ".timeindex"))
        assert all(map(os.path.exists, removed))
        assert log.log_start_offset == log.segments[0].base_offset
    with Log(tmp_path, config()) as log:
        assert not any(map(os.path.exists, removed))
