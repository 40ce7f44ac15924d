"""Handlers of the APIs that Python serves. `kraft.broker.apis` has one file each.

    def describe_cluster(broker, request, context, answer):
        answer(DescribeClusterResponse(...))

A handler gets a decoded request and calls `answer` once with the response message, now or later, on the loop's thread.

A handler is a generator if its work grows with the request or with the cluster. It yields after each element, and the
loop serves other requests when its time slice is used up. It must rely on nothing that may change between two steps; it
uses one metadata image throughout.

A `KraftError` that a handler raises is the peer's fault and closes the connection. Any other exception is a fault of
this broker: it is logged, and it closes the connection too.
"""

import heapq
from collections.abc import Callable, Generator, Hashable, Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from kraft.protocol.message import Message
from kraft.security.principal import ANONYMOUS, Client, Principal
from kraft.steps import finish

if TYPE_CHECKING:
    from kraft.broker.broker import Broker
    from kraft.security.access import Access


Steps = Generator[None, None, None]
Element = TypeVar("Element")
Hashed = TypeVar("Hashed", bound=Hashable)
Result = TypeVar("Result")


class RequestContext(NamedTuple):
    """Context of a request: version, client, listener, time, and the client's identity. `client_host` is an address
    without a port. `run` runs the steps that a handler has left after it returned. A request that `is_small` has two
    kilobytes at most. `access` is what the client may do; None: everything, as there is no authorizer. `software`: name
    and version of the client's library, as it reported them."""

    version: int
    client_id: str
    client_host: str
    listener: str
    now_ms: int
    run: Callable[[Steps], None] = finish
    principal: Principal = ANONYMOUS
    is_small: bool = False
    access: "Access | None" = None
    software: tuple[str, str] = ("", "")
    client_port: int = 0

    @property
    def client(self) -> Client:
        """The client, for other parts and nodes that serve the request."""
        return Client(self.client_id, self.principal, self.client_host)


Answer = Callable[[Message], None]
Handler = Callable[["Broker", Any, RequestContext, Answer], Steps | None]

STEP: Final = 64
SORTED_AT_ONCE: Final = 1024
COUNTED_AT_ONCE: Final = 256


def each_step(make: Callable[[Element], Result], elements: Iterable[Element]) -> Generator[None, None, list[Result]]:
    """Return the list of what `make` returns for each element, one per step."""
    results = []
    for each in elements:
        results.append(make(each))
        yield
    return results


def counted_steps(elements: Iterable[Hashed]) -> Generator[None, None, dict[Hashed, int]]:
    """Return how often each element occurs, in the order of the first ones. In steps."""
    counts: dict[Hashed, int] = {}
    for number, each in enumerate(elements):
        counts[each] = counts.get(each, 0) + 1
        if number % COUNTED_AT_ONCE == COUNTED_AT_ONCE - 1:
            yield
    return counts


def sorted_steps(elements: Iterable[Any]) -> Generator[None, None, list[Any]]:
    """Sort like `sorted`, in steps."""
    left = list(elements)
    runs = []
    for start in range(0, len(left), SORTED_AT_ONCE):
        runs.append(sorted(left[start:start + SORTED_AT_ONCE]))
        yield
    if len(runs) < 2:
        return runs[0] if runs else []
    result = []
    for each in heapq.merge(*runs):
        result.append(each)
        if len(result) % STEP == 0:
            yield
    return result
