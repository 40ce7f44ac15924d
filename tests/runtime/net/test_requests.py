"""Large requests and answers are freed in steps, whatever becomes of the request."""

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest

from kraft.broker.api import Answer, RequestContext, Steps
from kraft.broker.broker import Broker
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from kraft.runtime.net import requests
from kraft.runtime.net.requests import RequestRouter
from kraft_native.request.reply import Reply
from kraft_native.request.slices import SliceQueue
from tests.native.request.test_slices import Queue
from tests.native.wires import METADATA, Bench, request

COUNT = 2_000
REFERENCES = 3      # of the list, of the loop over it, and of the call that counts
WORK = 1_000
KEY = ApiKey.FIND_COORDINATOR
BODY = FindCoordinatorRequest(key_type=0, coordinator_keys=[f"g{n}" for n in range(COUNT)]).encode(6)


class Spied:
    """A queue that records which messages are freed: names, each when only the queue refers to the message."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self.start, self.call, self.work = queue.queue.start, queue.queue.call, queue.queue.work
        self._begun: list[list[Any]] = []
        self.names: list[str] = []

    def free(self, api_key: int, held: list[Any]) -> None:
        self._begun.append(held)
        self._queue.queue.free(api_key, held)

    def iterate(self) -> None:
        for held in self._begun:
            self.names += [type(each).__name__ for each in held if sys.getrefcount(each) <= REFERENCES]
        self._begun.clear()
        self._queue.iterate()


def respond(request: FindCoordinatorRequest, answer: Answer, large: bool) -> Steps:
    for _ in range(WORK):
        yield
    keys = request.coordinator_keys if large else []
    answer(FindCoordinatorResponse(coordinators=[Coordinator(key=key) for key in keys]))


def at_once(_broker: Broker, request: FindCoordinatorRequest, _context: RequestContext, answer: Answer) -> Steps:
    yield from respond(request, answer, large=True)


def small(_broker: Broker, request: FindCoordinatorRequest, _context: RequestContext, answer: Answer) -> Steps:
    yield from respond(request, answer, large=False)


def later(_broker: Broker, request: FindCoordinatorRequest, context: RequestContext, answer: Answer) -> Steps:
    context.run(respond(request, answer, large=True))
    yield


def later_small(_broker: Broker, request: FindCoordinatorRequest, context: RequestContext, answer: Answer) -> Steps:
    context.run(respond(request, answer, large=False))
    yield


@pytest.mark.parametrize("slice_us", [1, 200_000])
@pytest.mark.parametrize("handler", [at_once, small, later, later_small])
def test_a_large_request_is_freed_in_steps(monkeypatch: pytest.MonkeyPatch, handler: Callable[..., Steps],
                                           slice_us: int) -> None:
    monkeypatch.setattr(requests, "handler_of", lambda _key: handler)
    queue = Queue(slice_us, slice_us)
    freed = Spied(queue)
    router = RequestRouter(cast("Broker", SimpleNamespace(authorizer=None)), "L", lambda: None,
                           cast("SliceQueue", freed))
    reply = Reply(queue.sink, KEY, 6, 1)
    router.on_request(reply, KEY, 6, BODY)
    while queue.due:
        freed.iterate()
    assert reply.answered and queue.failures == []
    assert freed.names == ["FindCoordinatorRequest"]


class Counted(Coordinator):
    """Part of an answer that is counted."""

    __slots__ = ()
    living: ClassVar[int] = 0

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        Counted.living += 1

    def __del__(self) -> None:
        Counted.living -= 1


@pytest.mark.parametrize("is_later", [False, True])
def test_a_large_answer_is_freed_in_steps(monkeypatch: pytest.MonkeyPatch, *, is_later: bool) -> None:
    """Also what the handler has beside it."""
    def respond(request: FindCoordinatorRequest, answer: Answer) -> Steps:
        known = {}
        for key in request.coordinator_keys:
            known[key] = Counted(key=key)
            yield
        answer(FindCoordinatorResponse(coordinators=[Counted(key=key) for key in known]))

    def handle(_broker: Broker, request: FindCoordinatorRequest, context: RequestContext, answer: Answer) -> Steps:
        if is_later:
            context.run(respond(request, answer))
            return
        yield from respond(request, answer)

    monkeypatch.setattr(requests, "handler_of", lambda _key: handle)
    queue = Queue()
    router = RequestRouter(cast("Broker", SimpleNamespace(authorizer=None)), "L", lambda: None, queue.queue)
    reply = Reply(queue.sink, KEY, 6, 1)
    router.on_request(reply, KEY, 6, BODY)
    most = before = 0
    while queue.due:
        queue.iterate()
        most, before = max(most, before - Counted.living), Counted.living
    assert reply.answered and queue.failures == []
    assert Counted.living == 0 and 0 < most <= 512


def test_a_request_that_waits_elsewhere_is_freed_after_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """No part of its work runs while the controller has it."""
    waiting: list[Any] = []
    monkeypatch.setattr(requests, "handler_of", lambda _key: lambda *given: waiting.extend((given[1], given[3])))
    queue = Queue()
    freed = Spied(queue)
    router = RequestRouter(cast("Broker", SimpleNamespace(authorizer=None)), "L", lambda: None,
                           cast("SliceQueue", freed))
    router.on_request(Reply(queue.sink, KEY, 6, 1), KEY, 6, BODY)
    while queue.due:
        freed.iterate()
    assert len(waiting) == 2 and freed.names == []
    answer = waiting.pop()
    waiting.clear()
    answer(FindCoordinatorResponse())
    while queue.due:
        freed.iterate()
    assert freed.names == ["FindCoordinatorRequest"] and queue.failures == []


@pytest.mark.parametrize("handler", [at_once, later])
def test_a_request_is_freed_in_steps_after_its_client_has_disconnected(
        monkeypatch: pytest.MonkeyPatch, handler: Callable[..., Steps]) -> None:
    monkeypatch.setattr(requests, "handler_of", lambda _key: handler)
    queue = Queue()
    freed = Spied(queue)
    router = RequestRouter(cast("Broker", SimpleNamespace(authorizer=None)), "L", lambda: None,
                           cast("SliceQueue", freed))

    class Leaving(Bench):
        def on_request(self, reply: Reply, api_key: int, version: int, body: bytes) -> None:
            router.on_request(reply, KEY, version, BODY)

    bench = Leaving()
    wire = bench.connect()
    wire.feed(request(METADATA, 5, 1))
    for _ in range(20):
        freed.iterate()
    assert freed.names == []
    wire.connection.connection_lost(None)
    while queue.due:
        freed.iterate()
    assert freed.names == ["FindCoordinatorRequest"]
    bench.end()
