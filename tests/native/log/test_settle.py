"""Work that a log defers to its first record, and to its first record of an epoch; nothing is deferred longer."""

import uuid
from pathlib import Path

import pytest

from kraft import LogConfig, LogDir
from kraft_native.facade.log import Log
from kraft_native.file.faults import Trace
from kraft_native.segment import checkpoints
from tests.native.logs import batch

SYNCS = ("sync", "sync_directory")
TOPIC_ID = uuid.UUID(int=7)
DURABILITIES = ("page-cache", "group-commit", "per-append")


def syncs(trace: Trace) -> list[str]:
    return [Path(event.path).name for event in trace.events() if event.kind in SYNCS and not event.begun]


@pytest.mark.parametrize("durability", DURABILITIES)
def test_a_log_without_records_costs_no_flush(tmp_path: Path, durability: str) -> None:
    config = LogConfig(durability=durability)
    with LogDir(tmp_path / "dir", cluster_id="c", node_id=1) as directory:
        with Trace(tmp_path / "dir") as trace:
            log = directory.log("t", 0, config=config, topic_id=TOPIC_ID)
            log.begin_epoch(3, at_once=False)
            log.checkpoint()
            log.flush()
            log.apply_retention(10**15)
            log.close()
        assert syncs(trace) == []
    with LogDir(tmp_path / "dir") as directory:
        log = directory.log("t", 0, config=config)
        assert log.log_end_offset == 0
        assert log.epochs.entries() == []
        assert directory.topic_id("t", 0) == TOPIC_ID


@pytest.mark.parametrize("durability", DURABILITIES)
def test_its_first_record_comes_after_everything_that_must_be_durable(tmp_path: Path, durability: str) -> None:
    with LogDir(tmp_path / "dir", cluster_id="c", node_id=1) as directory:
        log = directory.log("t", 0, config=LogConfig(durability=durability), topic_id=TOPIC_ID)
        log.begin_epoch(3, at_once=False)
        with Trace(tmp_path / "dir") as trace:
            log.append(batch(1), leader_epoch=3)
        events = trace.events()
        first = next(i for i, event in enumerate(events) if event.path.endswith(".log"))
        done = [Path(event.path).name for event in events[:first] if event.kind in SYNCS and not event.begun]
        assert done[:3] == ["partition.metadata", "t-0", "dir"]
        assert "leader-epoch-checkpoint.tmp" in done
        assert "kraft-log-state.tmp" in done
        with Trace(tmp_path / "dir") as trace:
            log.append(batch(1), leader_epoch=3)
        assert not {"partition.metadata", "t-0", "dir"} & set(syncs(trace))


def test_an_epoch_that_was_put_off_is_written_once_before_its_first_record(tmp_path: Path) -> None:
    with Log(tmp_path / "t-0") as log:
        log.append(batch(1), leader_epoch=1)
        log.begin_epoch(2, at_once=False)
        assert log.epochs.entries() == [(1, 0), (2, 1)]
        assert checkpoints.read_leader_epochs(tmp_path / "t-0" / "leader-epoch-checkpoint") == [(1, 0)]
        log.append(batch(1), leader_epoch=2)
        assert checkpoints.read_leader_epochs(tmp_path / "t-0" / "leader-epoch-checkpoint") == [(1, 0), (2, 1)]
        with Trace(tmp_path) as trace:
            log.append(batch(1), leader_epoch=2)
        assert not any("leader-epoch" in event.path for event in trace.events())


def test_an_epoch_that_was_put_off_is_written_by_a_clean_stop(tmp_path: Path) -> None:
    with Log(tmp_path / "t-0") as log:
        log.append(batch(1), leader_epoch=1)
        log.begin_epoch(2, at_once=False)
    with Log(tmp_path / "t-0") as log:
        assert log.epochs.entries() == [(1, 0), (2, 1)]
        assert log.recovery.clean
