"""Common part of the coordinators: the calls of the driver, and the dispatch of requests."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, Generic, TypeAlias, TypeVar

from kraft.broker.coordinator.answer import RequestContext
from kraft.broker.coordinator.shard import StateMachine
from kraft.broker.coordinator.shards import Shards
from kraft.protocol.message import Message

S = TypeVar("S", bound=StateMachine)
Respond: TypeAlias = Callable[[Any], None]
Handlers: TypeAlias = dict[type[Message], Callable[[Any, RequestContext, Respond, int], None]]


class Coordinator(ABC, Generic[S]):
    """Coordinator over the shards of one internal topic. Used by one thread, which passes the time: milliseconds since
    1970, which never decrease."""

    def __init__(self, shards: Shards[S]) -> None:
        self.shards = shards

    @cached_property
    def _handlers(self) -> Handlers:
        return self._make_handlers()

    @abstractmethod
    def _make_handlers(self) -> Handlers:
        """Return one function per type of request. Called for the first request: it may import what serves them, which
        a node does without until then."""

    @property
    def partition_count(self) -> int | None:
        """Number of partitions of the internal topic; None until the topic exists, with NOT_COORDINATOR as the
        answer."""
        return self.shards.partition_count

    @partition_count.setter
    def partition_count(self, count: int | None) -> None:
        self.shards.partition_count = count

    @property
    def requests(self) -> tuple[type[Message], ...]:
        """Request types that `handle` accepts."""
        return tuple(self._handlers)

    def handle(self, request: Message, context: RequestContext, respond: Respond, now_ms: int) -> None:
        """Serve one request; `respond` gets its response message once, now or later."""
        self._handlers[type(request)](request, context, respond, now_ms)

    @property
    def deadline_ms(self) -> int | None:
        """Latest time for the next `tick`; None when none is needed."""
        return self.shards.deadline_ms

    def tick(self, now_ms: int) -> None:
        """Run the clocks. When much is due at once, `deadline_ms` stays in the past until all is done."""
        self.shards.tick(now_ms)

    def committed(self, partition: int, high_watermark: int, now_ms: int) -> None:
        """Advance the high watermark of a partition of the internal topic."""
        self.shards.committed(partition, high_watermark, now_ms)
