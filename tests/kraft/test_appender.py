"""Appending from any thread and from event loops: nothing is lost, mixed up, or answered too early."""

import asyncio
import threading
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import pytest

from kraft import Appender, AsyncLog, Log, errors
from kraft_native.file import faults

SOON = 20.0
DURABILITIES = ("page-cache", "group-commit", "per-append")


@pytest.mark.parametrize("durability", DURABILITIES)
def test_many_threads_append(tmp_path: Path, durability: Any) -> None:
    """The records of each thread stay in their order, and each offset is that of its record."""
    found: dict[bytes, int] = {}

    def work(number: int) -> None:
        futures = {b"%d:%d" % (number, index): log.append(b"%d:%d" % (number, index), key=b"k") for index in range(200)}
        for value, future in futures.items():
            found[value] = future.result(SOON)

    with Appender(tmp_path / "log", durability=durability, codec="lz4") as log:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert log.call(lambda owned: owned.high_watermark).result(SOON) == 800
    with Log(tmp_path / "log") as log_again:
        stored = {record.value: record.offset for record in log_again}
    assert stored == found
    for number in range(4):
        offsets = [found[b"%d:%d" % (number, index)] for index in range(200)]
        assert offsets == sorted(offsets)


def test_group_commit_answers_when_it_is_durable(tmp_path: Path) -> None:
    with Appender(tmp_path / "log", durability="group-commit", flush_interval_us=60_000_000) as log:
        log.append(b"a").result(SOON)
        assert log.call(lambda owned: owned.durable_end_offset).result(SOON) == 1


def test_a_refused_record_harms_no_other(tmp_path: Path) -> None:
    with Appender(tmp_path / "log", max_message_bytes=10_000) as log:
        gate = threading.Event()
        log.call(lambda _: gate.wait(SOON))      # so that all of them are of one batch
        good = log.append(b"good", headers={"a": b"b"})
        bad: list[Any] = [log.append("text"), log.append(b"late", timestamp_ms=2**60),  # type: ignore[arg-type]
                          log.append(b"x" * 20_000), log.append(b"y", timestamp_ms=1.5)]  # type: ignore[arg-type]
        left_out = log.append(b"cancelled")
        assert left_out.cancel()
        last = log.append_input((b"last", b"key"))
        gate.set()
        assert (good.result(SOON), last.result(SOON)) == (0, 1)
        for future, kind in zip(bad, (errors.InvalidArgumentError, errors.InvalidTimestampError,
                                      errors.MessageTooLargeError, TypeError), strict=True):
            with pytest.raises(kind):
                future.result(SOON)
        with pytest.raises(CancelledError):
            left_out.result(SOON)
        with pytest.raises(errors.InvalidArgumentError, match="headers: 5 is no mapping"):
            log.append(b"z", headers=5)  # type: ignore[arg-type]
        found = log.get(0)
        assert found is not None and (found.value, found.headers) == (b"good", (("a", b"b"),))
    with pytest.raises(errors.LogClosedError):
        log.append(b"after")
    log.close()


def test_pending_requests_are_bounded(tmp_path: Path) -> None:
    with Appender(tmp_path / "log", queue_bytes_max=100_000) as log:
        gate, inside = threading.Event(), threading.Event()
        log.call(lambda _: (inside.set(), gate.wait(SOON)))
        assert inside.wait(SOON)
        taken = 0
        while (future := log.offer(b"x" * 10_000)) is not None:
            taken += 1
        assert taken == 10
        blocked = threading.Thread(target=lambda: log.append(b"y").result(SOON))
        blocked.start()
        gate.set()
        blocked.join()
        assert future is None and log.call(lambda owned: owned.log_end_offset).result(SOON) == 11


def test_errors_of_opening(tmp_path: Path) -> None:
    with Log(tmp_path / "log"), pytest.raises(errors.LogLockedError):
        Appender(tmp_path / "log")
    with pytest.raises(errors.InvalidArgumentError, match="queue_bytes_max"):
        Appender(tmp_path / "log", queue_bytes_max=0)


def test_a_failed_disk_fails_what_follows(tmp_path: Path) -> None:
    log = Appender(tmp_path / "log")
    assert log.append(b"a").result(SOON) == 0
    with faults.fail_at(1, error=5, kinds=["write"]), pytest.raises(errors.StorageError):
        log.append(b"b").result(SOON)
    with pytest.raises(errors.LogReadOnlyError):
        log.append(b"c").result(SOON)
    log.close()


def test_calls_run_in_the_logs_thread(tmp_path: Path) -> None:
    with Appender(tmp_path / "log", segment_bytes=4096) as log:
        for index in range(100):
            log.append(b"%d" % index * 50)
        assert log.flush()
        assert log.call(lambda owned: owned.delete_records(10)).result(SOON) == 10
        with pytest.raises(errors.OffsetOutOfRangeError):
            log.get(3)
        with pytest.raises(errors.InvalidArgumentError, match="waits for the thread"):
            log.call(lambda _: log.close()).result(SOON)
        with log.reader() as reader:
            assert sum(1 for _ in reader.records(10)) == 90
        made = log.call(lambda owned: owned.backup(tmp_path / "copy")).result(SOON)
        assert (made.log_start_offset, made.log_end_offset) == (10, 100)


def test_an_event_loop_appends(tmp_path: Path) -> None:
    async def main() -> None:
        async with await AsyncLog.open(tmp_path / "log", durability="group-commit", queue_bytes_max=5_000) as log:
            offsets = await asyncio.gather(*(log.append(b"%d" % index) for index in range(50)))
            assert sorted(offsets) == list(range(50))
            assert await log.append_many([b"a", (b"b", b"k")]) == [50, 51]
            with pytest.raises(errors.InvalidTimestampError):
                await log.append_many([b"c", (b"d", None, 2**60), b"e"])
            await log.flush()
            found = await log.get(53)
            assert found is not None and found.value == b"e"
            seen = []
            async for batch in log.follow(50):
                seen += [record.offset for record in await log.call(
                    lambda owned, each=batch: list(owned.records(each.base_offset, each.next_offset)))]
                if seen[-1] == 53:
                    break
            assert seen == [50, 51, 52, 53]

    asyncio.run(main())
