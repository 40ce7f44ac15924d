"""What a tool tells when a server refuses a request."""

from typing import Final

from kraft.protocol.error_codes import ErrorCode
from kraft_native.errors import KraftError

_BY_CODE: Final = {int(each): each for each in ErrorCode}


def name_of(code: int) -> str:
    """Kafka's name of an error code, also of one that this version does not know."""
    return _BY_CODE[code].name if code in _BY_CODE else f"error {code}"


def text_of(code: int) -> str:
    """What the code means."""
    return _BY_CODE[code].message if code in _BY_CODE else "a code that this version does not know"


class RefusedError(KraftError):
    """A server answered with an error code. `what` says what was asked for; `code` is Kafka's."""

    def __init__(self, what: str, code: int, message: str | None = None) -> None:
        super().__init__(f"{what}: {message or text_of(code)} ({name_of(code)})")
        self.code = code


def check(what: str, code: int, message: str | None = None) -> None:
    """Raises `RefusedError` unless `code` is 0."""
    if code != ErrorCode.NONE:
        raise RefusedError(what, code, message)
