"""The way to the states of share partitions: which coordinator gets which part of a request, and when again.

    submit --> chain of the share partition --> due --take--> in flight --answered--> finished
                                                 ^---- pause <-- failed, or no leader ----'

A request is divided into one *element* per partition. Elements for one coordinator that have the same API and group
share a request. Rules:

- Elements of one share partition are served one after the other, in the order in which they came, repetitions included.
  So a late repetition of a write cannot follow a newer write.
- A broker has up to `LANES` requests in flight, each on a connection of its own. A partition of the log that commits
  slowly does not delay the others. This node's own coordinator has no limit.
- An error that passes is followed by another attempt, after a pause that doubles, at the present leader. After
  `RETRY_MS` it is the result. What has no result by then gets COORDINATOR_NOT_AVAILABLE.
- A request is finished when each of its elements is. It has one answer, with a result for each partition (KAFKA-17442).

Nothing here calls back: `finished` returns the answers that are due, so that an answer may submit the next request.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, Protocol

from kraft.broker.share_state.responses import ANSWERS, refused_partition
from kraft.broker.share_state.state import ShareKey
from kraft.metadata.image import NO_LEADER
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message

LANES: Final = 4
RETRY_MS: Final = 15_000
FIRST_PAUSE_MS: Final = 50
PAUSE_MS_MAX: Final = 1_000
ELEMENTS_PER_REQUEST: Final = 256
WEIGHT_PER_REQUEST: Final = 4_000
"""Limit of the elements of a request and their state batches, together."""
READ_WEIGHT: Final = 64
"""Weight of a state that is read: its batches are in the answer."""
OWN_ELEMENTS: Final = 64
OWN_WEIGHT: Final = 2_000
"""The same limits for requests to the coordinator of this node, which decides one in one step."""
ELEMENTS_MAX: Final = 100_000
"""Elements that wait. More are refused at once with COORDINATOR_NOT_AVAILABLE."""
PASSING: Final = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                  ErrorCode.NOT_COORDINATOR, ErrorCode.NETWORK_EXCEPTION)
"""Errors after which a coordinator may accept the same request."""

OF_METADATA: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNSUPPORTED_VERSION)
"""Errors that pass where the metadata of the coordinator is behind."""

Lane = tuple[int, int]
"""Number of a broker, and of one connection to it."""


class Coordinators(Protocol):
    """Coordinators of share partitions, from the committed metadata."""

    def coordinator_of(self, key: ShareKey) -> int | None:
        """Return the id of the broker that coordinates; NO_LEADER without one, None while the topic does not exist."""

    def has_partition(self, key: ShareKey) -> bool:
        """Return whether the partition exists."""

    @property
    def are_on(self) -> bool:
        """Return whether the cluster has share groups."""


class _Call:
    """A request under way, and the results of its partitions."""

    __slots__ = ("answer", "missing", "request", "results")

    def __init__(self, request: Any, answer: Callable[[Message], None]) -> None:
        self.request = request
        self.answer = answer
        self.missing = sum(len(topic.partitions) for topic in request.topics)
        self.results: list[Any] = [None] * self.missing

    def response(self) -> Message:
        answers, left = ANSWERS[self.request.API_KEY], iter(self.results)
        response: Message = answers.response(results=[
            answers.topic(topic_id=topic.topic_id, partitions=[next(left) for _ in topic.partitions])
            for topic in self.request.topics])
        return response


class Element:
    """One partition of a request. `data` is the request's struct of it, `place` that of its result."""

    __slots__ = ("call", "data", "expires_ms", "key", "pause_ms", "place")

    def __init__(self, call: _Call, key: ShareKey, data: Any, place: int, expires_ms: int) -> None:
        self.call = call
        self.key = key
        self.data = data
        self.place = place
        self.expires_ms = expires_ms
        self.pause_ms = FIRST_PAUSE_MS

    @property
    def api_key(self) -> int:
        return int(self.call.request.API_KEY)

    @property
    def weight(self) -> int:
        if self.api_key == ApiKey.READ_SHARE_GROUP_STATE:
            return READ_WEIGHT
        return 1 + len(getattr(self.data, "state_batches", ()))


