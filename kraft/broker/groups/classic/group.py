"""Classic group: its members, its generation, and the rules that need nothing else.

The group sends no answers and has no clock; `rebalancing` and its neighbours do that. Only the state that `apply` reads
from a record survives a restart. A rebalance in progress is forgotten, and its members join again.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum

from kraft.broker.coordinator.answer import Answer
from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.groups.classic.member import Member, Protocols
from kraft.broker.groups.classic.subscription import subscribed_topics
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.group_metadata_value import GroupMetadataValue
from kraft.protocol.messages.join_group_response import JoinGroupResponse
from kraft_native.base.errors import ProtocolError

CONSUMER_PROTOCOL_TYPE = "consumer"


class GroupState(Enum):
    """States of a classic group, with their names in ListGroups."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"       # only reported, of groups that do not exist


_PREVIOUS_STATES = {
    GroupState.EMPTY: (GroupState.PREPARING_REBALANCE,),
    GroupState.PREPARING_REBALANCE: (GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY),
    GroupState.COMPLETING_REBALANCE: (GroupState.PREPARING_REBALANCE,),
    GroupState.STABLE: (GroupState.COMPLETING_REBALANCE,),
}


class ClassicGroup:
    """One group. `members` is in the order of joining, which decides every choice between equals."""

    __slots__ = (
        "awaiting_join_count", "generation_id", "group_id", "leader_id", "members", "new_member_added",
        "pending_join_members", "pending_sync_members", "previous_state", "protocol_name", "protocol_type", "state",
        "state_timestamp_ms", "static_members", "subscribed_topics", "supported_protocols",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.previous_state = GroupState.DEAD
        self.state_timestamp_ms: int | None = None
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}            # instance id -> member id
        self.pending_join_members: dict[str, None] = {}     # ids assigned with MEMBER_ID_REQUIRED
        self.pending_sync_members: dict[str, None] = {}
        self.supported_protocols: Counter[str] = Counter()  # name -> number of members that support it
        self.subscribed_topics: dict[str, None] | None = None   # None: unknown
        self.awaiting_join_count = 0
        self.new_member_added = False                       # since the initial delay was last extended

    # ---------------------------------------------------------------- properties

    @property
    def is_simple(self) -> bool:
        """True for a group that only stores offsets: no member ever joined it."""
        return self.protocol_type is None and self.state is GroupState.EMPTY and not self.pending_join_members

    @property
    def is_consumer_type(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def rebalance_timeout_ms(self) -> int:
        """Longest rebalance timeout of the members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def has_all_members_joined(self) -> bool:
        return self.awaiting_join_count == len(self.members) and not self.pending_join_members

    @property
    def can_rebalance(self) -> bool:
        return self.state in _PREVIOUS_STATES[GroupState.PREPARING_REBALANCE]

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether members may use offsets of `topic`. A consumer group with unknown subscriptions may use those
        of any."""
        if self.subscribed_topics is not None:
            return topic in self.subscribed_topics
        return self.is_consumer_type

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Return whether a member with these protocols is compatible with the present members."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        return (self.protocol_type == protocol_type
                and any(self.supported_protocols[name] == len(self.members) for name, _ in protocols))

    def check_member(self, member_id: str, group_instance_id: str | None) -> None:
        """Refuse a member outside the group (UNKNOWN_MEMBER_ID) or a replaced one (FENCED_INSTANCE_ID)."""
        if group_instance_id is not None:
            existing = self.static_members.get(group_instance_id)
            if existing is None:
                raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID)
            if existing != member_id:
                raise RefusedError(ErrorCode.FENCED_INSTANCE_ID)
        if member_id not in self.members:
            raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID)

    def check_offset_commit(self, member_id: str, group_instance_id: str | None, generation_id: int, *,
                            in_transaction: bool = False) -> None:
        """Refuse commits unless they come from a member of the current generation; a group without members accepts any
        commit.

        A commit in a transaction (KIP-447) need not name a member: then the transaction alone fences it. A member may
        commit so while the group completes a rebalance."""
        if generation_id < 0 and self.state is GroupState.EMPTY:
            return
        if generation_id >= 0 or member_id or group_instance_id is not None:
            self.check_member(member_id, group_instance_id)
            if generation_id != self.generation_id:
                raise RefusedError(ErrorCode.ILLEGAL_GENERATION)
        elif self.state is not GroupState.EMPTY and not in_transaction:
            raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID)
        if self.state is GroupState.COMPLETING_REBALANCE and not in_transaction:
            raise RefusedError(ErrorCode.REBALANCE_IN_PROGRESS)

    # ---------------------------------------------------------------- members

    def add(self, member: Member, protocol_type: str) -> None:
        """Add `member`, whose protocols the group supports; the first one becomes the leader and sets the type."""
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_members, "a static member was added twice"
            self.static_members[member.group_instance_id] = member.member_id
        if not self.members:
            self.protocol_type = protocol_type
        assert self.protocol_type == protocol_type, "a member of another protocol type was added"
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self.supported_protocols.update(name for name, _ in member.protocols)
        if member.awaiting_join is not None:
            self.awaiting_join_count += 1
        self.pending_join_members.pop(member.member_id, None)

    def remove(self, member_id: str) -> Member | None:
        """Remove a member, or an assigned id. If it was the leader, the oldest member becomes the leader."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self.supported_protocols.subtract(name for name, _ in member.protocols)
            if member.awaiting_join is not None:
                self.awaiting_join_count -= 1
            if member.group_instance_id is not None:
                self.static_members.pop(member.group_instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_join_members.pop(member_id, None)
        self.pending_sync_members.pop(member_id, None)
        return member

    def replace_static(self, old: Member, new_member_id: str) -> Member:
        """Give the static member `old` a new id in its place; its assignment and its leadership are kept."""
        assert old.group_instance_id is not None
        assert old.awaiting_join is None, "the old member's JoinGroup was not answered"
        new = Member(new_member_id, old.group_instance_id, old.client_id, old.client_host, old.rebalance_timeout_ms,
                     old.session_timeout_ms, old.protocols, old.assignment)
        self.members = {m.member_id: m for m in (new if m is old else m for m in self.members.values())}
        if self.leader_id == old.member_id:
            self.leader_id = new_member_id
        self.static_members[old.group_instance_id] = new_member_id
        self.pending_sync_members.pop(old.member_id, None)
        return new

    def update(self, member: Member, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int) -> None:
        """Apply the properties that a member sends when it joins again."""
        self.supported_protocols.subtract(name for name, _ in member.protocols)
        member.protocols = protocols
        self.supported_protocols.update(name for name, _ in protocols)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def park_join(self, member: Member, answer: Answer[JoinGroupResponse]) -> None:
        """Keep the answer of a JoinGroup until the rebalance completes."""
        assert member.awaiting_join is None, "the JoinGroup before it was not answered"
        member.awaiting_join = answer
        self.awaiting_join_count += 1

    def take_join(self, member: Member) -> Answer[JoinGroupResponse] | None:
        """Return the parked answer of a JoinGroup, which the caller now sends."""
        answer, member.awaiting_join = member.awaiting_join, None
        if answer is not None:
            self.awaiting_join_count -= 1
        return answer

    def elect_joined_leader(self) -> bool:
        """Ensure that a member that rejoined is the leader. Return False when no member rejoined."""
        leader = self.members.get(self.leader_id) if self.leader_id is not None else None
        if leader is None:
            return False
        if leader.awaiting_join is None:
            joined = next((member for member in self.members.values() if member.awaiting_join is not None), None)
            if joined is None:
                return False
            self.leader_id = joined.member_id
        return True

    # ---------------------------------------------------------------- generations

    def move_to(self, state: GroupState, now_ms: int) -> None:
        """Change to `state`, which must be reachable from the current one."""
        assert self.state in _PREVIOUS_STATES[state], f"group {self.group_id}: {self.state.value} to {state.value}"
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = now_ms

    def select_protocol(self) -> str:
        """Return the protocol that all members support and most prefer. Between equals, the first vote decides."""
        assert self.members, "an empty group selects no protocol"
        votes = Counter(next(name for name, _ in member.protocols
                             if self.supported_protocols[name] == len(self.members))
                        for member in self.members.values())
        return max(votes, key=votes.__getitem__)

    def begin_generation(self, now_ms: int) -> None:
        """End the join phase with at least one member: the members are to sync."""
        self.generation_id += 1
        self.protocol_name = self.select_protocol()
        self.subscribed_topics = self._subscriptions()
        self.move_to(GroupState.COMPLETING_REBALANCE, now_ms)
        self.pending_sync_members.clear()

    def apply(self, value: GroupMetadataValue) -> None:
        """Replace the group's state by a record's. Members that stay keep what exists only in memory."""
        before, self.members = self.members, {}
        protocols_before = {member.member_id: member.protocols for member in before.values()}
        self.static_members.clear()
        self.supported_protocols.clear()
        self.previous_state = self.state
        self.state = GroupState.STABLE if value.members else GroupState.EMPTY
        self.state_timestamp_ms = None if value.current_state_timestamp == -1 else value.current_state_timestamp
        self.generation_id = value.generation
        self.protocol_type = value.protocol_type or None
        self.protocol_name = value.protocol
        self.leader_id = value.leader
        for recorded in value.members:
            member = before.get(recorded.member_id) or Member(
                recorded.member_id, recorded.group_instance_id, recorded.client_id, recorded.client_host, 0, 0, ())
            kept = protocols_before.get(recorded.member_id, ())
            said = (value.protocol or "", recorded.subscription)
            member.protocols = kept if said in kept else (said,)
            member.session_timeout_ms = recorded.session_timeout
            member.rebalance_timeout_ms = (recorded.session_timeout if recorded.rebalance_timeout == -1
                                           else recorded.rebalance_timeout)
            member.assignment = recorded.assignment
            self.members[member.member_id] = member
            self.supported_protocols.update(name for name, _ in member.protocols)
            if member.group_instance_id is not None:
                self.static_members[member.group_instance_id] = member.member_id
        self.awaiting_join_count = sum(member.awaiting_join is not None for member in self.members.values())
        self.subscribed_topics = self._subscriptions()

    def _subscriptions(self) -> dict[str, None] | None:
        """Return the topics that members subscribe to; None when they are unknown."""
        if not self.is_consumer_type:
            return None
        if not self.members:
            return {}
        if self.protocol_name is None:
            return None
        try:
            return {topic: None for member in self.members.values()
                    for topic in subscribed_topics(member.metadata(self.protocol_name))}
        except ProtocolError:
            return None     # a non-standard client: every topic is treated as subscribed, so that nothing expires
