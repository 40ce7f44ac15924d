"""A log for an event loop: bounded, without a thread for each call or follower, and nothing is missed at the end."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from kraft import AsyncLog, errors
from kraft.appender import Appender

SOON = 20.0
WRONG: Any = {"key": b"a record without a value"}


async def until(condition: object, seconds: float = SOON) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # type: ignore[operator]  # noqa: ASYNC110 - the condition has no event
            await asyncio.sleep(0)


def test_tasks_wait_for_room_without_threads_and_in_their_order(tmp_path: Path) -> None:
    async def main() -> None:
        async with await AsyncLog.open(tmp_path / "log", queue_bytes_max=5_000) as log:
            gate, inside = threading.Event(), threading.Event()
            held = log.appender.call(lambda _: (inside.set(), gate.wait(SOON)))
            await asyncio.to_thread(inside.wait, SOON)
            threads = threading.active_count()
            tasks = [asyncio.create_task(log.append(b"%d" % number)) for number in range(200)]
            for _ in range(20):
                await asyncio.sleep(0)
            assert not any(task.done() for task in tasks)
            assert len(log.appender._items) <= 5        # the others wait here, not in the queue
            assert threading.active_count() == threads
            tasks.pop(100).cancel()
            gate.set()
            assert await asyncio.gather(*tasks) == list(range(199))
            assert held.done()
            assert [record.value async for record in log.records(98, 102)] == [b"98", b"99", b"101", b"102"]

    asyncio.run(main())


def test_a_submitted_record_is_awaited_later(tmp_path: Path) -> None:
    async def main() -> None:
        async with await AsyncLog.open(tmp_path / "log", durability="group-commit") as log:
            futures = [await log.submit((b"%d" % number, b"key")) for number in range(10)]
            assert [await future for future in futures] == list(range(10))
            assert await log.call(lambda owned: owned.durable_end_offset) == 10

    asyncio.run(main())


def test_many_followers_need_no_threads(tmp_path: Path) -> None:
    """More than the 64 that a log has room for."""
    async def main() -> None:
        async with await AsyncLog.open(tmp_path / "log") as log:
            seen: list[list[int]] = [[] for _ in range(100)]

            async def follow(found: list[int]) -> None:
                async for record in log.records():
                    found.append(record.offset)

            await log.append(b"first")
            threads = threading.active_count()
            followers = [asyncio.create_task(follow(found)) for found in seen]
            await until(lambda: all(found == [0] for found in seen))
            assert threading.active_count() == threads
            await log.append_many([b"second", b"third"])
            await until(lambda: all(found == [0, 1, 2] for found in seen))
            followers[0].cancel()
            last = await log.submit(b"last")
            await log.close()
            ended = await asyncio.gather(*followers, return_exceptions=True)
            assert isinstance(ended[0], asyncio.CancelledError)
            assert all(isinstance(each, errors.LogClosedError) for each in ended[1:])
            assert all(found == [0, 1, 2, 3] for found in seen[1:])     # the last record too
            assert await last == 3

    asyncio.run(main())


def test_records_between_two_offsets(tmp_path: Path) -> None:
    async def main() -> None:
        async with await AsyncLog.open(tmp_path / "log") as log:
            await log.append_many([b"%d" % number for number in range(10)])
            assert [record.offset async for record in log.records(3, 6)] == [3, 4, 5]
            assert [record.offset async for record in log.records(3, 3)] == []
            with pytest.raises(errors.OffsetOutOfRangeError):
                await anext(aiter(log.records(99)))

    asyncio.run(main())


def test_a_log_whose_opening_was_cancelled_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody could close it, and no other would open its directory."""
    gate, opening, closed = threading.Event(), threading.Event(), threading.Event()

    class Slow(Appender):
        def __init__(self, *arguments: Any, **settings: Any) -> None:
            opening.set()
            gate.wait(SOON)
            super().__init__(*arguments, **settings)

        def close(self) -> None:
            super().close()
            closed.set()

    async def main() -> None:
        monkeypatch.setattr("kraft.async_log.Appender", Slow)
        waiting = asyncio.create_task(AsyncLog.open(tmp_path / "log"))
        await asyncio.to_thread(opening.wait, SOON)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        gate.set()
        assert await asyncio.to_thread(closed.wait, SOON)
        monkeypatch.undo()
        async with await AsyncLog.open(tmp_path / "log") as log:
            assert await log.append(b"x") == 0

    asyncio.run(main())


def test_a_cancelled_close_still_wakes_followers(tmp_path: Path) -> None:
    async def main() -> None:
        log = await AsyncLog.open(tmp_path / "log")
        gate = threading.Event()
        follower = asyncio.ensure_future(anext(aiter(log.records())))
        await until(lambda: log._tail is not None and log._tail._armed is not None and log._tail._armed.done())
        log.appender.call(lambda _: gate.wait(SOON))
        closing = asyncio.create_task(log.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert log._tail is not None        # the log's thread still has its descriptor
        gate.set()
        with pytest.raises(errors.LogClosedError):
            await asyncio.wait_for(follower, SOON)
        await until(lambda: log._tail is None)
        with pytest.raises(errors.LogClosedError):
            await anext(aiter(log.records()))
        assert log._tail is None            # nobody would close it again

    asyncio.run(main())


def test_a_full_queue_of_a_closed_log_is_no_reason_to_wait(tmp_path: Path) -> None:
    """A task would be woken, find no room, and wait again, without an end."""
    appender = Appender(tmp_path / "log", queue_bytes_max=1)
    appender.close()
    appender._waiting_bytes = 1     # as after a failure of its thread
    with pytest.raises(errors.LogClosedError):
        appender.offer(b"x")


def test_a_record_that_cannot_be_queued_leaves_no_result_behind(tmp_path: Path) -> None:
    async def main() -> None:
        async with await AsyncLog.open(tmp_path / "log") as log:
            with pytest.raises(errors.InvalidArgumentError):
                await log.append_many([b"one", b"two", WRONG, b"four"])
            assert [record.value async for record in log.records(0, 2)] == [b"one", b"two"]
            assert await log.append(b"five") == 2

    asyncio.run(main())
