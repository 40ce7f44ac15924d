"""Path of one request's response to its client."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Generic, NamedTuple, TypeVar

from kraft.protocol.error_codes import ErrorCode

M = TypeVar("M")


def everything(_topic: str) -> bool:
    """Return True: without an authorizer, clients may know of every topic."""
    return True


class RequestContext(NamedTuple):
    """Origin of a request. `client_id` is "" when the header had none; `client_host` is in Kafka's form:
    `/127.0.0.1`. `incomplete`: the transactional ids with an unknown partition in any part of the request.
    `may_describe` returns whether the client may know of a topic."""

    api_version: int
    client_id: str = ""
    client_host: str = ""
    incomplete: Container[str] = ()
    may_describe: Callable[[str], bool] = everything


class Answer(Generic[M]):
    """Answer that carries one response of type `M`, or the response for an error, exactly once."""

    __slots__ = ("_refusal", "_respond", "context")

    def __init__(self, context: RequestContext, respond: Callable[[M], None],
                 refusal: Callable[[ErrorCode, str | None], M]) -> None:
        """`refusal` creates the response with an error and its text, in the fields that this API has for them."""
        self.context = context
        self._respond: Callable[[M], None] | None = respond
        self._refusal = refusal

    @property
    def given(self) -> bool:
        """True once the answer was sent."""
        return self._respond is None

    def give(self, response: M) -> None:
        """Send `response`. Coordinators call this only through their shard, which holds it until it may leave."""
        assert self._respond is not None, "a request was answered twice"
        respond, self._respond = self._respond, None
        respond(response)

    def refusal(self, error: ErrorCode, message: str | None = None) -> M:
        """Return the response for `error`."""
        return self._refusal(error, message)
