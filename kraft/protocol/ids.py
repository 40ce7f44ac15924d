"""Ids of topics, directories and clusters, as texts."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from uuid import UUID


def id_text(value: UUID) -> str:
    """An id as Kafka writes it: URL-safe base64 without padding."""
    return urlsafe_b64encode(value.bytes).decode("ascii").rstrip("=")


def id_of(text: str) -> UUID:
    """The id that such a text stands for; `ValueError` for anything else."""
    data = urlsafe_b64decode(text + "==")
    if len(data) != 16:
        raise ValueError(f"{text!r} is not the text of an id")
    return UUID(bytes=data)
