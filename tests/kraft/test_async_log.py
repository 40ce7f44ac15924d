"""A log for an event loop: bounded, without a thread for each call or follower, and nothing is missed at the end."""

import asyncio
import threading
from pathlib import Path

import pytest

from kraft import AsyncLog, errors

SOON = 20.0


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
