"""A replicated log engine that speaks Apache Kafka's files and protocol; the byte work is compiled (`kraft_native`).

Importing the package checks the compiled core, which has no slower substitute. A core that is missing or was built from
another version raises an `ImportError` that names the remedy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kraft._version import __version__

__all__ = [
    "Appender",
    "AsyncLog",
    "Batch",
    "BatchBuilder",
    "CorruptLogError",
    "Cursor",
    "Flusher",
    "KraftError",
    "Log",
    "LogConfig",
    "LogDir",
    "LogReader",
    "Record",
    "TopicPartition",
    "__version__",
    "errors",
]

_REMEDY = "In a source tree run `make build`; elsewhere reinstall the package (`pip install --force-reinstall kraft`)."

try:
    from kraft_native.base import build_info
except ImportError as cause:
    raise ImportError(f"kraft's compiled core cannot be loaded ({cause}). {_REMEDY}", name="kraft_native") from cause

if build_info.version() != __version__:
    raise ImportError(f"kraft is version {__version__}, but its compiled core was built from version "
                      f"{build_info.version()}. {_REMEDY}", name="kraft_native")

from kraft import errors
from kraft.log import Log, LogReader
from kraft.log_dir import LogDir, TopicPartition
from kraft_native.base.errors import CorruptLogError, KraftError
from kraft_native.batch.batch import Batch
from kraft_native.batch.records import BatchBuilder, Record
from kraft_native.log.flusher import Flusher
from kraft_native.segment.config import LogConfig

if TYPE_CHECKING:
    from kraft.appender import Appender
    from kraft.async_log import AsyncLog
    from kraft.cursors import Cursor

_LATE = {"Appender": "kraft.appender", "AsyncLog": "kraft.async_log", "Cursor": "kraft.cursors"}
"""Modules that are imported when they are used: with threads and event loops, appenders need most of the time of an
import."""


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATE[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
