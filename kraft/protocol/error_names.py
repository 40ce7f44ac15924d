"""Names and texts of error codes for people, including codes that this version does not know."""

from typing import Final

from kraft.protocol.error_codes import ErrorCode

_BY_CODE: Final = {int(each): each for each in ErrorCode}


def name_of(code: int) -> str:
    """Return Kafka's name of an error code."""
    return _BY_CODE[code].name if code in _BY_CODE else f"error {code}"


def text_of(code: int) -> str:
    """Return the meaning of the code."""
    return _BY_CODE[code].message if code in _BY_CODE else "a code that this version does not know"
