"""What the broker needs of the world around it; `kraft.runtime` fills it in."""

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message


class LogUsage(NamedTuple):
    """One log in a directory. `is_future`: it is on its way here from another directory, and `offset_lag` behind."""

    topic: str
    partition: int
    size_bytes: int
    offset_lag: int = 0
    is_future: bool = False


class LogDirUsage(NamedTuple):
    """One log directory. Bytes are -1 where the system does not tell them; `error` is Kafka's code, 0 when online."""

    path: str
    error: int
    total_bytes: int
    usable_bytes: int
    logs: tuple[LogUsage, ...]


class ControllerPort(Protocol):
    """The way to the active controller."""

    def submit(self, request: Message, version: int, now_ms: int, answer: Callable[[Message], None],
               client_id: str | None = None) -> None:
        """Decides `request`; `answer` gets the response once what it tells is committed. `client_id`: of the client
        that asked for it, whose quota holds; None: the node itself asks."""

    def refuse(self, request: Message, code: ErrorCode, message: str) -> Message:
        """The response that refuses all of a request that the controller decides."""

    @property
    def lease_left_ms(self) -> int | None:
        """Until this broker's lease ends, negative when it has; None: no controller has told of one."""


class StoragePort(Protocol):
    """What is wrong with the replicas on this node's disks."""

    def lost_records(self) -> list[str]:
        """The replicas that miss records, with the offsets, in words."""

    @property
    def stray_count(self) -> int:
        """Partition directories that are neither served nor deleted."""


class LogDirPort(Protocol):
    """The way to the directories that hold the logs."""

    def usage(self) -> list[LogDirUsage]:
        """Every log directory of this node."""

    @property
    def directory_ids(self) -> tuple[UUID, ...]:
        """The directories' ids, in the order of the configuration."""


class RecorderPort(Protocol):
    """What happened to the broker's replicas."""

    def lines(self, count: int) -> list[str]:
        """The last `count` entries of the flight recorder, oldest first, and one that tells what the broker is now."""


LOG_LEVELS: Final = ("FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE")
"""Kafka's words, the most severe first."""
ROOT_LOGGER: Final = "root"


class LoggerPort(Protocol):
    """The loggers of the process."""

    def levels(self) -> dict[str, str]:
        """The level in force of each logger, `ROOT_LOGGER` first."""

    def set_level(self, name: str, level: str) -> None:
        """Put one of `LOG_LEVELS` in force for an existing logger, and for those below it that have none of their
        own."""

    def unset_level(self, name: str) -> None:
        """Let an existing logger have the level of the one above it again."""


class MovePort(Protocol):
    """Who moves replicas between log directories."""

    def alter(self, topic: str, index: int, path: str) -> ErrorCode:
        """A replica shall lie in the directory of that path; what is against it. Moving takes a while after that."""
