"""State of a streams group. Each of its records has a place of its own here, so the state after a load does not depend
on which superseded records the log still has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import TYPE_CHECKING, Final

from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.groups.epochs import EpochGroup
from kraft.broker.groups.streams.configuring import Configured
from kraft.broker.groups.streams.member import NEW_MEMBER, Current, Properties
from kraft.broker.groups.streams.tasks import Task, TaskSet, each_task
from kraft.broker.groups.streams.topology import Topology
from kraft.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kraft.protocol.messages.streams_group_heartbeat_response import EndpointToPartitions

STREAMS_TYPE: Final = "streams"
NOT_VALIDATED: Final = -1


class GroupState(Enum):
    """States of a streams group, with their names in ListGroups."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    """The topics do not fit the topology yet."""
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class StreamsGroup(EpochGroup[TaskSet]):
    """One group. `apply` of a change in `records` calls the setters, and nothing else does."""

    __slots__ = ("_holders", "_owners", "_readers", "_topology", "assignment_configs", "configured", "currents",
                 "delayed_until_ms", "endpoint_epoch", "endpoints", "members", "shutdown_member_id",
                 "validated_topology_epoch")

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.members: dict[str, Properties] = {}
        """Members, in the order of joining."""
        self.currents: dict[str, Current] = {}
        self._topology: Topology | None = None
        self.validated_topology_epoch = NOT_VALIDATED
        """Epoch of the topology that the topics fit."""
        self.assignment_configs: tuple[tuple[str, str], ...] = ()
        """Settings of the group's assignor, as the group's epoch was computed with."""
        # What follows from the records:
        self._readers: dict[str, str] = {}                      # topic -> subtopology that reads it
        self._owners: dict[Task, str] = {}                      # active tasks -> member
        self._holders: dict[Task, dict[str, None]] = {}         # standby and warm-up tasks -> members
        # Memory only:
        self.configured: Configured | None = None
        self.delayed_until_ms = 0                               # time before which a new group gets no target
        self.shutdown_member_id = ""                            # member that requested the end of the application
        self.endpoint_epoch = 0                                 # increases when a member with an endpoint gets tasks
        self.endpoints: dict[str, EndpointToPartitions] = {}    # what members with an endpoint have

    # ---------------------------------------------------------------- reading

    @property
    def topology(self) -> Topology | None:
        return self._topology

    @property
    def is_blank(self) -> bool:
        """True without any record: the group does not exist."""
        return not (self.has_epoch or self.has_target_epoch or self.members or self.currents or self.targets
                    or self._topology is not None)

    @property
    def is_empty(self) -> bool:
        """True without members."""
        return not self.members

    @property
    def state(self) -> GroupState:
        if not self.members:
            return GroupState.EMPTY
        if self._topology is None or self._topology.epoch != self.validated_topology_epoch:
            return GroupState.NOT_READY
        if self.epoch > self.target_epoch:
            return GroupState.ASSIGNING
        if all(self.current(each).is_reconciled_to(self.target_epoch) for each in self.members):
            return GroupState.STABLE
        return GroupState.RECONCILING

    def current(self, member_id: str) -> Current:
        """Return the tasks of a member; those of a new one when it has none."""
        return self.currents.get(member_id, NEW_MEMBER)

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether a member reads `topic`."""
        return bool(self.members) and topic in self._readers

    def owner(self, task: Task) -> str | None:
        """Return the member that has the task as active."""
        return self._owners.get(task)

    def holders(self, task: Task) -> Iterable[str]:
        """Return the members that have the task as a standby or warm-up task."""
        return self._holders.get(task, ())

    def process_of(self, member_id: str) -> str:
        """Return the process of a member; "" when the log has lost the record of its properties."""
        member = self.members.get(member_id)
        return "" if member is None else member.process_id

    # ---------------------------------------------------------------- checks

    def member(self, member_id: str) -> Properties:
        """Return a member; refuse with UNKNOWN_MEMBER_ID."""
        found = self.members.get(member_id)
        if found is None:
            raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID,
                               f"Member {member_id} is not a member of group {self.group_id}.")
        return found

    def check_offset_commit(self, member_id: str, epoch: int, api_has_epochs: bool,
                            partitions: Iterator[tuple[str, int]]) -> None:
        """Refuse a commit of another epoch than the member's with STALE_MEMBER_EPOCH: the member waits for its next
        heartbeat. A member needs an API that has member epochs.

        A member that has entered a later epoch meanwhile may commit those `partitions`, by the names of their topics,
        whose active task it has had since then (KIP-1251). Commits without member come from operators, and need an
        empty group.
        """
        if epoch < 0 and not self.members:
            return
        self.member(member_id)
        if not api_has_epochs:
            raise RefusedError(ErrorCode.UNSUPPORTED_VERSION)
        current = self.current(member_id)
        if epoch == current.epoch:
            return
        if epoch > current.epoch or not all(self._has_since(current, topic, index, epoch)
                                            for topic, index in partitions):
            raise RefusedError(ErrorCode.STALE_MEMBER_EPOCH,
                               f"The member epoch {epoch} is not the expected {current.epoch}.")

    def _has_since(self, current: Current, topic: str, index: int, epoch: int) -> bool:
        subtopology = self._readers.get(topic, "")
        for held in (current.assigned, current.revoking):
            since = held.active.get(subtopology, {}).get(index)
            if since is not None:
                return since <= epoch
        return False

    def check_offset_fetch(self, member_id: str | None, epoch: int) -> None:
        """Refuse a fetch by a member in another epoch than the named one: UNKNOWN_MEMBER_ID or STALE_MEMBER_EPOCH,
        never an answer without offsets. Fetches that name no member pass."""
        if member_id is None and epoch < 0:
            return
        self.member(member_id or "")
        if epoch != self.current(member_id or "").epoch:
            raise RefusedError(ErrorCode.STALE_MEMBER_EPOCH)

    # ---------------------------------------------------------------- replay

    def set_member(self, member_id: str, properties: Properties | None) -> None:
        """Set the properties of a member; None removes it."""
        self.endpoints.pop(member_id, None)
        if properties is not None:
            self.members[member_id] = properties
            return
        self.members.pop(member_id, None)
        if not self.members:
            self.shutdown_member_id = ""

    def set_current(self, member_id: str, current: Current | None) -> None:
        """Set the tasks of a member; None removes it.

        An active task that two members seem to have, because the log lacks the record by which the first one gave it
        up, is the later one's.
        """
        before = self.currents.pop(member_id, None)
        if before is not None:
            self._release(member_id, before)
        self.endpoints.pop(member_id, None)
        if current is None:
            return
        self.currents[member_id] = current
        for held in (current.assigned, current.revoking):
            for task in each_task(held.active):
                self._owners[task] = member_id
            for task in held.passive:
                self._holders.setdefault(task, {})[member_id] = None

    def _release(self, member_id: str, current: Current) -> None:
        for held in (current.assigned, current.revoking):
            for task in each_task(held.active):
                if self._owners.get(task) == member_id:
                    del self._owners[task]
            for task in held.passive:
                holders = self._holders.get(task, {})
                holders.pop(member_id, None)
                if not holders:
                    self._holders.pop(task, None)

    def set_topology(self, topology: Topology | None) -> None:
        """Set the topology; None removes it."""
        self._topology = topology
        self._readers = {} if topology is None else topology.readers()
        self.configured = self.seen_topics = None

    def set_validation(self, topology_epoch: int, configs: tuple[tuple[str, str], ...]) -> None:
        """Set what the record of the group's epoch says beside the epoch."""
        self.validated_topology_epoch = topology_epoch
        self.assignment_configs = configs
