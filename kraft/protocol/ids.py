"""Ids of topics, directories and clusters, as texts."""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final
from uuid import UUID

_TEXT: Final = re.compile(r"([A-Za-z0-9_-]{22})(==)?")


def id_text(value: UUID) -> str:
    """Return an id as Kafka writes it: URL-safe base64 without padding."""
    return urlsafe_b64encode(value.bytes).decode("ascii").rstrip("=")


def id_of(text: str) -> UUID:
    """Return the id of such a text, which may be padded; raise `ValueError` for anything else."""
    found = _TEXT.fullmatch(text)
    value = None if found is None else UUID(bytes=urlsafe_b64decode(found[1] + "=="))
    if found is None or value is None or id_text(value) != found[1]:
        raise ValueError(f"{text!r} is not an id of 22 base64url characters")
    return value
