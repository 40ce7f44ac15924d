"""Requests with an `Idempotency-Key`: a repeated one gets the first one's answer and stores nothing.

The answers are in the memory of this process, for a limited time and number. A request that is repeated at another
gateway, or after a restart, is stored again.
"""

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, Generic, NamedTuple, TypeVar

from kraft.gateway.errors import RequestError, bad_request

KEY_CHARACTERS_MAX: Final = 255

Answer = TypeVar("Answer")


class _Kept(NamedTuple, Generic[Answer]):
    content: bytes
    answer: "asyncio.Task[Answer]"
    until_s: float
    records: int


class Repeats(Generic[Answer]):
    """Answers by key, each for `seconds`, of at most `records_max` records together. Used on the loop's thread."""

    def __init__(self, records_max: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._records_max = records_max
        self._records = 0
        self._seconds = seconds
        self._clock = clock
        self._kept: OrderedDict[tuple[bytes, str, str], _Kept[Answer]] = OrderedDict()

    async def once(self, name: tuple[bytes, str, str], content: bytes,
                   act: Callable[[], Awaitable[Answer]], records: int = 1) -> tuple[Answer, bool]:
        """Return the answer of `act`, and whether it is an earlier one. `name` is the identity, the topic and the key;
        `records` is how many the answer is about.

        A failed request is forgotten, so its repetition is carried out. Raises `RequestError` when the key had another
        content, and when all answers that may be kept are of requests in progress.
        """
        if not 1 <= len(name[2]) <= KEY_CHARACTERS_MAX:
            raise bad_request(f"Idempotency-Key: {len(name[2])} characters; allowed: 1 to {KEY_CHARACTERS_MAX}")
        digest = hashlib.sha256(content).digest()
        found = self._find(name)
        if found is not None:
            if found.content != digest:
                raise RequestError(422, "INVALID_REQUEST", f"Idempotency-Key: {name[2]!r} came with another content "
                                                           "before")
            return await asyncio.shield(found.answer), True
        self._make_room(records)
        task = asyncio.ensure_future(act())
        kept = self._kept[name] = _Kept(digest, task, self._clock() + self._seconds, records)
        self._records += records
        try:
            return await asyncio.shield(task), False
        except Exception:
            if self._kept.get(name) is kept:
                self._forget(name)
            raise

    def _find(self, name: tuple[bytes, str, str]) -> _Kept[Answer] | None:
        found = self._kept.get(name)
        if found is not None and found.answer.done() and (
                found.until_s < self._clock() or found.answer.cancelled() or found.answer.exception() is not None):
            self._forget(name)
            return None
        return found

    def _forget(self, name: tuple[bytes, str, str]) -> None:
        self._records -= self._kept.pop(name).records

    def _make_room(self, records: int) -> None:
        while self._kept:
            name, oldest = next(iter(self._kept.items()))
            has_room = self._records + records <= self._records_max
            if has_room and (oldest.until_s >= self._clock() or not oldest.answer.done()):
                return
            if not oldest.answer.done():
                raise RequestError(503, "THROTTLING_QUOTA_EXCEEDED", "too many requests with an Idempotency-Key are in "
                                                                     "progress", retry_after=1)
            self._forget(name)
