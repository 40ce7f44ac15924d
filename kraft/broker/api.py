"""The APIs that Python serves: one file each in `apis`, each registering its handler here when it is imported.

    @serves("DescribeCluster")
    def describe_cluster(broker, request, context, answer):
        answer(DescribeClusterResponse(...))

A handler gets a decoded request and calls `answer` once with the response message, now or later, on the loop's thread.
Produce and Fetch are not here: compiled code serves them. What a handler raises: a `KraftError` that stands for the
peer's fault closes the connection; anything else is ours, is logged, and closes it too.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from kraft.protocol.apis import API_BY_NAME
from kraft.protocol.message import Message

if TYPE_CHECKING:
    from kraft.broker.broker import Broker


class RequestContext(NamedTuple):
    """Who asks, where, in which version, and when. `client_host` is an address without a port."""

    version: int
    client_id: str
    client_host: str
    listener: str
    now_ms: int


Answer = Callable[[Message], None]
Handler = Callable[["Broker", Any, RequestContext, Answer], None]
Registered = TypeVar("Registered", bound=Handler)

HANDLERS: Final[dict[int, Handler]] = {}
"""Of the files imported so far; `kraft.broker.apis.handler_of` imports the one that is missing."""


def serves(*names: str) -> Callable[[Registered], Registered]:
    """Registers a handler for the APIs of these names."""
    def register(handler: Registered) -> Registered:
        for name in names:
            key = API_BY_NAME[name].key
            assert key not in HANDLERS, f"{name} has two handlers"
            HANDLERS[key] = handler
        return handler
    return register
