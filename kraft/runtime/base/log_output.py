"""Log output of a node: one line per event on standard error, as text or JSON, with its cause.

An expected error (`KraftError`, `OSError`) is printed as the chain of its causes in the same line. Any other one is a
fault of ours, and its traceback follows.
"""

import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from kraft_native.base.errors import KraftError

LEVELS: Final = ("debug", "info", "warning", "error", "critical")
FORMATS: Final = ("text", "json")
EXPECTED: Final = (KraftError, OSError)


def set_up(level: str, kind: str) -> None:
    """Send every logger of this process to standard error. `level` is one of LEVELS, `kind` one of FORMATS."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if kind == "json" else TextLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def causes(error: BaseException) -> Iterator[BaseException]:
    """The error, then its causes, down to the first."""
    seen: list[BaseException] = []
    following: BaseException | None = error
    while following is not None and not any(following is each for each in seen):
        seen.append(following)
        yield following
        following = following.__cause__ or (None if following.__suppress_context__ else following.__context__)


class Lines(logging.Formatter):
    """Parts of both formats."""

    def cause(self, record: logging.LogRecord) -> list[BaseException]:
        error = record.exc_info[1] if record.exc_info else None
        return [] if error is None else list(causes(error))

    def moment(self, record: logging.LogRecord) -> str:
        return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def traceback(self, record: logging.LogRecord) -> str:
        """Traceback of a fault of ours; empty for an expected error."""
        error = record.exc_info[1] if record.exc_info else None
        if record.exc_info is None or error is None or isinstance(error, EXPECTED):
            return ""
        return self.formatException(record.exc_info)


class TextLines(Lines):
    """`2026-01-31T09:00:00.000Z WARNING kraft.runtime.server_node: message: cause: its cause`"""

    def format(self, record: logging.LogRecord) -> str:
        parts = [record.getMessage(), *(_named(error) for error in self.cause(record))]
        line = f"{self.moment(record)} {record.levelname:<8} {record.name}: {': '.join(parts)}"
        return "\n".join(filter(None, (line, self.traceback(record))))


class JsonLines(Lines):
    """One object per line: time, level, logger, message, then causes and traceback, if any."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {"time": self.moment(record), "level": record.levelname.lower(),
                                  "logger": record.name, "message": record.getMessage()}
        if found := self.cause(record):
            fields["causes"] = [{"type": type(error).__name__, "message": str(error)} for error in found]
        if text := self.traceback(record):
            fields["traceback"] = text
        return json.dumps(fields, ensure_ascii=False)


def _named(error: BaseException) -> str:
    text = str(error)
    if isinstance(error, EXPECTED) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
