"""Work in slices on the loop: its order, its bound, its end."""

import asyncio
import time
from collections.abc import Generator

import pytest

from kraft.runtime.base.time_slices import WorkQueue


def work(done: list[str], name: str, steps: int) -> Generator[None]:
    for number in range(steps):
        done.append(f"{name}{number}")
        yield
    done.append(f"{name}.")


async def until_empty(queue: WorkQueue) -> int:
    """Return the number of iterations of the loop until all is done."""
    count = 0
    while queue:
        await asyncio.sleep(0)
        count += 1
        assert count < 10_000
    return count


class Clock:
    """Replaces the processor time of the thread: each reading takes 1 ms of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(time, "thread_time", self.read)

    def read(self) -> float:
        self.now += 0.001
        return self.now


def test_short_work_ends_in_the_call_that_adds_it() -> None:
    async def run() -> None:
        done: list[str] = []
        queue = WorkQueue(pytest.fail)
        queue.add(work(done, "a", 3))
        assert done == ["a0", "a1", "a2", "a."] and not queue
    asyncio.run(run())


def test_long_work_is_done_in_slices_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        done: list[str] = []
        Clock(monkeypatch)
        slices: list[str] = []
        queue = WorkQueue(pytest.fail, lambda: slices.append(done[-1]))
        queue.add(work(done, "a", 20))
        assert done[-1] == "a4" and queue and not slices       # five milliseconds
        queue.add(work(done, "b", 4))
        assert done[-1] == "a4"
        assert await until_empty(queue) >= 4
        assert slices[:3] == ["a9", "a14", "a19"] and slices[-1] == "b."
        assert done == [*(f"a{number}" for number in range(20)), "a.", "b0", "b1", "b2", "b3", "b."]
    asyncio.run(run())


def test_a_step_may_add_work() -> None:
    async def run() -> None:
        done: list[str] = []
        queue = WorkQueue(pytest.fail)

        def first() -> Generator[None]:
            queue.add(work(done, "b", 1))
            done.append("a")
            yield
            done.append("a.")

        queue.add(first())
        assert done == ["a", "a.", "b0", "b."]
    asyncio.run(run())


@pytest.mark.parametrize("steps", [0, 20])
def test_an_error_ends_all_work(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first slice raises it to the caller; a later one passes it on."""
    async def run() -> None:
        failures: list[BaseException] = []
        done: list[str] = []
        Clock(monkeypatch)
        queue = WorkQueue(failures.append)

        def fails() -> Generator[None]:
            yield from work(done, "a", steps)
            raise OSError("no room")

        if steps:
            queue.add(fails())
            queue.add(work(done, "b", 1))
            await until_empty(queue)
            assert len(failures) == 1
        else:
            with pytest.raises(OSError, match="no room"):
                queue.add(fails())
            assert not failures
        queue.add(work(done, "c", 1))
        assert not queue and not any(each[0] in "bc" for each in done)
    asyncio.run(run())


@pytest.mark.parametrize("inside", [False, True])
def test_closing_drops_what_is_not_done(inside: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        ended: list[str] = []
        Clock(monkeypatch)
        queue = WorkQueue(pytest.fail)

        def endless(name: str) -> Generator[None]:
            try:
                while True:
                    yield
                    if inside and time.thread_time() > 0.02:
                        queue.close()
            finally:
                ended.append(name)

        for name in "ab":
            queue.add(endless(name))
        if inside:
            await until_empty(queue)
        queue.close()
        queue.close()
        assert ended == ["a"] and not queue    # the other one has not begun
        await asyncio.sleep(0)
    asyncio.run(run())


def test_a_last_step_that_closes_begins_no_other_work() -> None:
    async def run() -> None:
        done: list[str] = []
        queue = WorkQueue(pytest.fail)

        def last() -> Generator[None]:
            queue.add(work(done, "b", 1))
            yield
            queue.close()

        queue.add(last())
        assert not done and not queue
    asyncio.run(run())
