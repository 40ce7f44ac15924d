"""Condition on the records that `kraft consume` prints: their key and their headers."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from kraft.cli.record_lines import Headers, name_bytes


class Filter(NamedTuple):
    """Condition on records. `key` None: any key. `headers`: names, each with the value that one header of that name
    must have; None: any value."""

    key: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]

    @classmethod
    def of(cls, key: str | None, headers: Iterable[str]) -> "Filter":
        """Return the condition of the texts `KEY` and `NAME` or `NAME=VALUE`."""
        parts = (text.partition("=") for text in headers)
        return cls(None if key is None else _bytes(key),
                   tuple((_bytes(name), _bytes(value) if separator else None) for name, separator, value in parts))

    def accepts(self, key: bytes | None, headers: Callable[[], Headers]) -> bool:
        """Return whether a record passes. `headers` is called only where the condition has some."""
        if self.key is not None and key != self.key:
            return False
        if not self.headers:
            return True
        found = [(name_bytes(name), value) for name, value in headers()]
        return all(any(name == wanted and (value is None or value == content) for name, content in found)
                   for wanted, value in self.headers)


def _bytes(text: str) -> bytes:
    """Return the bytes of an argument; those that are no UTF-8 are as they were typed."""
    return text.encode("utf-8", "surrogateescape")