class Dispatch(NamedTuple):
    """A request to send. `answered` is to be called once with the outcome."""

    lane: Lane
    request: Message
    elements: tuple[Element, ...]


class PersisterQueue:
    """All requests under way. Used by one thread, which passes the time: milliseconds of a clock that never goes
    back."""

    def __init__(self, node_id: int, coordinators: Coordinators) -> None:
        self._node_id = node_id
        self._coordinators = coordinators
        self._chains: dict[ShareKey, deque[Element]] = {}
        """Elements of each share partition. The first of each is due, in flight, or pauses."""
        self._due: dict[int, dict[tuple[int, str], deque[Element]]] = {}
        """Elements to send, by broker, and by API and group."""
        self._lanes: dict[int, list[int]] = {}
        """Free lanes of each broker."""
        self._pausing: list[tuple[int, int, Element]] = []
        self._sequence = 0
        self._finished: deque[_Call] = deque()
        self._count = 0
        self.lacks_topic = False
        """True once an element found no `__share_group_state`; the driver resets it."""

    def __len__(self) -> int:
        return self._count

    def submit(self, request: Any, answer: Callable[[Message], None], now_ms: int) -> None:
        """Add a request, which must name a group."""
        assert request.group_id, "share partitions belong to a group"
        call, place = _Call(request, answer), 0
        if not call.missing:
            self._finished.append(call)
        for topic in request.topics:
            for data in topic.partitions:
                key = ShareKey(request.group_id, topic.topic_id, data.partition)
                self._add(Element(call, key, data, place, now_ms + RETRY_MS), now_ms)
                place += 1

    def _add(self, element: Element, now_ms: int) -> None:
        self._count += 1
        if self._count > ELEMENTS_MAX:
            self._settle(element, _unavailable(element))
            return
        chain = self._chains.setdefault(element.key, deque())
        chain.append(element)
        if len(chain) == 1:
            self._attempt(element, now_ms)

    def _attempt(self, element: Element, now_ms: int) -> None:
        if not self._route(element):
            self._failed(element, _unavailable(element), now_ms)

    def _route(self, element: Element) -> bool:
        """Have an element sent to the present coordinator. Return False when there is none."""
        node_id = self._coordinators.coordinator_of(element.key)
        if node_id is None:
            self.lacks_topic = True
        if node_id is None or node_id == NO_LEADER:
            return False
        groups = self._due.setdefault(node_id, {})
        groups.setdefault((element.api_key, element.key.group_id), deque()).append(element)
        return True

    # ---------------------------------------------------------------- requests

    def brokers_due(self) -> list[int]:
        """Return the brokers for which elements are due; some may have no free lane."""
        return list(self._due)

    def take(self, node_id: int) -> Dispatch | None:
        """Return the next request for a broker; None when nothing is due, or as many are in flight as may be."""
        groups = self._due.get(node_id)
        if not groups:
            return None
        lanes = self._lanes.setdefault(node_id, list(range(LANES)))
        if not lanes and node_id != self._node_id:
            return None
        (api_key, group_id), waiting = next(iter(groups.items()))
        is_own = node_id == self._node_id
        elements = [waiting.popleft()]
        weight = elements[0].weight
        while waiting and len(elements) < (OWN_ELEMENTS if is_own else ELEMENTS_PER_REQUEST):
            weight += waiting[0].weight
            if weight > (OWN_WEIGHT if is_own else WEIGHT_PER_REQUEST):
                break
            elements.append(waiting.popleft())
        del groups[api_key, group_id]
        if waiting:
            groups[api_key, group_id] = waiting      # behind the others
        if not groups:
            del self._due[node_id]
        lane = 0 if is_own else lanes.pop()
        return Dispatch((node_id, lane), _joined(elements), tuple(elements))

    def answered(self, dispatch: Dispatch, response: Any, now_ms: int) -> None:
        """Accept the answer to a request; None when there was none."""
        node_id, lane = dispatch.lane
        if node_id != self._node_id:
            self._lanes[node_id].append(lane)
        found = {} if response is None else {
            (topic.topic_id, each.partition): each for topic in response.results for each in topic.partitions}
        for element in dispatch.elements:
            result = found.get((element.key.topic_id, element.key.partition))
            if response is None or (result is not None and self._passes(element, result.error_code)):
                self._failed(element, _unavailable(element) if result is None else result, now_ms)
            elif result is None:
                self._end(element, refused_partition(element.api_key, element.key.partition,
                                                     ErrorCode.UNKNOWN_SERVER_ERROR), now_ms)
            else:
                self._end(element, result, now_ms)

    def _passes(self, element: Element, code: int) -> bool:
        """Return whether an error may pass. The metadata of a coordinator may be behind that of this node."""
        return (code in PASSING
                or (code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and self._coordinators.has_partition(element.key))
                or (code == ErrorCode.UNSUPPORTED_VERSION and self._coordinators.are_on))

    def _failed(self, element: Element, result: Any, now_ms: int) -> None:
        if self._may_pause(element, now_ms):
            self._pause(element, now_ms)
        else:
            self._end(element, result if result.error_code in OF_METADATA else _unavailable(element), now_ms)

    def _may_pause(self, element: Element, now_ms: int) -> bool:
        return now_ms + element.pause_ms <= element.expires_ms

    def _pause(self, element: Element, now_ms: int) -> None:
        self._sequence += 1
        heapq.heappush(self._pausing, (now_ms + element.pause_ms, self._sequence, element))
        element.pause_ms = min(2 * element.pause_ms, PAUSE_MS_MAX)

    def _end(self, element: Element, result: Any, now_ms: int) -> None:
        """Give the first element of a share partition its result, and continue with the next one. Those that have
        waited too long and find no coordinator end too."""
        chain = self._chains[element.key]
        while True:
            self._settle(element, result)
            chain.popleft()
            if not chain:
                del self._chains[element.key]
                return
            element = chain[0]
            if self._route(element):
                return
            if self._may_pause(element, now_ms):
                self._pause(element, now_ms)
                return
            result = _unavailable(element)

    def _settle(self, element: Element, result: Any) -> None:
        self._count -= 1
        call = element.call
        call.results[element.place] = result
        call.missing -= 1
        if not call.missing:
            self._finished.append(call)

    # ---------------------------------------------------------------- answers and time

    def finished(self) -> Iterable[tuple[Callable[[Message], None], Message]]:
        """Remove the finished requests, and yield what each one's answer is to be called with."""
        while self._finished:
            call = self._finished.popleft()
            yield call.answer, call.response()

    def tick(self, now_ms: int) -> None:
        """Have the elements sent again whose pauses have ended."""
        while self._pausing and self._pausing[0][0] <= now_ms:
            self._attempt(heapq.heappop(self._pausing)[2], now_ms)

    @property
    def deadline_ms(self) -> int | None:
        """Time for the next `tick`; None without any."""
        return self._pausing[0][0] if self._pausing else None


def _unavailable(element: Element) -> Any:
    return refused_partition(element.api_key, element.key.partition, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def _joined(elements: list[Element]) -> Message:
    """Return one request for elements of the same API and group, whose share partitions differ."""
    first = elements[0].call.request
    if len(elements) == elements[0].call.missing == len(elements[0].call.results) and all(
            each.call is elements[0].call for each in elements):
        whole: Message = first
        return whole
    topics: dict[Any, list[Any]] = {}
    for each in elements:
        topics.setdefault(each.key.topic_id, []).append(each.data)
    kind = type(first.topics[0])
    joined: Message = type(first)(group_id=first.group_id, topics=[
        kind(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics.items()])
    return joined
