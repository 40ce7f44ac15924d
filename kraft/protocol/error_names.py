"""Texts for people in answers that are errors, and names of error codes, including those that this version does not
know."""

from typing import Final

from kraft.protocol.error_codes import ErrorCode

MESSAGE_MAX: Final = 2_000
"""Maximum of characters in a message: it may repeat names and values of the request, and a text of the protocol has at
most 32,767 bytes."""

_BY_CODE: Final = {int(each): each for each in ErrorCode}


def name_of(code: int) -> str:
    """Return Kafka's name of an error code."""
    return _BY_CODE[code].name if code in _BY_CODE else f"error {code}"


def text_of(code: int) -> str:
    """Return the meaning of the code."""
    return _BY_CODE[code].message if code in _BY_CODE else "a code that this version does not know"


def bounded(message: str) -> str:
    """Return the message, or its beginning where it is too long for an answer."""
    return message if len(message) <= MESSAGE_MAX else f"{message[:MESSAGE_MAX]}..."
