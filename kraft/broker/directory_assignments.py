"""Tells the controller in which log directories this broker's replicas lie (KIP-858). Sans-IO.

The metadata says where a replica lies: the controller knows by itself of a broker with one directory, otherwise it
notes that nothing is assigned, and the broker tells. One request at a time, what comes up meanwhile goes into the next.
"""

from collections.abc import Callable
from typing import Final
from uuid import UUID

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.assign_replicas_to_dirs_request import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)
from kraft.protocol.messages.assign_replicas_to_dirs_response import AssignReplicasToDirsResponse

RETRY_MS: Final = 100
NEVER_MS: Final = (1 << 63) - 1
REPLICAS_MAX: Final = 2_000
"""Of one request."""

OVERTAKEN: Final = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)
"""The replica is no longer this broker's, as the metadata will tell."""

Key = tuple[UUID, int]


class DirectoryAssignments:
    """`submit(request)` asks the controller; its answer comes back to `answered`, some time."""

    def __init__(self, broker_id: int, submit: Callable[[AssignReplicasToDirsRequest], None]) -> None:
        self._broker_id = broker_id
        self._submit = submit
        self._due: dict[Key, UUID] = {}
        self._asked: dict[Key, UUID] | None = None
        self.deadline_ms = NEVER_MS
        """When `ask` is due again after a refusal."""

    def note(self, key: Key, directory: UUID, assigned: UUID) -> bool:
        """A replica lies in `directory`, while the metadata says `assigned`. Whether `ask` has something to do."""
        if directory == assigned or (self._asked or {}).get(key) == directory:
            self._due.pop(key, None)
            return False
        self._due[key] = directory
        return True

    def ask(self, broker_epoch: int) -> None:
        """Sends what is due, unless an answer is awaited."""
        if self._asked is not None or not self._due:
            return
        self.deadline_ms = NEVER_MS
        chosen = list(self._due)[:REPLICAS_MAX]
        self._asked = {key: self._due.pop(key) for key in chosen}
        directories: dict[UUID, dict[UUID, list[PartitionData]]] = {}
        for (topic_id, index), directory in self._asked.items():
            parts = directories.setdefault(directory, {}).setdefault(topic_id, [])
            parts.append(PartitionData(partition_index=index))
        self._submit(AssignReplicasToDirsRequest(
            broker_id=self._broker_id, broker_epoch=broker_epoch, directories=[
                DirectoryData(id=directory, topics=[TopicData(topic_id=topic_id, partitions=parts)
                                                    for topic_id, parts in topics.items()])
                for directory, topics in directories.items()]))

    def answered(self, response: AssignReplicasToDirsResponse, now_ms: int) -> None:
        """What the controller did not take is due again at `deadline_ms`; else there may be more to `ask`."""
        asked, self._asked = self._asked or {}, None
        settled = {(topic.topic_id, part.partition_index): True
                   for directory in response.directories for topic in directory.topics for part in topic.partitions
                   if part.error_code in (ErrorCode.NONE, *OVERTAKEN)}
        for key, directory in asked.items():
            if key not in settled:
                self._due.setdefault(key, directory)
                self.deadline_ms = now_ms + RETRY_MS
