"""Bugs in groups: those that Kafka had in its consumer groups (KIP-848), and missing rules of the protocol. They are
applied to the real code of the coordinator."""

from typing import Any, Final

from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.coordinator.shard import Shard
from kraft.broker.groups import served
from kraft.broker.groups.classic.group import ClassicGroup
from kraft.broker.groups.consumer import heartbeats, migration, reconciling, regexes
from kraft.broker.groups.consumer.assignors import ASSIGNORS
from kraft.broker.groups.consumer.group import ConsumerGroup
from kraft.broker.groups.consumer.member import JOINING_EPOCH
from kraft.broker.groups.consumer.records import CurrentChange, EpochChange, TargetEpochChange
from kraft.broker.groups.group_records import ChangeReplay, decode, deletes
from kraft.broker.groups.shard import GroupShard
from kraft.protocol.error_codes import ErrorCode
from kraft.testing.mutants.patches import Collection, Patches
from kraft_native.base.errors import ProtocolError

GROUPS = Collection()

CONSUMERS: Final[dict[str, int | bool]] = {"classic_per_mille": 0, "group_level_every_ms": 0}
CLASSIC: Final[dict[str, int | bool]] = {"classic_per_mille": 1000, "group_topic_every_ms": 0}
BUSY: Final[dict[str, int | bool]] = {"skew_ppm": 0, "jump_every_ms": 0, "members": 5, "member_every_ms": 150,
                                      "fault_seconds": 10}

QUIET: Final[dict[str, int | bool]] = {
    **CONSUMERS, "skew_ppm": 0, "jump_every_ms": 0, "members": 5, "fault_seconds": 10, "groups": 3,
    "static_per_mille": 0, "regex_per_mille": 0, "group_topics": 2, "group_partitions": 3, "assignment_ms": 0,
    "group_topic_every_ms": 0, "repeat_per_mille": 0, "kill_every_ms": 0, "power_every_ms": 0, "blackout_every_ms": 0,
    "pause_every_ms": 0, "shutdown_every_ms": 0, "isolate_every_ms": 0, "part_every_ms": 0, "cut_every_ms": 0,
    "shuffle_every_ms": 0, "reboot_every_ms": 0, "zombie_every_ms": 0, "directory_every_ms": 0, "move_every_ms": 0,
    "elect_every_ms": 0, "resign_every_ms": 0, "group_setting_every_ms": 0}
"""Many members come and go, and nothing else happens."""


@GROUPS.add(0, "KAFKA-16147", group_session_ms=2000, group_rebalance_ms=3000, heartbeat_ms=100, member_every_ms=60,
            **QUIET)
def returned_partition_has_no_owner(patches: Patches) -> None:
    """A partition that its member was to give up and keeps after all is free for others."""
    def around(original: Any) -> Any:
        def set_current(group: Any, member_id: str, current: Any) -> None:
            before = group.currents.get(member_id)
            original(group, member_id, current)
            if before is None or current is None:
                return
            for topic_id, partitions in before.revoking.items():
                for index in partitions:
                    if index in current.assigned.get(topic_id, {}):
                        group.owners.pop((topic_id, index), None)

        return set_current

    patches.wrap(ConsumerGroup, "set_current", around)


@GROUPS.add(0, "KAFKA-19233", **CONSUMERS)
def known_member_cannot_join_again(patches: Patches) -> None:
    """A member that is in the group and joins again, because the answer was lost, is fenced."""
    def around(original: Any) -> Any:
        def find(group: Any, member_id: str, request: Any, named: Any) -> Any:
            found = original(group, member_id, request, named)
            if request.member_epoch == JOINING_EPOCH and found.subscription is not None and found.replaced_id is None:
                raise RefusedError(ErrorCode.FENCED_MEMBER_EPOCH)
            return found

        return find

    patches.wrap(heartbeats, "_find", around)


