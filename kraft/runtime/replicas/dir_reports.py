"""This broker's log directories as reported to the controller: each replica's directory, and failed directories."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final
from uuid import UUID

from kraft.broker.broker import Broker
from kraft.broker.directory_assignments import DirectoryAssignments
from kraft.deadlines import NEVER_MS
from kraft.log_dir import LogDir
from kraft.metadata.image import LOST_DIRECTORY, PartitionRegistration
from kraft.protocol.message import Message
from kraft.protocol.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest
from kraft.protocol.messages.assign_replicas_to_dirs_response import AssignReplicasToDirsResponse
from kraft.runtime.storage.log_manager import LogManager
from kraft_native.base.errors import KraftError
from kraft_native.partition.purgatory import now_ms as monotonic_ms

log = logging.getLogger(__name__)

ASSIGN_VERSION: Final = 0
GATHER_MS: Final = 20
"""Time within which changes are collected into one request."""


class DirReports:
    """Reports of log directories to the controller. Loop thread only. `lose(directory id)` reports a failed directory
    to the controller. `on_failure` is called when the node cannot continue without it."""

    def __init__(self, broker: Broker, logs: LogManager, clock: Callable[[], int], lose: Callable[[UUID], None],
                 on_failure: Callable[[BaseException], object]) -> None:
        self._broker = broker
        self._logs = logs
        self._clock = clock
        self._lose = lose
        self._on_failure = on_failure
        self._assignments = DirectoryAssignments(broker.node_id, self._submit, self._is_ours)
        self._promised: dict[tuple[str, int], tuple[UUID, asyncio.Event]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def close(self) -> None:
        """Stop reporting to the controller."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    # --- where replicas lie

    def placed(self, topic: str, index: int, topic_id: UUID, registration: PartitionRegistration) -> None:
        """Report the directory of a replica that has its log, unless the metadata has it already."""
        home = self._logs.home(topic, index)
        if home is None or not self._broker.image.metadata_version.directories:
            return
        assigned = registration.directory_of(self._broker.node_id)
        if (topic, index) in self._promised:
            home, known = self._promised[topic, index]
            if home == assigned:
                known.set()
        if self._assignments.note((topic_id, index), home, assigned):
            self._arm(GATHER_MS)

    def lost(self, topic_id: UUID, index: int, registration: PartitionRegistration) -> None:
        """Report a replica whose log cannot be opened, so that another one leads and this one does not count as in
        sync. Its directory is reported when the log was opened."""
        assigned = registration.directory_of(self._broker.node_id)
        if (self._broker.image.metadata_version.directories
                and self._assignments.note((topic_id, index), LOST_DIRECTORY, assigned)):
            self._arm(GATHER_MS)

    def promise(self, topic: str, index: int, topic_id: UUID, directory: UUID) -> asyncio.Event:
        """Announce that a replica will move to that directory, until `withdraw`. The event is set when the metadata has
        it. That is before its log moves, so that the controller never relies on a directory that the replica left
        (KIP-858)."""
        known = asyncio.Event()
        self._promised[topic, index] = directory, known
        if not self._broker.image.metadata_version.directories:
            known.set()
        self._place(topic, index, topic_id)
        return known

    def withdraw(self, topic: str, index: int) -> None:
        """Withdraw the announcement: the replica stays in its directory."""
        if self._promised.pop((topic, index), None) is not None and (found := self._broker.image.topic(topic)):
            self._place(topic, index, found.topic_id)

    def _place(self, topic: str, index: int, topic_id: UUID) -> None:
        registration = self._broker.image.partition(topic, index)
        if registration is not None and self._broker.node_id in registration.replicas:
            self.placed(topic, index, topic_id, registration)

    def _is_ours(self, key: tuple[UUID, int]) -> bool:
        topic = self._broker.image.topics.get(key[0])
        registration = None if topic is None else topic.partitions.get(key[1])
        return registration is not None and self._broker.node_id in registration.replicas

    def _submit(self, request: AssignReplicasToDirsRequest) -> None:
        self._broker.submit(request, ASSIGN_VERSION, self._clock(), self._answered)

    def _answered(self, response: Message) -> None:
        assert isinstance(response, AssignReplicasToDirsResponse)
        if self._closed:
            return
        self._assignments.answered(response, monotonic_ms())
        self._arm(0 if self._assignments.deadline_ms == NEVER_MS else self._assignments.deadline_ms - monotonic_ms())

    def _arm(self, delay_ms: int) -> None:
        if self._timer is None and not self._closed:
            self._timer = asyncio.get_running_loop().call_later(max(0, delay_ms) / 1000, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._assignments.send_due(self._broker.epoch)

    # --- failures

    def failed(self, directory: LogDir, cause: KraftError) -> list[tuple[str, int]]:
        """Take the directory of a failed log offline, and report that to the controller. Returns the replicas in it,
        none when the failure is known. The node stops when no other directory is left, or when this one has the
        metadata log."""
        if directory in self._logs.offline:
            return []
        lost = self._logs.take_offline(directory)
        log.error("log directory %s has failed, its %d replicas are offline: %s", directory.path, len(lost), cause)
        config = self._broker.config
        if len(self._logs.offline) == len(self._logs.directories) or directory.path == config.metadata_log_dir:
            self._on_failure(cause)
        else:
            self._lose(directory.directory_id)
        return lost
