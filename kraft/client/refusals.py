"""Error that a tool reports when a server refuses a request."""

from kraft.protocol.error_codes import RETRIABLE, ErrorCode
from kraft.protocol.error_names import name_of, text_of
from kraft_native.base.errors import KraftError


class RefusedError(KraftError):
    """A server answered with an error code. `what` names the requested thing or action; `code` is Kafka's."""

    def __init__(self, what: str, code: int, message: str | None = None) -> None:
        super().__init__(f"{what}: {message or text_of(code)} ({name_of(code)})")
        self.code = code

    @property
    def retriable(self) -> bool:
        """Kafka's flag of the code: the same request may succeed later. False for an unknown code."""
        return self.code in RETRIABLE


def check(what: str, code: int, message: str | None = None) -> None:
    """Raise `RefusedError` unless `code` is 0."""
    if code != ErrorCode.NONE:
        raise RefusedError(what, code, message)
