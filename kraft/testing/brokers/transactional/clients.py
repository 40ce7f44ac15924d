"""Common parts of transactional clients and readers: requests, leaders, coordinators. Each client is a coroutine."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, TypeVar

from kraft.metadata.image import NO_LEADER, MetadataImage, PartitionRegistration
from kraft.metadata.versions import TRANSACTION_VERSION
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.error_names import name_of
from kraft.protocol.message import Message
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from kraft.testing.brokers.admin import TRANSACTIONAL_TOPIC
from kraft.testing.brokers.clients import BACKOFF_MS
from kraft.testing.brokers.frames import call_of
from kraft.testing.brokers.transactional.async_loop import AsyncLoop
from kraft.testing.brokers.wire import Connection, Hold, Reply, Wire
from kraft.testing.sim.loop import Loop
from kraft.testing.sim.options import MILLISECOND, SECOND, Options
from kraft.testing.transactions.history import History

TOPIC: Final = TRANSACTIONAL_TOPIC
FIND_COORDINATOR_VERSION: Final = 4
GROUP: Final = 0
TRANSACTION: Final = 1
LATE_LANES: Final = 4
LONG_BACKOFF_MS: Final = 1000
"""Pause of clients in a run of hours."""
ELSEWHERE: Final = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)

Found = TypeVar("Found", bound=Message)


def longest_pause_ms(mean_ms: int) -> int:
    """Return the length of the longest pause among those with this mean length."""
    return 2 * mean_ms


@dataclass(slots=True)
class Around:
    """Environment of the clients. `image_of(random)` is the metadata as some broker knows it, None without one. All
    clients share the event loop `async_loop`."""

    loop: Loop
    wire: Wire
    options: Callable[[], Options]
    counts: dict[str, int]
    history: History
    image_of: Callable[[Random], MetadataImage | None]
    async_loop: AsyncLoop
    drain: Callable[[], None]
    clients: "list[AsyncClient]" = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return self.loop.now_us / SECOND


class AsyncClient:
    """A process that only sends requests. `is_over`: it has ended."""

    life = 0
    is_up = True

    def __init__(self, number: int, around: Around, random: Random) -> None:
        self.id = number
        self.is_over = False
        self._around = around
        self._random = random
        self._coordinators: dict[tuple[str, int], int] = {}
        self._late = 0
        self.lost_answers = 0
        """Requests to coordinators that had no answer."""
        around.clients.append(self)

    def start(self, steps: Coroutine[Any, Any, None]) -> None:
        """Begin the life of the client."""
        self._around.async_loop.enter()
        self._around.async_loop.create_task(self._live(steps))
        self._around.drain()

    async def _live(self, steps: Coroutine[Any, Any, None]) -> None:
        """Let no failure pass unnoticed: each ends the run."""
        try:
            await steps
        except Exception as error:  # noqa: BLE001 - whatever it is, the run has to report it
            self._around.async_loop.call_exception_handler({"exception": error})

    def call(self, function: Callable[..., None], *arguments: object) -> None:
        self._around.async_loop.enter()
        function(*arguments)
        self._around.drain()

    def serve(self, body: object, source_id: int, reply: Reply) -> None:
        raise AssertionError(f"{source_id} sends a client {body}, and {reply} waits")

    @property
    def options(self) -> Options:
        return self._around.options()

    def count(self, name: str) -> None:
        self._around.counts[name] += 1

    def happens(self, per_mille: int) -> bool:
        return self._random.randrange(1000) < per_mille

    # --- requests -----------------------------------------------------------------------------------------------------

    async def query(self, target_id: int, request: Message, version: int, answer_type: type[Found],
                  lane: str = "client", timeout_ms: int = 0) -> Found | None:
        """Send a request and return its answer; None when the connection breaks, or when no answer comes in time, by
        default that of the options."""
        wire = self._around.wire
        answer: asyncio.Future[object] = self._around.async_loop.create_future()

        def answered(body: object) -> None:
            if not answer.done():
                answer.set_result(body)

        call = call_of(request, version)
        connection = wire.request(self, target_id, f"{lane} {self.id}", call, answered)
        try:
            async with asyncio.timeout((timeout_ms or self.options.request_ms) / 1000):
                found = await answer
        except TimeoutError:
            found = None
        if found is None:
            if connection is not None:
                connection.close()
                self.abandoned(connection)
            return None
        assert isinstance(found, answer_type)
        return found

    def abandoned(self, connection: Connection) -> None:
        """Note that a request over this connection may still arrive, although no answer of it is read."""

    def repeat_late(self, target_id: int, request: Message, version: int) -> bool:
        """Let the request arrive again after a while, by chance; return whether it will."""
        is_repeated = self.happens(self.options.repeat_per_mille)
        if is_repeated:
            self.count("request repeated late")
            self.send_late(target_id, request, version)
        return is_repeated

    def send_late(self, target_id: int, request: Message, version: int) -> None:
        """Let the request arrive after a while, over another connection. Its answer is discarded."""
        self._late = (self._late + 1) % LATE_LANES
        connection = self._around.wire.open(self, target_id, f"late {self._late} {self.id}", lambda: None)
        if connection is not None:
            late_us = self._random.randrange(1, 3 * self.options.request_ms * MILLISECOND)
            connection.holds.append(Hold(self._around.loop.now_us + late_us, requests=True))
            connection.request(call_of(request, version), lambda _body: None)
            self.abandoned(connection)

    async def pause(self, mean_ms: int = 0) -> None:
        """Wait for about so long; 0: until a failed request may be sent again."""
        mean_ms = mean_ms or (LONG_BACKOFF_MS if self.options.quiet_seconds else BACKOFF_MS)
        await asyncio.sleep((1 + self._random.randrange(longest_pause_ms(mean_ms))) / 1000)

    # --- the metadata -------------------------------------------------------------------------------------------------

    def image(self) -> MetadataImage | None:
        """Return the metadata as some broker knows it."""
        return self._around.image_of(self._random)

    def partition(self, topic: str, index: int) -> PartitionRegistration | None:
        """Return a partition that has a leader; None when it is unknown."""
        image = self.image()
        found = None if image is None else image.partition(topic, index)
        return None if found is None or found.leader == NO_LEADER else found

    def transaction_version(self) -> int | None:
        image = self.image()
        return None if image is None else image.features.get(TRANSACTION_VERSION, 0)

    async def coordinator(self, key: str, kind: int) -> int:
        """Return the coordinator of a key, however long that takes."""
        while (known := self._coordinators.get((key, kind))) is None:
            image = self.image()
            brokers = [] if image is None else [each.broker_id for each in image.brokers.values() if each.active]
            if brokers:
                request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
                found = await self.query(self._random.choice(brokers), request, FIND_COORDINATOR_VERSION,
                                       FindCoordinatorResponse, "find")
                if found is not None and found.coordinators[0].error_code == ErrorCode.NONE:
                    self._coordinators[key, kind] = found.coordinators[0].node_id
                    continue
            await self.pause()
        return known

    async def query_coordinator(self, key: str, kind: int, request: Message, version: int, answer_type: type[Found],
                              errors_of: Callable[[Found], list[int]], until: float,
                              permanent: Callable[[int], bool]) -> Found | None:
        """Send a request to a coordinator until it succeeds or an error is permanent. Return the answer; None when
        that lasts until then, in seconds. The answer's errors, by `errors_of`, are zero, or one of them is
        permanent."""
        while self._around.seconds < until:
            target_id = await self.coordinator(key, kind)
            answer = await self.query(target_id, request, version, answer_type, "coordinator")
            if answer is None:
                self.lost_answers += 1
                self._coordinators.pop((key, kind), None)
            else:
                errors = errors_of(answer)
                for error in errors:
                    if error:
                        self.count(f"{answer_type.__name__}: {name_of(error)}")
                if not any(errors) or any(permanent(error) for error in errors if error):
                    return answer
                if any(error in ELSEWHERE for error in errors):
                    self._coordinators.pop((key, kind), None)
            await self.pause()
        return None
