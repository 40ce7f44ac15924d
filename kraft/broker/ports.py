"""Interfaces from the broker to its environment; `kraft.runtime` implements them."""

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.security.principal import Client


class LogUsage(NamedTuple):
    """One log in a directory. `is_future`: it is being moved here from another directory and is `offset_lag` behind."""

    topic: str
    partition: int
    size_bytes: int
    offset_lag: int = 0
    is_future: bool = False


class LogDirUsage(NamedTuple):
    """One log directory. Bytes are -1 where the system does not report them. `error` is Kafka's code, 0 when online."""

    path: str
    error: int
    total_bytes: int
    usable_bytes: int
    logs: tuple[LogUsage, ...]


class ControllerPort(Protocol):
    """The way to the active controller."""

    def submit(self, request: Message, version: int, now_ms: int, answer: Callable[[Message], None],
               client: Client | None = None) -> None:
        """Decide `request`; `answer` gets the response once its outcome is committed. `client` is the one whose quota
        and permissions apply; None: the request is the node's own."""

    def refuse(self, request: Message, code: ErrorCode, message: str) -> Message:
        """Return the response that refuses the whole of a request that the controller decides."""

    @property
    def lease_left_ms(self) -> int | None:
        """Time left of this broker's lease, negative after its end; None: no controller has announced one."""


class StoragePort(Protocol):
    """Faults of the replicas on this node's disks."""

    def lost_records(self) -> list[str]:
        """Describe the replicas that miss records, with the offsets, in words."""

    @property
    def stray_count(self) -> int:
        """Number of partition directories that are neither served nor deleted."""


class LogDirPort(Protocol):
    """The way to the directories that hold the logs."""

    def usage(self) -> list[LogDirUsage]:
        """Return every log directory of this node."""

    @property
    def directory_ids(self) -> tuple[UUID, ...]:
        """Ids of the directories, in the order of the configuration."""


class RecorderPort(Protocol):
    """History of the broker's replicas."""

    def lines(self, count: int) -> list[str]:
        """Return the last `count` entries of the flight recorder, oldest first, and one with the broker's present
        state."""


LOG_LEVELS: Final = ("FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE")
"""Kafka's names of the levels, the most severe first."""
ROOT_LOGGER: Final = "root"


class LoggerPort(Protocol):
    """The loggers of the process."""

    def levels(self) -> dict[str, str]:
        """Return the level in force of each logger, `ROOT_LOGGER` first."""

    def set_level(self, name: str, level: str) -> None:
        """Put one of `LOG_LEVELS` in force for an existing logger, and for those below it that have no level of their
        own."""

    def unset_level(self, name: str) -> None:
        """Remove the level of an existing logger, which then has the level of the one above it."""


class MovePort(Protocol):
    """Moves of replicas between log directories."""

    def alter(self, topic: str, index: int, path: str) -> ErrorCode:
        """Order a replica to move to the directory of that path. Return the error that prevents it; the move itself
        takes a while."""


class SharePersister(Protocol):
    """The way to the state of share partitions, kept by the share coordinators of all brokers."""

    def send(self, request: Message, answer: Callable[[Message], None]) -> None:
        """Send an InitializeShareGroupState, ReadShareGroupState, WriteShareGroupState, DeleteShareGroupState or
        ReadShareGroupStateSummary request about any partitions of one group. It is divided among the coordinators.

        Errors that pass are tried again for a bounded time. `answer` is called exactly once, later, with one response.
        It has a result for each partition of the request, in its order of topics. A partition that no coordinator
        answered has COORDINATOR_NOT_AVAILABLE."""
