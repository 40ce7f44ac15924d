"""Requests with a key: the first answer for all repetitions, and nothing is kept of a request that failed."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kraft.gateway.errors import RequestError
from kraft.gateway.repeats import Repeats

NAME = (b"user", "topic", "key")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def counting(results: list[int]) -> Callable[[], Awaitable[int]]:
    async def act() -> int:
        results.append(len(results))
        await asyncio.sleep(0)
        return results[-1]

    return act


def test_a_repetition_gets_the_first_answer() -> None:
    async def main() -> None:
        clock, results = Clock(), list[int]()
        repeats: Repeats[int] = Repeats(10, 60, clock)
        first, second = await asyncio.gather(repeats.once(NAME, b"x", counting(results)),
                                             repeats.once(NAME, b"x", counting(results)))
        assert (first, second, results) == ((0, False), (0, True), [0])
        assert await repeats.once((b"other", *NAME[1:]), b"x", counting(results)) == (1, False)
        with pytest.raises(RequestError, match="came with another content") as caught:
            await repeats.once(NAME, b"y", counting(results))
        assert caught.value.status == 422
        clock.now = 61
        assert await repeats.once(NAME, b"y", counting(results)) == (2, False)

    asyncio.run(main())


def test_a_failed_request_may_be_repeated() -> None:
    async def fail() -> int:
        raise RequestError(502, "BROKER_NOT_AVAILABLE", "down")

    async def main() -> None:
        repeats: Repeats[int] = Repeats(10, 60, Clock())
        with pytest.raises(RequestError, match="down"):
            await repeats.once(NAME, b"x", fail)
        assert await repeats.once(NAME, b"x", counting([])) == (0, False)

    asyncio.run(main())


def test_a_caller_that_leaves_does_not_stop_the_request() -> None:
    """Its records may be stored already; the repetition must learn their offsets."""
    async def main() -> None:
        gate, results = asyncio.Event(), list[int]()

        async def slow() -> int:
            await gate.wait()
            results.append(7)
            return 7

        repeats: Repeats[int] = Repeats(10, 60, Clock())
        caller = asyncio.create_task(repeats.once(NAME, b"x", slow))
        await asyncio.sleep(0)
        caller.cancel()
        await asyncio.gather(caller, return_exceptions=True)
        gate.set()
        assert await repeats.once(NAME, b"x", slow) == (7, True)
        assert results == [7]

    asyncio.run(main())


def test_keys_are_bounded() -> None:
    async def main() -> None:
        results: list[int] = []
        repeats: Repeats[int] = Repeats(2, 60, Clock())
        for number in range(5):
            await repeats.once((b"", "t", str(number)), b"x", counting(results))
        assert len(repeats._kept) == 2
        for key in ("", "x" * 256):
            with pytest.raises(RequestError, match="Idempotency-Key: "):
                await repeats.once((b"", "t", key), b"x", counting(results))

    asyncio.run(main())


def test_answers_count_by_their_records() -> None:
    """One request has thousands of them."""
    async def main() -> None:
        results: list[int] = []
        repeats: Repeats[int] = Repeats(10, 60, Clock())

        async def once(key: str, records: int) -> bool:
            return (await repeats.once((b"", "t", key), b"x", counting(results), records))[1]

        assert [await once(key, 4) for key in "abc"] == [False] * 3
        assert await once("b", 4) and await once("c", 4)
        assert not await once("a", 4)       # its answer made room for that of c
        assert not await once("large", 100)
        assert len(repeats._kept) == 1
        assert not await once("a", 4)
        assert [name[2] for name in repeats._kept] == ["a"]

    asyncio.run(main())
