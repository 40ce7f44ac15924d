"""Reports to the controller in which log directories this broker's replicas lie (KIP-858). Sans-IO.

The metadata holds the directory of each replica. The controller knows the directory of a broker that has only one.
Otherwise it records no assignment, and the broker reports it. One request is in flight at a time; changes meanwhile go
into the next.
"""

from collections.abc import Callable
from typing import Final
from uuid import UUID

from kraft.deadlines import NEVER_MS
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.assign_replicas_to_dirs_request import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)
from kraft.protocol.messages.assign_replicas_to_dirs_response import AssignReplicasToDirsResponse

RETRY_MS: Final = 100
REPLICAS_MAX: Final = 2_000
"""Maximum number of replicas in one request."""

OVERTAKEN: Final = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)
"""Errors for a replica that no longer belongs to this broker, or that the controller does not know yet. One that was
replaced without its knowledge does not know a partition of its successor."""

Key = tuple[UUID, int]


class DirectoryAssignments:
    """Assignments still to report. `submit(request)` sends one to the controller; its answer arrives at `answered`
    later. `is_ours(key)` returns whether this broker has that replica according to its metadata."""

    def __init__(self, broker_id: int, submit: Callable[[AssignReplicasToDirsRequest], None],
                 is_ours: Callable[[Key], bool]) -> None:
        self._broker_id = broker_id
        self._submit = submit
        self._is_ours = is_ours
        self._due: dict[Key, UUID] = {}
        self._requested: dict[Key, UUID] | None = None
        self.deadline_ms = NEVER_MS
        """Time when `send_due` is due again after a refusal."""

    def note(self, key: Key, directory: UUID, assigned: UUID) -> bool:
        """Note that a replica lies in `directory` while the metadata says `assigned`. Return whether `send_due` has
        something to do."""
        if directory == assigned or (self._requested or {}).get(key) == directory:
            self._due.pop(key, None)
            return False
        self._due[key] = directory
        return True

    def send_due(self, broker_epoch: int) -> None:
        """Send what is due, unless an answer is awaited."""
        if self._requested is not None or not self._due:
            return
        self.deadline_ms = NEVER_MS
        chosen = list(self._due)[:REPLICAS_MAX]
        self._requested = {key: self._due.pop(key) for key in chosen}
        directories: dict[UUID, dict[UUID, list[PartitionData]]] = {}
        for (topic_id, index), directory in self._requested.items():
            parts = directories.setdefault(directory, {}).setdefault(topic_id, [])
            parts.append(PartitionData(partition_index=index))
        self._submit(AssignReplicasToDirsRequest(
            broker_id=self._broker_id, broker_epoch=broker_epoch, directories=[
                DirectoryData(id=directory, topics=[TopicData(topic_id=topic_id, partitions=parts)
                                                    for topic_id, parts in topics.items()])
                for directory, topics in directories.items()]))

    def answered(self, response: AssignReplicasToDirsResponse, now_ms: int) -> None:
        """Process an answer. Assignments that the controller did not accept are due again at `deadline_ms`; otherwise
        more may be due for `send_due`."""
        requested, self._requested = self._requested or {}, None
        codes = {(topic.topic_id, part.partition_index): part.error_code
                 for directory in response.directories for topic in directory.topics for part in topic.partitions}
        for key, directory in requested.items():
            code = codes.get(key, ErrorCode.UNKNOWN_SERVER_ERROR)
            if code != ErrorCode.NONE and (code not in OVERTAKEN or self._is_ours(key)):
                self._due.setdefault(key, directory)
                self.deadline_ms = now_ms + RETRY_MS
