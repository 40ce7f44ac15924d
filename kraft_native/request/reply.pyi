from collections.abc import Sequence
from typing import final

from typing_extensions import Buffer, disjoint_base

@disjoint_base
class ReplyWaiter: ...

@disjoint_base
class ReplySink:
    def reply_finished(self, reply: Reply) -> int: ...

@final
class Reply:
    """One request's place in its connection's row. Call exactly one of `finish`, `answer`, `answer_parts`, `skip` and
    `refuse`, exactly once, now or later, on the loop's thread. Replies leave in the order of the requests."""

    sink: ReplySink | None
    """The connection; None once it is closed or the reply has left."""
    throttle_ms: int
    """Time for which the client is muted after the answer; to be set before."""
    api_key: int
    api_version: int
    correlation_id: int
    client_id: bytes | None
    parts: list[Buffer] | None
    """Parts that follow the 4-byte length; None unless answered."""
    reason: str | None
    """Reason of the refusal; None otherwise."""

    def __init__(
        self,
        sink: ReplySink,
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: bytes | None = None,
    ) -> None: ...
    @property
    def abandoned(self) -> bool: ...
    @property
    def answered(self) -> bool: ...
    @property
    def skipped(self) -> bool: ...
    @property
    def refused(self) -> bool: ...
    def finish(self, parts: list[Buffer]) -> int:
        """Answer with `parts`, which follow the 4-byte length, response header included; they must not change until
        sent."""

    def answer(self, body: Buffer, header_version: int) -> int:
        """Answer with the response header of that version, then `body`."""

    def answer_parts(self, body: Sequence[Buffer], header_version: int) -> int:
        """Answer likewise with a body in parts, which must not change until sent."""

    def skip(self) -> int:
        """Send no reply, and keep the connection open."""

    def refuse(self, reason: str = "malformed") -> int:
        """Send no reply, and close the connection. `reason` is counted: one word of a fixed set."""

@disjoint_base
class RequestHandler:
    def handle_bytes(self, reply: Reply, body: bytes) -> None:
        """Answer `reply` before returning, or keep it and answer later."""

    def error_counts(self) -> dict[int, int]: ...

def reply_header(correlation_id: int, header_version: int) -> bytes: ...