@GROUPS.add(0, "KAFKA-17306", clean_per_mille=1000, static_per_mille=0, classic_per_mille=0)
def tombstone_without_its_group_fails(patches: Patches) -> None:
    """A load fails at a tombstone of a group that has no other record any more."""
    def around(original: Any) -> Any:
        def apply(shard: Any, kind: Any, group_id: str, change: Any) -> None:
            if deletes(change) and not isinstance(shard.groups.get(group_id), kind):
                raise ProtocolError(f"{group_id} does not exist")
            original(shard, kind, group_id, change)

        return apply

    patches.wrap(GroupShard, "_apply", around)


@GROUPS.add(0, "KAFKA-19862", clean_per_mille=1000, classic_per_mille=0, members=1, member_every_ms=150, groups=3,
            elect_every_ms=400, move_every_ms=400, partitions=1, fault_seconds=10)
def epoch_before_its_members_is_lost(patches: Patches) -> None:
    """A load ignores the epoch of a group that has no other record before it: the cleaner has removed those of its
    members, which had left."""
    def around(original: Any) -> Any:
        def replay(shard: Any, record: Any) -> None:
            replayed = decode(record)
            if (isinstance(replayed, ChangeReplay) and isinstance(replayed.change, EpochChange | TargetEpochChange)
                    and not isinstance(shard.groups.get(replayed.group_id), ConsumerGroup)):
                return
            original(shard, record)

        return replay

    patches.wrap(GroupShard, "replay", around)


@GROUPS.add(0, "KAFKA-20254", classic_per_mille=0)
def offsets_keep_a_group_classic(patches: Patches) -> None:
    """A load ignores the records of a consumer group after offsets of it, which were committed before and make a simple
    group."""
    def around(original: Any) -> Any:
        def replay(shard: Any, record: Any) -> None:
            replayed = decode(record)
            if isinstance(replayed, ChangeReplay) and isinstance(
                    shard.groups.get(replayed.group_id), ClassicGroup):
                return
            original(shard, record)

        return replay

    patches.wrap(GroupShard, "replay", around)


@GROUPS.add(0, "KAFKA-21117", **CLASSIC)
def offsets_hide_a_classic_group(patches: Patches) -> None:
    """A load ignores the record of a classic group after offsets of it, which were committed before and make a simple
    group."""
    def around(original: Any) -> Any:
        def replay_group(shard: Any, replayed: Any) -> None:
            group = shard.groups.get(replayed.group_id)
            if isinstance(group, ClassicGroup) and group.is_simple and shard.offsets.of_group(replayed.group_id):
                return
            original(shard, replayed)

        return replay_group

    patches.wrap(GroupShard, "_replay_group", around)


@GROUPS.add(0, "KAFKA-18688", **CONSUMERS, **BUSY)
def assignor_is_not_stable(patches: Patches) -> None:
    """The uniform assignor exchanges the targets of two members with the same subscription, each time that it is
    called."""
    def around(original: Any) -> Any:
        def assign(spec: Any) -> Any:
            found = dict((yield from original(spec)))
            first, last = min(found, default=None), max(found, default=None)
            if (first != last and spec.members[first].topics == spec.members[last].topics
                    and found[first] == spec.members[first].previous):
                found[first], found[last] = found[last], found[first]
            return found

        return assign

    patches.entry(ASSIGNORS, "uniform", around(ASSIGNORS["uniform"]))


@GROUPS.add(0, "KAFKA-16930", **CONSUMERS)
def member_without_topics_is_refused(patches: Patches) -> None:
    """A member that subscribes to nothing cannot join."""
    def around(original: Any) -> Any:
        def check_form(request: Any, api_version: int, assignors: Any) -> None:
            original(request, api_version, assignors)
            if request.member_epoch == JOINING_EPOCH and not (
                    request.subscribed_topic_names or request.subscribed_topic_regex):
                raise RefusedError(ErrorCode.INVALID_REQUEST)

        return check_form

    patches.wrap(heartbeats, "check_form", around)


