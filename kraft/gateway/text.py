"""Texts of answers: JSON, and server-sent events."""

import json
from typing import Any


def to_json(value: Any) -> bytes:
    """Return compact JSON. Lone surrogates, which UTF-8 lacks, are escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def event_data(value: Any) -> bytes:
    """Return the data of an event and its end. JSON has no line ends outside of texts, and escapes them inside."""
    return b"data: %b\n\n" % to_json(value)


def event(name: str, value: Any) -> bytes:
    """Return an event with a name of its own, without an id."""
    return b"event: %b\n%b" % (name.encode(), event_data(value))


def id_line(text: str) -> bytes:
    """Return the id of the event that follows. Alone, before an empty line, it sets the id of a browser's next
    request without an event."""
    return b"id: %b\n" % text.encode()
