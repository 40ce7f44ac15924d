"""One request's answer on its way: what handlers get, and what a connection gives them.

A response on the wire is int32 length, response header (int32 correlation id; from version 1 tagged fields), body.
"""

from collections.abc import Sequence
from typing import final

from typing_extensions import Buffer, disjoint_base

@disjoint_base
class ReplyWaiter:
    """Base of what waits with a reply; not used by itself."""

@disjoint_base
class ReplySink:
    """Where finished replies go. Extend it and override `reply_finished`, which must return 0."""

    def reply_finished(self, reply: Reply) -> int: ...

@final
class Reply:
    """One request's place in its connection's row. Exactly one of `finish`, `answer`, `answer_parts`, `skip` and
    `refuse` is called, exactly once, now or later, on the loop's thread. Replies leave in the order of the requests."""

    sink: ReplySink | None
    """The connection; None once it is gone or the reply has left."""
    throttle_ms: int
    """For so long its client is left alone once it is answered; to be set before."""
    api_key: int
    api_version: int
    correlation_id: int
    client_id: bytes | None
    parts: list[Buffer] | None
    """What leaves after the 4-byte length; None unless answered."""
    reason: str | None
    """Why it was refused; None otherwise."""

    def __init__(
        self,
        sink: ReplySink,
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: bytes | None = None,
    ) -> None: ...
    @property
    def abandoned(self) -> bool:
        """Whether the connection is gone: finishing is still allowed, and does nothing."""

    @property
    def answered(self) -> bool:
        """Whether parts were given."""

    @property
    def skipped(self) -> bool:
        """Whether there will be no reply, by agreement."""

    @property
    def refused(self) -> bool:
        """Whether the connection is to be closed instead."""

    def finish(self, parts: list[Buffer]) -> int:
        """`parts` follow the 4-byte length, response header included; they must not change until they are gone."""

    def answer(self, body: Buffer, header_version: int) -> int:
        """The response header of that version, then `body`."""

    def answer_parts(self, body: Sequence[Buffer], header_version: int) -> int:
        """The same with a body in parts, which must not change until they are gone."""

    def skip(self) -> int:
        """No reply, and the connection goes on."""

    def refuse(self, reason: str = "malformed") -> int:
        """No reply, and the connection is closed. `reason` is counted: one word of a fixed set."""

@disjoint_base
class RequestHandler:
    """Serves one api key, in compiled code."""

    def handle_bytes(self, reply: Reply, body: bytes) -> None:
        """Answers `reply` before it returns, or keeps it and answers later."""

    def error_counts(self) -> dict[int, int]:
        """Errors told since the start, by Kafka's code: of whole requests, and of each partition."""

def reply_header(correlation_id: int, header_version: int) -> bytes:
    """The response header of version 0 or 1, as bytes."""
