"""The APIs that Python serves: one file each in `apis`, each registering its handler here when it is imported.

    @serves("DescribeCluster")
    def describe_cluster(broker, request, context, answer):
        answer(DescribeClusterResponse(...))

A handler whose work grows with what a client sends or with what the cluster has is a generator: it gives way after each
element (`yield`), and the loop serves others when its slice is used up. So nothing that it relies on may change between
two steps; of the metadata it takes one image.

A handler gets a decoded request and calls `answer` once with the response message, now or later, on the loop's thread.
Produce and Fetch are not here: compiled code serves them. What a handler raises: a `KraftError` that stands for the
peer's fault closes the connection; anything else is ours, is logged, and closes it too.
"""

import heapq
from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from kraft.protocol.apis import API_BY_NAME
from kraft.protocol.message import Message

if TYPE_CHECKING:
    from kraft.broker.broker import Broker


Steps = Generator[None, None, None]
Element = TypeVar("Element")
Result = TypeVar("Result")


def run_through(steps: Steps) -> None:
    """Runs a handler's steps without a break."""
    for _ in steps:
        pass


class RequestContext(NamedTuple):
    """Who asks, where, in which version, and when. `client_host` is an address without a port. `run` takes steps that
    a handler has left after it returned."""

    version: int
    client_id: str
    client_host: str
    listener: str
    now_ms: int
    run: Callable[[Steps], None] = run_through


Answer = Callable[[Message], None]
Handler = Callable[["Broker", Any, RequestContext, Answer], Steps | None]
Registered = TypeVar("Registered", bound=Handler)

STEP: Final = 64
SORTED_AT_ONCE: Final = 1024
HANDLERS: Final[dict[int, Handler]] = {}
"""Of the files imported so far; `kraft.broker.apis.handler_of` imports the one that is missing."""


def each_step(make: Callable[[Element], Result], elements: Iterable[Element]) -> Generator[None, None, list[Result]]:
    """A list of what `make` gives for each element, one per step."""
    results = []
    for each in elements:
        results.append(make(each))
        yield
    return results


def sorted_steps(elements: Iterable[Any]) -> Generator[None, None, list[Any]]:
    """As `sorted`, in steps."""
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


def serves(*names: str) -> Callable[[Registered], Registered]:
    """Registers a handler for the APIs of these names."""
    def register(handler: Registered) -> Registered:
        for name in names:
            key = API_BY_NAME[name].key
            assert key not in HANDLERS, f"{name} has two handlers"
            HANDLERS[key] = handler
        return handler
    return register
