"""A log directory of Kafka's layout: its contents, its owner, and its checkpoints after a crash."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kraft import Log, LogConfig, LogDir, TopicPartition, errors
from kraft.log_dir import CLEAN_SHUTDOWN, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from kraft.runtime.upkeep.housekeeping import Housekeeping
from kraft_native.file import faults
from kraft_native.file.file_io import FileLock, stamp_ns
from kraft_native.segment import checkpoints
from tests.native.logs import batch
from tools.tree import ROOT

CRASHING = """
import os, signal, sys
from kraft import LogDir
directory = LogDir(sys.argv[1])
log = directory.log("t", 0)
for number in range(100):
    log.append_record(b"%d" % number)
    if number == 59:
        log.roll()  # the active segment is always checked
        log.flush()
        directory.checkpoint()
print(log.recovery_point, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def names(path: Path) -> set[str]:
    return {entry.name for entry in path.iterdir()}


def fill(log: Log, count: int) -> None:
    for _ in range(count):
        log.append(batch(2))


def test_it_has_kafkas_layout(tmp_path: Path) -> None:
    topic_id = uuid.uuid4()
    with LogDir(tmp_path / "data", node_id=7, cluster_id="c" * 22) as directory:
        assert not directory.was_clean
        fill(directory.log("orders", 0, topic_id=topic_id), 3)
        fill(directory.log("my.topic-1", 12), 1)
        assert CLEAN_SHUTDOWN not in names(tmp_path / "data")
        assert list(directory.partitions()) == [("my.topic-1", 12), ("orders", 0)]
    found = names(tmp_path / "data")
    assert found == {".lock", "meta.properties", RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS, CLEAN_SHUTDOWN,
                     "orders-0", "my.topic-1-12"}
    assert checkpoints.read_partition_metadata(tmp_path / "data/orders-0") == topic_id
    meta = checkpoints.read_meta_properties(tmp_path / "data")
    assert (meta.node_id, meta.cluster_id, meta.version) == (7, "c" * 22, 1) and meta.directory_id
    assert checkpoints.read_offsets(tmp_path / "data" / RECOVERY_POINTS) == {("orders", 0): 6, ("my.topic-1", 12): 2}
    assert checkpoints.read_offsets(tmp_path / "data" / HIGH_WATERMARKS) == {("orders", 0): 6, ("my.topic-1", 12): 2}


def test_it_opens_again(tmp_path: Path) -> None:
    with LogDir(tmp_path, config=LogConfig(segment_bytes=200)) as directory:
        log = directory.log("t", 0)
        fill(log, 10)
        log.delete_records(5)
        assert directory.log("t", 0) is log
        cluster_id = directory.meta.cluster_id
    with LogDir(tmp_path, node_id=0, cluster_id=cluster_id) as directory:
        assert directory.was_clean and CLEAN_SHUTDOWN not in names(tmp_path)
        log = directory.log("t", 0, create=False)
        assert (log.log_start_offset, log.log_end_offset, log.config.segment_bytes) == (5, 20, 1 << 30)
        assert [record.offset for record in log.records()] == list(range(5, 20))
    directory.close()


@pytest.mark.parametrize("arguments", [{"node_id": 2}, {"cluster_id": "other"}])
def test_another_nodes_directory_is_refused_and_let_go(tmp_path: Path, arguments: dict[str, object]) -> None:
    LogDir(tmp_path, node_id=1, cluster_id="mine").close()
    with pytest.raises(errors.InvalidArgumentError, match=f"{next(iter(arguments))}: .*belongs to"):
        LogDir(tmp_path, **arguments)
    with LogDir(tmp_path) as directory:
        assert directory.was_clean and directory.meta.node_id == 1


def test_unreadable_meta_properties_are_an_error(tmp_path: Path) -> None:
    LogDir(tmp_path).close()
    (tmp_path / "meta.properties").write_text("version=nine\n")
    for _ in range(2):
        with pytest.raises(errors.CorruptFileError, match=r"meta\.properties"):
            LogDir(tmp_path)


@pytest.mark.parametrize(("topic", "partition", "text"), [
    ("", 0, "topic: ''"), (".", 0, "topic: '.'"), ("..", 0, "topic"), ("a/b", 0, "topic: 'a/b'"), ("x" * 250, 0, "249"),
    ("t", -1, "partition: -1"), ("t", 2**31, "partition"),
])
def test_names_that_kafka_forbids(tmp_path: Path, topic: str, partition: int, text: str) -> None:
    with LogDir(tmp_path) as directory:
        before = names(tmp_path)
        with pytest.raises(errors.InvalidArgumentError, match=text):
            directory.log(topic, partition)
        assert names(tmp_path) == before
    assert TopicPartition.checked("x" * 249, 2**31 - 1).directory_name == "x" * 249 + "-2147483647"


def test_missing_logs(tmp_path: Path) -> None:
    with LogDir(tmp_path) as directory:
        for call in (lambda: directory.log("t", 0, create=False), lambda: directory.delete("t", 0)):
            with pytest.raises(FileNotFoundError, match="no such log"):
                call()
        for name in ("t-0.0123-delete", "t-1.0123-future", "t-2.0123-stray", "t-03", "other"):
            (tmp_path / name).mkdir()
        assert list(directory.partitions()) == []


# --- its owner --------------------------------------------------------------------------------------------------------


def test_one_owner_at_a_time(tmp_path: Path) -> None:
    with LogDir(tmp_path) as directory:
        fill(directory.log("t", 0), 1)
        with pytest.raises(errors.LogLockedError, match="log directory open"):
            LogDir(tmp_path)
    LogDir(tmp_path).close()


def test_a_log_alone_respects_the_directorys_owner(tmp_path: Path) -> None:
    """Kafka locks only the directory; a log in it must not be opened on its own then, nor the directory by Kafka."""
    with LogDir(tmp_path) as directory:
        fill(directory.log("t", 0), 1)
        fill(directory.log("t", 1), 1)
        directory.log("t", 0).close()
        with pytest.raises(errors.LogLockedError, match="around t-0 open"):
            Log(tmp_path / "t-0")
    with Log(tmp_path / "t-0") as log, Log(tmp_path / "t-1"):
        with pytest.raises(errors.LogLockedError):
            LogDir(tmp_path)
        lock = FileLock(tmp_path / ".lock")
        assert not lock.acquired
        assert log.append_record(b"a") == 2
    with LogDir(tmp_path) as directory:
        assert directory.log("t", 0).log_end_offset == 3


def test_a_log_that_is_in_no_log_directory_locks_only_itself(tmp_path: Path) -> None:
    with Log(tmp_path / "t-0"):
        assert names(tmp_path) == {"t-0"}


# --- stops and crashes ------------------------------------------------------------------------------------------------


def test_after_a_crash_the_recovery_points_are_respected(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", CRASHING, str(tmp_path)], cwd=ROOT, check=False, capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert done.stdout == "60\n"
    assert checkpoints.read_offsets(tmp_path / RECOVERY_POINTS) == {("t", 0): 60}
    with LogDir(tmp_path) as directory:
        assert not directory.was_clean and not directory.notes
        log = directory.log("t", 0)
        assert [record.value for record in log.records()] == [b"%d" % number for number in range(100)]
        assert log.append_record(b"next") == 100


def test_an_abandoned_directory_is_as_after_a_crash(tmp_path: Path) -> None:
    directory = LogDir(tmp_path)
    fill(directory.log("t", 0), 3)
    directory.abandon()
    assert CLEAN_SHUTDOWN not in names(tmp_path)
    assert HIGH_WATERMARKS not in names(tmp_path)
    with LogDir(tmp_path) as again:
        assert not again.was_clean
        assert again.log("t", 0).log_end_offset == 6


@pytest.mark.parametrize("name", [RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS])
@pytest.mark.parametrize("content", [b"0\n2\nt 0 5\n", b"\xff" * 40])
def test_an_unreadable_checkpoint_is_noted_and_costs_no_record(tmp_path: Path, name: str, content: bytes) -> None:
    with LogDir(tmp_path) as directory:
        fill(directory.log("t", 0), 5)
    (tmp_path / name).write_bytes(content)
    (tmp_path / CLEAN_SHUTDOWN).unlink()
    with LogDir(tmp_path) as directory:
        assert len(directory.notes) == 1 and name in directory.notes[0]
        assert directory.log("t", 0).log_end_offset == 10
    with LogDir(tmp_path) as directory:
        assert not directory.notes


def test_checkpoints_keep_what_was_not_opened(tmp_path: Path) -> None:
    with LogDir(tmp_path) as directory:
        fill(directory.log("a", 0), 5)
        fill(directory.log("b", 0), 5)
        directory.log("a", 0).delete_records(3)
    with LogDir(tmp_path) as directory:
        fill(directory.log("b", 0), 1)
        directory.checkpoint()
    assert checkpoints.read_offsets(tmp_path / RECOVERY_POINTS) == {("a", 0): 10, ("b", 0): 12}
    assert checkpoints.read_offsets(tmp_path / LOG_STARTS) == {("a", 0): 3}


def after_the_next_tick(path: Path) -> None:
    """Return when a file that is written now is younger than `path`, and a time noted now is, too. Some file systems
    give files the time of a finer clock."""
    probe = path.with_name("probe")
    while True:
        probe.write_bytes(b"")
        if min(probe.stat().st_mtime_ns, stamp_ns()) > path.stat().st_mtime_ns:
            break
    probe.unlink()


def truncated_below_its_point(path: Path) -> LogDir:
    """Return an open directory whose log has been truncated below the recovery point that was last noted for it."""
    with LogDir(path) as directory:
        fill(directory.log("t", 0), 5)
    (path / CLEAN_SHUTDOWN).unlink()
    (path / "t-0" / "kraft-log-state").unlink()
    directory = LogDir(path)
    log = directory.log("t", 0)
    assert log.recovery_point == 10
    directory.note(TopicPartition("t", 0), log)
    assert log.truncate_to(4)
    after_the_next_tick(path / "t-0" / "kraft-log-state")
    return directory


def test_a_log_that_is_truncated_before_its_point_is_written_loses_nothing(tmp_path: Path) -> None:
    """A checkpoint of many logs takes time; the truncation is of the time between."""
    directory = truncated_below_its_point(tmp_path)
    directory.write_marks()
    assert checkpoints.read_offsets(tmp_path / RECOVERY_POINTS) == {("t", 0): 10}
    directory.abandon()
    with LogDir(tmp_path) as again:
        log = again.log("t", 0)
        assert log.log_end_offset == 4
        assert log.recovery.intact


@pytest.mark.parametrize("stop", ["clean", "killed"])
def test_an_owner_that_did_not_open_a_truncated_log_leaves_it_as_it_is(tmp_path: Path, stop: str) -> None:
    """The owner writes the point that it has read, which is above the end of the log."""
    directory = truncated_below_its_point(tmp_path)
    directory.write_marks()
    directory.abandon()
    second = LogDir(tmp_path)
    second.log("other", 0)
    second.checkpoint()
    if stop == "clean":
        second.close()
    else:
        second.abandon()
    assert checkpoints.read_offsets(tmp_path / RECOVERY_POINTS)["t", 0] == 10
    with LogDir(tmp_path) as again:
        log = again.log("t", 0)
        assert log.log_end_offset == 4
        assert log.recovery.intact


def test_the_loss_of_flushed_records_is_seen_although_a_point_was_noted_again(tmp_path: Path) -> None:
    """The file of the points of an idle log does not become younger than the state of the log."""
    with LogDir(tmp_path) as directory:
        fill(directory.log("t", 0), 5)
        directory.log("t", 0).flush()
        directory.checkpoint()
        after_the_next_tick(tmp_path / "t-0" / "kraft-log-state")
        directory.checkpoint()
        size_bytes = directory.log("t", 0).size_bytes
        shutil.copytree(tmp_path, tmp_path.with_name("crashed"), copy_function=shutil.copy2)
    crashed = tmp_path.with_name("crashed")
    with next((crashed / "t-0").glob("*.log")).open("r+b") as file:
        file.truncate(size_bytes // 2)
    with LogDir(crashed) as directory:
        assert directory.log("t", 0).first_lost_offset is not None


class _SlowLog:
    """A log whose checkpoint returns when a file that is written then is younger than its state."""

    def __init__(self, log: Log) -> None:
        self.log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self.log, name)

    def checkpoint(self) -> None:
        self.log.checkpoint()
        after_the_next_tick(Path(self.log.directory) / "kraft-log-state")


@pytest.mark.parametrize("by_housekeeping", [False, True])
def test_the_loss_of_flushed_records_is_seen_although_the_checkpoint_took_long(
        tmp_path: Path, by_housekeeping: bool) -> None:
    """A new point has the time before the state of its log was written."""
    async def checkpoint_log(log: Any) -> None:
        log.checkpoint()

    async def on_disk(work: Callable[[], object]) -> None:
        work()

    with LogDir(tmp_path / "data") as directory:
        fill(directory.log("t", 0), 5)
        directory.log("t", 0).flush()
        directory._logs[TopicPartition("t", 0)] = _SlowLog(directory.log("t", 0))  # type: ignore[assignment]
        if by_housekeeping:
            housekeeping: Any = SimpleNamespace(
                logs=SimpleNamespace(directories=[directory], offline=[]), _stopping=threading.Event(),
                _checkpoint_log=checkpoint_log, _on_disk=on_disk)
            asyncio.run(Housekeeping._checkpoint(housekeeping))
        else:
            directory.checkpoint()
        size_bytes = directory.log("t", 0).size_bytes
        shutil.copytree(tmp_path / "data", tmp_path / "crashed", copy_function=shutil.copy2)
    crashed = tmp_path / "crashed"
    with next((crashed / "t-0").glob("*.log")).open("r+b") as file:
        file.truncate(size_bytes // 2)
    with LogDir(crashed) as directory:
        assert directory.log("t", 0).first_lost_offset is not None


def test_points_of_kafka_stay_younger_than_the_state_of_a_log_that_was_not_opened(tmp_path: Path) -> None:
    with LogDir(tmp_path) as directory:
        for topic in ("a", "b"):
            fill(directory.log(topic, 0), 5)
    (tmp_path / CLEAN_SHUTDOWN).unlink()
    checkpoints.write_offsets(tmp_path / RECOVERY_POINTS, {("a", 0): 6, ("b", 0): 10})
    state = (tmp_path / "a-0" / "kraft-log-state").stat().st_mtime_ns
    os.utime(tmp_path / RECOVERY_POINTS, ns=(state, state + 1_000))
    with LogDir(tmp_path) as directory:
        fill(directory.log("b", 0), 1)
        directory.checkpoint()
        assert (tmp_path / RECOVERY_POINTS).stat().st_mtime_ns == state + 1_000
    with LogDir(tmp_path) as directory:
        found = directory.log("a", 0).recovery
        assert (found.marks_from, found.recovery_point) == ("given", 6)


def test_an_unopened_log_after_a_crash_is_not_called_clean(tmp_path: Path) -> None:
    with LogDir(tmp_path) as directory:
        fill(directory.log("a", 0), 5)
        fill(directory.log("b", 0), 5)
    (tmp_path / CLEAN_SHUTDOWN).unlink()
    (tmp_path / "__cluster_metadata-0").mkdir()        # its owner takes care of it
    with LogDir(tmp_path) as directory:
        directory.log("a", 0)
    with LogDir(tmp_path) as directory:
        assert not directory.was_clean
        directory.log("a", 0)
        directory.log("b", 0)
    with LogDir(tmp_path) as directory:
        assert directory.was_clean
    assert CLEAN_SHUTDOWN in names(tmp_path)           # nothing was opened, and nothing needed it


def test_a_log_closed_by_its_user_opens_again(tmp_path: Path) -> None:
    with LogDir(tmp_path) as directory:
        log = directory.log("t", 0)
        fill(log, 2)
        log.close()
        directory.checkpoint()
        again = directory.log("t", 0)
        assert again is not log and again.log_end_offset == 4
        again.close()
    assert checkpoints.read_offsets(tmp_path / RECOVERY_POINTS) == {("t", 0): 4}
    assert CLEAN_SHUTDOWN in names(tmp_path)


def test_the_high_watermark_of_a_replica_comes_back(tmp_path: Path) -> None:
    config = LogConfig(high_watermark="manual")
    with LogDir(tmp_path, config=config) as directory:
        fill(directory.log("t", 0), 5)
        directory.log("t", 0).set_high_watermark(4)
    with LogDir(tmp_path, config=config) as directory:
        assert directory.log("t", 0).high_watermark == 4


def test_group_commit_shares_one_flusher(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/task"))
    with LogDir(tmp_path, config=LogConfig(durability="group-commit")) as directory:
        logs = [directory.log("t", number) for number in range(5)]
        for log in logs:
            log.append(batch(3))
            assert log.flush(20.0) and log.durable_end_offset == 3
        assert len(os.listdir("/proc/self/task")) == before + 1
    assert len(os.listdir("/proc/self/task")) == before


def test_a_removed_log_is_not_flushed_before(tmp_path: Path) -> None:
    """A topic of gigabytes is deleted on the event loop: waiting for its pages would stall every request."""
    directory = LogDir(tmp_path)
    for number in range(2):
        fill(directory.log("t", number), 5)
    flushed = []
    for number, durable in enumerate((True, False)):
        with faults.Trace(tmp_path) as trace:
            doomed = directory.retire("t", number, durable=durable)
        flushed.append({event.path for event in trace.events() if event.kind in ("datasync", "sync", "sync_directory")})
        assert doomed.is_dir()
    assert flushed == [{str(tmp_path)}, set()]
    directory.log("u", 0).discard()
    directory.log("u", 0).discard()
    directory.close()


def test_a_failed_log_removes_the_clean_mark_and_the_others_are_closed(tmp_path: Path) -> None:
    directory = LogDir(tmp_path)
    failing, sound = directory.log("a", 0), directory.log("b", 0)
    fill(sound, 2)
    with faults.fail_at(1, error=5, kinds=["write"]), pytest.raises(errors.StorageError):
        failing.append(batch(3))
    with pytest.raises(errors.LogReadOnlyError):
        directory.close()
    assert failing.closed and sound.closed and CLEAN_SHUTDOWN not in names(tmp_path)
    with LogDir(tmp_path) as again:
        assert (again.log("a", 0).log_end_offset, again.log("b", 0).log_end_offset) == (0, 4)


# --- deleting ---------------------------------------------------------------------------------------------------------


def test_a_failed_log_does_not_keep_the_others_from_their_checkpoint(tmp_path: Path) -> None:
    directory = LogDir(tmp_path / "d")
    logs = [directory.log("t", number) for number in range(4)]
    for log in logs:
        fill(log, 5)
        log.roll()
        fill(log, 1)
        log.flush()
    for number, error_type in ((1, errors.StorageError), (2, errors.LogReadOnlyError)):
        fill(logs[number], 1)
        with faults.fail_at(1, error=28, kinds=["write"],
                            under=tmp_path / "d" / f"t-{number}"), pytest.raises(error_type):
            directory.checkpoint()
    with pytest.raises(errors.LogReadOnlyError) as caught:
        directory.checkpoint()
    assert caught.value.cause is logs[1].failure
    assert [str(logs[2].directory) in note for note in caught.value.__notes__] == [True]
    points = checkpoints.read_offsets(tmp_path / "d" / RECOVERY_POINTS)
    assert [points["t", number] for number in range(4)] == [10, 0, 10, 10]
    with pytest.raises(errors.LogReadOnlyError):
        directory.delete("t", 0)
    assert [name.partition for name in directory.partitions()] == [1, 2, 3]
    with pytest.raises(errors.LogReadOnlyError):
        directory.close()


def test_delete_forgets_everything(tmp_path: Path) -> None:
    with LogDir(tmp_path) as directory:
        fill(directory.log("t", 0), 5)
        fill(directory.log("t", 1), 1)
        directory.log("t", 0).delete_records(3)
        directory.checkpoint()
        directory.delete("t", 0)
        assert list(directory.partitions()) == [("t", 1)]
        assert ("t", 0) not in checkpoints.read_offsets(tmp_path / RECOVERY_POINTS)
        new = directory.log("t", 0)
        assert (new.log_start_offset, new.log_end_offset) == (0, 0)


def test_a_new_log_has_nothing_of_one_that_was_there_before_a_crash(tmp_path: Path) -> None:
    """A replica that is removed and created again is empty, whenever the node dies: checkpoints are of the old one."""
    def crashed(number: int) -> LogDir:
        return LogDir(shutil.copytree(tmp_path / str(number), tmp_path / str(number + 1)))

    with LogDir(tmp_path / "0") as first:
        fill(first.log("t", 0), 5)
        fill(first.log("t", 1), 1)
        for number in (0, 1):
            first.log("t", number).roll()
        first.checkpoint()
        first.retire("t", 0)
        with crashed(0) as second:
            assert [log.log_end_offset for log in (second.log("t", 0), second.log("t", 1))] == [0, 2]
            fill(second.log("t", 0), 1)
            with crashed(1) as third:
                assert (third.log("t", 0).log_end_offset, third.log("t", 1).log_end_offset) == (2, 2)
                assert third.log("t", 0).recovery.intact
                future = third.begin_future(TopicPartition("t", 2), uuid.uuid4())
                third.checkpoint()
                third.retire("t", 1)
                third.promote_future(TopicPartition("t", 1), future)
                with crashed(2) as fourth:
                    assert fourth.log("t", 1).log_end_offset == 0


def test_a_delete_that_was_interrupted_is_finished(tmp_path: Path) -> None:
    LogDir(tmp_path).close()
    doomed = tmp_path / f"t-0.{uuid.uuid4().hex}-delete"
    doomed.mkdir()
    (doomed / "00000000000000000000.log").write_bytes(b"x")
    LogDir(tmp_path).close()
    assert doomed.name not in names(tmp_path)


def test_a_closed_directory_refuses(tmp_path: Path) -> None:
    directory = LogDir(tmp_path)
    directory.close()
    for call in (lambda: directory.log("t", 0), lambda: directory.delete("t", 0), directory.checkpoint):
        with pytest.raises(errors.LogClosedError):
            call()


@pytest.mark.parametrize("stop", ["clean", "killed"])
def test_noted_losses_and_gaps_count_beside_our_own_checkpoints(tmp_path: Path, stop: str) -> None:
    """Our checkpoints have Kafka's form and are newer than the notes, but Kafka did not have the log."""
    config = LogConfig(cleanup_policy="compact", segment_bytes=1 << 16)
    with LogDir(tmp_path / "data") as directory:
        log = directory.log("t", 0, config=config)
        for number in range(30):
            log.append_record(b"%d" % number, b"key-%d" % (number % 3))
            if number % 10 == 9:
                log.roll()
        log.flush()
        log.compact(force=True)
        for number in range(10):
            log.append_record(b"%d" % number, b"key-%d" % number)
        log.roll()
        log.append_record(b"last", b"key")
        log.flush()
        directory.checkpoint()
        bases = [segment.base_offset for segment in log.segments if segment.size > 0]
    partition = tmp_path / "data" / "t-0"
    if stop == "killed":
        (tmp_path / "data" / CLEAN_SHUTDOWN).unlink()
    (partition / f"{bases[-2]:020d}.log").unlink()      # behind what was compacted
    for _ in range(2):
        with LogDir(tmp_path / "data") as directory:
            log = directory.log("t", 0, config=config)
            with pytest.raises(errors.CorruptLogError) as caught:
                log.read(bases[-2], isolation="log_end")
            assert (caught.value.offset, caught.value.next_offset) == (bases[-2], bases[-1])
            directory.checkpoint()
