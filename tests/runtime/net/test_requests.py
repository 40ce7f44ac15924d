"""Large requests and answers are freed in steps, whatever becomes of the request."""

import sys
from collections.abc import Callable, Generator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kraft.broker.api import Answer, RequestContext, Steps
from kraft.broker.broker import Broker
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from kraft.runtime.net import requests
from kraft.runtime.net.requests import RequestRouter
from kraft_native.base import wire_steps
from kraft_native.request.reply import Reply
from tests.native.request.test_slices import Queue
from tests.native.wires import METADATA, Bench, request

COUNT = 2_000
REFERENCES = 3      # of the list, of the loop over it, and of the call that counts
WORK = 1_000
KEY = ApiKey.FIND_COORDINATOR
BODY = FindCoordinatorRequest(key_type=0, coordinator_keys=[f"g{n}" for n in range(COUNT)]).encode(6)


class Freed:
    """Spy on the freeing of messages: names, each when it begins; of requests only when nothing else refers to them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        real: Callable[[list[Any]], Generator[None, None, None]] = wire_steps.free_steps

        def free_steps(held: list[Any]) -> Generator[None, None, None]:
            self.names += [type(each).__name__ for each in held if sys.getrefcount(each) <= REFERENCES
                           or not isinstance(each, FindCoordinatorRequest)]
            yield from real(held)

        monkeypatch.setattr(requests, "free_steps", free_steps)


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
    freed = Freed(monkeypatch)
    monkeypatch.setattr(requests, "handler_of", lambda _key: handler)
    queue = Queue(slice_us, slice_us)
    router = RequestRouter(cast("Broker", SimpleNamespace(authorizer=None)), "L", lambda: None, queue.queue)
    reply = Reply(queue.sink, KEY, 6, 1)
    router.on_request(reply, KEY, 6, BODY)
    while queue.due:
        queue.iterate()
    assert reply.answered and queue.failures == []
    assert freed.names.count("FindCoordinatorRequest") == 1
    assert freed.names.count("FindCoordinatorResponse") == (0 if "small" in handler.__name__ else 1)


def test_a_request_that_waits_elsewhere_is_freed_after_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """No part of its work runs while the controller has it."""
    freed = Freed(monkeypatch)
    waiting: list[Any] = []
    monkeypatch.setattr(requests, "handler_of", lambda _key: lambda *given: waiting.extend((given[1], given[3])))
    queue = Queue()
    router = RequestRouter(cast("Broker", SimpleNamespace(authorizer=None)), "L", lambda: None, queue.queue)
    router.on_request(Reply(queue.sink, KEY, 6, 1), KEY, 6, BODY)
    while queue.due:
        queue.iterate()
    assert len(waiting) == 2 and freed.names == []
    answer = waiting.pop()
    waiting.clear()
    answer(FindCoordinatorResponse())
    while queue.due:
        queue.iterate()
    assert freed.names == ["FindCoordinatorRequest"] and queue.failures == []


@pytest.mark.parametrize("handler", [at_once, later])
def test_a_request_is_freed_in_steps_after_its_client_has_disconnected(
        monkeypatch: pytest.MonkeyPatch, handler: Callable[..., Steps]) -> None:
    freed = Freed(monkeypatch)
    monkeypatch.setattr(requests, "handler_of", lambda _key: handler)
    queue = Queue()
    router = RequestRouter(cast("Broker", SimpleNamespace(authorizer=None)), "L", lambda: None, queue.queue)

    class Leaving(Bench):
        def on_request(self, reply: Reply, api_key: int, version: int, body: bytes) -> None:
            router.on_request(reply, KEY, version, BODY)

    bench = Leaving()
    wire = bench.connect()
    wire.feed(request(METADATA, 5, 1))
    for _ in range(20):
        queue.iterate()
    assert freed.names == []
    wire.connection.connection_lost(None)
    while queue.due:
        queue.iterate()
    assert freed.names == ["FindCoordinatorRequest"]
    bench.end()