@GROUPS.add(0, "a new leader has the sessions of all members", **CONSUMERS)
def sessions_end_with_the_leader(patches: Patches) -> None:
    """A coordinator does not know the sessions of members that joined another one, so those that died stay."""
    def loaded(_shard: Any) -> None:
        """Start no clock."""

    patches.put(served.ServedGroups, "loaded", loaded)


@GROUPS.add(0, "KIP-848: a partition has one owner", **CONSUMERS, **BUSY)
def partition_is_given_before_it_is_free(patches: Patches) -> None:
    """A member gets its whole target at once."""
    def around(original: Any) -> Any:
        def next_assignment(current: Any, target: Any, _is_free: Any, named: Any) -> Any:
            return original(current, target, lambda _topic_id, _index: True, named)

        return next_assignment

    patches.wrap(heartbeats, "next_assignment", around)


@GROUPS.add(0, "KIP-848: members confirm what they give up", **CONSUMERS, **BUSY)
def revocation_needs_no_confirmation(patches: Patches) -> None:
    """A partition that a member is to give up is free at once."""
    def names_any(_named: Any, _partitions: Any) -> bool:
        return False

    patches.put(reconciling, "_names_any", names_any)


@GROUPS.add(0, "KIP-848: the group's epoch", **CONSUMERS)
def removal_begins_no_epoch(patches: Patches) -> None:
    """The partitions of a member that is removed stay without an owner until something else happens."""
    def around(original: Any) -> Any:
        def fence(group: Any, member_ids: Any, cluster: Any) -> Any:
            return [each for each in original(group, member_ids, cluster) if not isinstance(each, EpochChange)]

        return fence

    patches.wrap(heartbeats, "fence", around)


@GROUPS.add(0, "commits are fenced by the member epoch", group_session_ms=500, group_rebalance_ms=1500, heartbeat_ms=50,
            member_every_ms=150, **QUIET)
def removed_member_may_commit(patches: Patches) -> None:
    """A commit is not checked for the member that it names."""
    def check_offset_commit(_group: Any, _member_id: str, _epoch: int, _api_has_epochs: bool,
                            _partitions: Any) -> None:
        """Accept it."""

    patches.put(ConsumerGroup, "check_offset_commit", check_offset_commit)


@GROUPS.add(0, "answers wait for the commit of their records")
def answers_do_not_wait(patches: Patches) -> None:
    """An answer leaves when its records are appended, before they are committed."""
    def reply(_shard: Any, answer: Any, response: Any) -> None:
        answer.give(response)

    patches.put(Shard, "reply", reply)


@GROUPS.add(0, "KIP-848: regular expressions", classic_per_mille=0, regex_per_mille=700, group_topic_every_ms=800,
            group_topics=2, fault_seconds=10)
def regular_expressions_are_resolved_once(patches: Patches) -> None:
    """Topics that are created later do not match a regular expression."""
    def around(original: Any) -> Any:
        def due(group: Any, cluster: Any) -> Any:
            wanted = original(group, cluster)
            return wanted if any(each not in group.regexes for each in wanted) else []

        return due

    patches.wrap(regexes, "due", around)


@GROUPS.add(0, "KIP-848: online upgrades", classic_per_mille=500, migration_policy=3, group_topic_every_ms=0,
            group_level_every_ms=0, **BUSY)
def upgrade_forgets_assignments(patches: Patches) -> None:
    """Members of a classic group that becomes a consumer group have nothing then, so others get their partitions."""
    def around(original: Any) -> Any:
        def upgrade(group: Any, cluster: Any) -> Any:
            return [CurrentChange(each.member_id, each.current._replace(assigned={}))
                    if isinstance(each, CurrentChange) and each.current is not None else each
                    for each in original(group, cluster)]

        return upgrade

    patches.wrap(migration, "upgrade", around)
