"""Groups and offsets of one partition of `__consumer_offsets`.

This is the state and its replay. The neighbouring modules decide what a request does to it; they are functions over a
`GroupShard`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from kraft.broker.coordinator.answer import Answer
from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.coordinator.shard import Record, Shard, StoredRecord
from kraft.broker.groups.classic.group import ClassicGroup
from kraft.broker.groups.classic.member import Member
from kraft.broker.groups.config import GroupCoordinatorConfig
from kraft.broker.groups.consumer.group import ConsumerGroup
from kraft.broker.groups.consumer.records import deletion
from kraft.broker.groups.group_records import (
    ChangeReplay,
    GroupChange,
    GroupReplay,
    OffsetReplay,
    decode,
    deletes,
    group_record,
    record_of,
)
from kraft.broker.groups.offsets import OffsetTable
from kraft.broker.groups.ports import Environment
from kraft.broker.groups.share.group import ShareGroup
from kraft.broker.groups.streams.group import StreamsGroup
from kraft.protocol.error_codes import ErrorCode

AssignedGroup: TypeAlias = ConsumerGroup | ShareGroup | StreamsGroup
"""Group whose coordinator computes targets."""
Group: TypeAlias = ClassicGroup | AssignedGroup


class Verification:
    """A request that waits until its transaction is verified. `is_outdated`: a marker of its producer came meanwhile,
    so the transaction that is confirmed may have ended."""

    __slots__ = ("answer", "is_outdated", "producer_id")

    def __init__(self, producer_id: int, answer: Answer[Any]) -> None:
        self.producer_id = producer_id
        self.answer = answer
        self.is_outdated = False


class GroupShard:
    """State machine of one partition. Only `replay` changes the state that survives a restart."""

    def __init__(self, shard: Shard, environment: Environment) -> None:
        self.shard = shard
        self.environment = environment
        self.groups: dict[str, Group] = {}
        self.offsets = OffsetTable()
        self.deleting: dict[str, Answer[Any]] = {}
        """Groups that are being deleted, with the answers of the requests that delete them."""
        self._verifications: dict[int, dict[Verification, None]] = {}   # by producer id

    @property
    def config(self) -> GroupCoordinatorConfig:
        return self.environment.config

    @property
    def now_ms(self) -> int:
        return self.shard.now_ms

    # ---------------------------------------------------------------- replay

    def replay(self, record: StoredRecord) -> None:
        """Apply a record of the log. Raises ProtocolError when it is malformed; then nothing changed."""
        replayed = decode(record)
        if isinstance(replayed, OffsetReplay):
            if replayed.offset is not None:
                self._ensure_group(replayed.group_id)
            self.offsets.replay(replayed.group_id, replayed.topic, replayed.partition, replayed.offset,
                                record.producer_id)
        elif isinstance(replayed, GroupReplay):
            self._replay_group(replayed)
        elif isinstance(replayed, ChangeReplay):
            self._apply(replayed.kind, replayed.group_id, replayed.change)

    def replay_marker(self, producer_id: int, committed: bool) -> None:
        """End a transaction: its offsets become committed, or are dropped."""
        for verification in self._verifications.get(producer_id, ()):
            verification.is_outdated = True
        for group_id in self.offsets.replay_marker(producer_id, committed):
            self._ensure_group(group_id)

    def _ensure_group(self, group_id: str) -> None:
        """Create a simple group for offsets of a group that has no record of its own."""
        if group_id not in self.groups:
            self.groups[group_id] = ClassicGroup(group_id)

    def _replay_group(self, replayed: GroupReplay) -> None:
        group = self.groups.get(replayed.group_id)
        if replayed.value is None:
            if isinstance(group, ClassicGroup):
                self._forget(replayed.group_id)
            return
        if not isinstance(group, ClassicGroup):
            group = self.groups[replayed.group_id] = ClassicGroup(replayed.group_id)
        group.apply(replayed.value)

    def _apply(self, kind: type[AssignedGroup], group_id: str, change: GroupChange) -> None:
        """Apply a change of a group of that kind. A value makes a group of another kind one of this: offsets that were
        committed before stand before it in the log (KAFKA-20254). A tombstone is of a group that is another one now,
        unless the group is of this kind (KAFKA-17306)."""
        group = self.groups.get(group_id)
        if not isinstance(group, kind):
            if deletes(change):
                return
            group = self.groups[group_id] = kind(group_id)
        change.apply(group)
        if group.is_blank:
            self._forget(group_id)

    def _forget(self, group_id: str) -> None:
        """Remove a group; what offsets it has left are those of a simple group."""
        del self.groups[group_id]
        if self.offsets.of_group(group_id):
            self._ensure_group(group_id)

    # ---------------------------------------------------------------- life cycle

    def loaded(self) -> None:
        """Do nothing: the subclass that serves requests (`coordinator`) starts the clocks of the groups here."""

    def unloaded(self) -> None:
        """Refuse all parked requests with NOT_COORDINATOR: this node stopped coordinating these groups."""
        for group in self.groups.values():
            if isinstance(group, ClassicGroup):
                for member in group.members.values():
                    self.refuse_parked(group, member, ErrorCode.NOT_COORDINATOR)
        self.groups.clear()
        for answer in dict.fromkeys(self.deleting.values()):
            self.shard.refuse(answer, ErrorCode.NOT_COORDINATOR)
        self.deleting.clear()
        for verification in [each for some in self._verifications.values() for each in some]:
            self.shard.refuse(verification.answer, ErrorCode.NOT_COORDINATOR)

    # ---------------------------------------------------------------- common to the decisions

    def classic_group(self, group_id: str) -> ClassicGroup | None:
        """Return the classic group of that name, or None."""
        group = self.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def consumer_group(self, group_id: str) -> ConsumerGroup | None:
        """Return the consumer group of that name, or None."""
        group = self.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def share_group(self, group_id: str) -> ShareGroup | None:
        """Return the share group of that name, or None."""
        group = self.groups.get(group_id)
        return group if isinstance(group, ShareGroup) else None

    def write_changes(self, group_id: str, changes: Sequence[GroupChange], before: Sequence[Record] = (),
                      after: Sequence[Record] = (), kind: type[AssignedGroup] = ConsumerGroup) -> None:
        """Append the records of changes of a group of that kind as one batch, between other records, and apply them.
        Raises RefusedError when the append failed; then nothing changed."""
        def apply() -> None:
            for record in before:
                self.replay(StoredRecord(-1, record.key, record.value))
            for change in changes:
                self._apply(kind, group_id, change)
            for record in after:
                self.replay(StoredRecord(-1, record.key, record.value))

        self.shard.write([*before, *(record_of(group_id, change, self.now_ms) for change in changes), *after],
                         apply=apply)

    def check_not_deleting(self, group_id: str) -> None:
        """Refuse with COORDINATOR_LOAD_IN_PROGRESS, which clients retry, while the group is being deleted: some of its
        offsets may be deleted already."""
        if group_id in self.deleting:
            raise RefusedError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def begin_verification(self, producer_id: int, answer: Answer[Any]) -> Verification:
        """Register a request whose transaction is to be verified. Call `end_verification` when that is done."""
        verification = Verification(producer_id, answer)
        self._verifications.setdefault(producer_id, {})[verification] = None
        return verification

    def end_verification(self, verification: Verification) -> None:
        """Remove the request; its answer is the caller's, unless it was given."""
        pending = self._verifications[verification.producer_id]
        del pending[verification]
        if not pending:
            del self._verifications[verification.producer_id]

    def refuse_parked(self, group: ClassicGroup, member: Member, error: ErrorCode,
                      member_id: str | None = None) -> None:
        """Refuse the parked requests of `member`. `member_id` is the id in the JoinGroup answer."""
        if (join := group.take_join(member)) is not None:
            response = join.refusal(error)
            response.member_id = member.member_id if member_id is None else member_id
            self.shard.reply(join, response)
        if member.awaiting_sync is not None:
            sync, member.awaiting_sync = member.awaiting_sync, None
            self.shard.refuse(sync, error)

    def deletion_records(self, group_id: str) -> list[Record]:
        """Return the tombstones of a group itself, without its offsets."""
        group = self.groups[group_id]
        if not isinstance(group, ClassicGroup):
            return [record_of(group_id, change, self.now_ms) for change in _deletion(group)]
        return [group_record(group_id, None, self.now_ms)]

    def existing_group(self, group_id: str) -> Group:
        """Return the group of that name; refuse with GROUP_ID_NOT_FOUND."""
        group = self.groups.get(group_id)
        if group is None:
            raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group


def _deletion(group: AssignedGroup) -> Sequence[GroupChange]:
    """Return the changes that delete all records of a group."""
    if isinstance(group, ConsumerGroup):
        return deletion(group)
    # Imported here: a node without such groups starts without the classes of their records.
    if isinstance(group, ShareGroup):
        from kraft.broker.groups.share.records import deletion as share_deletion
        return share_deletion(group)
    from kraft.broker.groups.streams.records import deletion as streams_deletion
    return streams_deletion(group)
