"""Decisions about ConsumerGroupHeartbeat: what it changes, and the answer. Nothing here changes the group.

A heartbeat has three parts (KIP-848):

1. The member joins, changes its subscription, or only shows that it is alive. A change of what the group subscribes to
   begins a new epoch of the group.
2. A newer epoch needs a new target, which the heartbeat computes itself if the group is small and a target is due.
3. The member takes its next step towards its target.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.coordinator.patterns import Pattern, PatternError
from kraft.broker.groups.consumer import assigning, subscribing
from kraft.broker.groups.consumer.cluster import Cluster, Origin
from kraft.broker.groups.consumer.group import ConsumerGroup
from kraft.broker.groups.consumer.member import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    STATIC_LEAVING_EPOCH,
    Current,
    Owned,
    Partitions,
    Subscription,
    partitions_of,
    sorted_partitions,
)
from kraft.broker.groups.consumer.reconciling import Target, next_assignment
from kraft.broker.groups.consumer.records import (
    Change,
    CurrentChange,
    EpochChange,
    RegexChange,
    SubscriptionChange,
    TargetChange,
    TargetEpochChange,
)
from kraft.broker.groups.epochs import GroupEpoch, TargetEpoch
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kraft.steps import finish

FIRST_VERSION_WITH_MEMBER_ID: Final = 1
"""First version in which the member creates its id (KIP-1082)."""


NAMES_MAX: Final = 10_000
"""Limit of the topics that one member names; a regular expression may match more."""
PARTITIONS_MAX: Final = 50_000
"""Limit of the partitions that one member may name as its own."""


class Decision(NamedTuple):
    """Decision about one heartbeat. `current` is the member's next assignment; `assignment` is in the answer unless it
    is None. `replaced_id` is the id that a static member had before. `seen_topics`: see `ConsumerGroup`. `confirms`:
    the member named exactly what it is assigned, or did not; None when that is as before."""

    member_id: str
    current: Current
    assignment: Owned | None
    changes: list[Change]
    replaced_id: str | None = None
    seen_topics: object = None
    confirms: bool | None = None

    @property
    def is_step(self) -> bool:
        """True when the member's assignment changes."""
        return any(isinstance(each, CurrentChange) and each.member_id == self.member_id for each in self.changes)


# -------------------------------------------------------------------- the form of a request

def check_form(request: ConsumerGroupHeartbeatRequest, api_version: int, assignors: tuple[str, ...]) -> None:
    """Refuse a request that no group could serve."""
    _need(request.group_id, "GroupId can't be empty.")
    _need(request.instance_id is None or request.instance_id, "InstanceId can't be empty.")
    _need(request.rack_id is None or request.rack_id, "RackId can't be empty.")
    if api_version >= FIRST_VERSION_WITH_MEMBER_ID or request.member_epoch > 0 or request.member_epoch == LEAVING_EPOCH:
        _need(request.member_id, "MemberId can't be empty.")
    if request.member_epoch == JOINING_EPOCH:
        _need(request.rebalance_timeout_ms != -1, "RebalanceTimeoutMs must be provided in first request.")
        _need(request.topic_partitions == [], "TopicPartitions must be empty when (re-)joining.")
        # Both may be empty: the member then belongs to the group and reads nothing (KAFKA-16930).
        _need(request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None,
              "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
    elif request.member_epoch == STATIC_LEAVING_EPOCH:
        _need(request.member_id, "MemberId can't be empty.")
        _need(request.instance_id is not None, "InstanceId can't be null.")
    else:
        _need(request.member_epoch >= LEAVING_EPOCH, "MemberEpoch is invalid.")
    _need(len(request.subscribed_topic_names or ()) <= NAMES_MAX,
          f"SubscribedTopicNames has more than {NAMES_MAX} names.")
    _need(sum(1 + len(each.partitions) for each in request.topic_partitions or ()) <= PARTITIONS_MAX,
          f"TopicPartitions has more than {PARTITIONS_MAX} topics and partitions.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise RefusedError(ErrorCode.UNSUPPORTED_ASSIGNOR, f"ServerAssignor {request.server_assignor} is not "
                           f"supported. Supported assignors: {', '.join(assignors)}.")
    if request.subscribed_topic_regex:
        try:
            Pattern(request.subscribed_topic_regex)
        except PatternError as error:
            raise RefusedError(ErrorCode.INVALID_REGULAR_EXPRESSION, f"SubscribedTopicRegex "
                               f"`{request.subscribed_topic_regex[:256]}` is not valid: {error}.") from error


def _need(holds: object, message: str) -> None:
    if not holds:
        raise RefusedError(ErrorCode.INVALID_REQUEST, message)


# -------------------------------------------------------------------- members

class _Found(NamedTuple):
    """Member of a heartbeat as it is before: None for one that is new."""

    subscription: Subscription | None
    current: Current
    replaced_id: str | None = None


def _find(group: ConsumerGroup, member_id: str, request: ConsumerGroupHeartbeatRequest,
          named: Partitions | None) -> _Found:
    """Return the member; refuse one that is unknown, fenced, or whose instance another member has."""
    joins = request.member_epoch == JOINING_EPOCH
    if request.instance_id is not None:
        holder = group.static_members.get(request.instance_id)
        left = holder is not None and group.current(holder).epoch == STATIC_LEAVING_EPOCH
        if joins and holder is not None and (left or holder != member_id):
            if not left and group.subscriptions[holder].classic is None:
                raise RefusedError(ErrorCode.UNRELEASED_INSTANCE_ID, f"Static member {member_id} with instance id "
                                   f"{request.instance_id} cannot join the group because the instance id is owned by "
                                   f"{holder} member.")
            current = group.current(holder)._replace(epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH)
            return _Found(group.subscriptions[holder], current, holder)
        if not joins:
            check_static(group, member_id, request.instance_id)
    if joins and member_id not in group.subscriptions:
        return _Found(None, group.current(member_id))
    subscription, current = group.member(member_id), group.current(member_id)
    if not joins:
        _check_epoch(request.member_epoch, current, named)
    return _Found(subscription, current)


def check_static(group: ConsumerGroup, member_id: str, instance_id: str) -> None:
    """Refuse a static member whose instance is unknown (UNKNOWN_MEMBER_ID) or another member's
    (FENCED_INSTANCE_ID)."""
    holder = group.static_members.get(instance_id)
    if holder is None:
        raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if holder != member_id:
        raise RefusedError(ErrorCode.FENCED_INSTANCE_ID, f"Static member {member_id} with instance id {instance_id} "
                           f"was fenced by member {holder}.")


def _check_epoch(epoch: int, current: Current, named: Partitions | None) -> None:
    """Refuse another epoch than the member's with FENCED_MEMBER_EPOCH. The one before it passes when the member has
    nothing that it should not have: the answer with the new epoch may have been lost."""
    if epoch == current.epoch:
        return
    if epoch == current.previous_epoch and epoch < current.epoch and named is not None and all(
            index in current.assigned.get(topic_id, {}) for topic_id, indexes in named.items() for index in indexes):
        return
    size = "greater" if epoch > current.epoch else "smaller"
    raise RefusedError(ErrorCode.FENCED_MEMBER_EPOCH, f"The consumer group member has a {size} member epoch "
                       f"({epoch}) than the one known by the group coordinator ({current.epoch}). The member must "
                       "abandon all its partitions and rejoin.")


def _updated(before: Subscription | None, request: ConsumerGroupHeartbeatRequest, origin: Origin) -> Subscription:
    """Return the member's properties; those that the request leaves out stay."""
    before = before or Subscription()
    return Subscription(
        instance_id=before.instance_id if request.instance_id is None else request.instance_id,
        rack_id=before.rack_id if request.rack_id is None else request.rack_id,
        client_id=origin.client_id, client_host=origin.client_host,
        topic_names=before.topic_names if request.subscribed_topic_names is None
        else tuple(sorted(dict.fromkeys(request.subscribed_topic_names))),
        topic_regex=before.topic_regex if request.subscribed_topic_regex is None else request.subscribed_topic_regex,
        rebalance_timeout_ms=before.rebalance_timeout_ms if request.rebalance_timeout_ms == -1
        else request.rebalance_timeout_ms,
        server_assignor=before.server_assignor if request.server_assignor is None else request.server_assignor)


# -------------------------------------------------------------------- heartbeats

def heartbeat(group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, origin: Origin,
              cluster: Cluster) -> Decision:
    """Decide about the heartbeat of a member that joins or stays. `group` is a new one for the first member. Refuses
    with the error for the client."""
    member_id = request.member_id or cluster.new_member_id()
    check_room(group, member_id, cluster)
    named = None if request.topic_partitions is None else sorted_partitions(
        (each.topic_id, each.partitions) for each in request.topic_partitions)
    found = _find(group, member_id, request, named)
    after = _updated(found.subscription, request, origin)
    if _is_at_rest(group, found, after, cluster):
        confirms = _confirms(named, found.current, found.current)
        shows = (request.member_epoch == JOINING_EPOCH or _is_whole(request)
                 or (not confirms and _is_overdue(group, member_id, cluster)))
        return Decision(member_id, found.current, found.current.assigned if shows else None, [],
                        seen_topics=cluster.topics.version, confirms=confirms)
    draft = _Draft(group, cluster)
    if found.replaced_id is not None:
        assert found.subscription is not None
        draft.replace(found.replaced_id, member_id, found.subscription, found.current)
    draft.subscribe(member_id, found.subscription, after)
    current = draft.step(member_id, after, found.current, named)
    confirms = _confirms(named, current, found.current)
    shows = (request.member_epoch == JOINING_EPOCH or _is_whole(request)
             or not _same_partitions(current, found.current)
             or (not confirms and _is_overdue(group, member_id, cluster)))
    return Decision(member_id, current, current.assigned if shows else None, draft.changes, found.replaced_id,
                    cluster.topics.version, confirms)


def _confirms(named: Partitions | None, after: Current, before: Current) -> bool | None:
    """Return `Decision.confirms`. A member learns its assignment from an answer, which may be lost without its notice:
    that of a heartbeat that arrived twice. So the assignment is repeated to a member that does not name it."""
    if named is not None:
        return named == partitions_of(after.assigned)
    return None if _same_partitions(after, before) else False


def _is_overdue(group: ConsumerGroup, member_id: str, cluster: Cluster) -> bool:
    """Return whether the member should have named its assignment by now: two heartbeats later."""
    since_ms = group.unconfirmed.get(member_id)
    return since_ms is not None and cluster.now_ms - since_ms >= 2 * cluster.settings.heartbeat_interval_ms


def _is_whole(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Return whether a member that is in the group says everything of itself, as it does after an error."""
    return (request.rebalance_timeout_ms != -1 and request.topic_partitions is not None
            and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None))


def _is_at_rest(group: ConsumerGroup, found: _Found, after: Subscription, cluster: Cluster) -> bool:
    """Return whether nothing is to be decided: most heartbeats only show that the member is alive."""
    return (found.replaced_id is None and after == found.subscription and group.epoch == group.target_epoch
            and group.seen_topics is cluster.topics.version and found.current.is_reconciled_to(group.target_epoch))


def check_room(group: ConsumerGroup, member_id: str, cluster: Cluster) -> None:
    """Refuse a new member of a full group with GROUP_MAX_SIZE_REACHED."""
    if member_id not in group.subscriptions and len(group.subscriptions) >= cluster.config.max_size:
        raise RefusedError(ErrorCode.GROUP_MAX_SIZE_REACHED, "The consumer group has reached its maximum capacity of "
                           f"{cluster.config.max_size} members.")


def classic_join(group: ConsumerGroup, member_id: str, instance_id: str | None,
                 properties: Callable[[Subscription | None], Subscription], cluster: Cluster, named: Partitions, *,
                 is_new: bool) -> Decision:
    """Decide about the JoinGroup of a classic member that has the partitions `named`. `properties` returns what it says
    of itself, given what is known. A static member without an id takes the place of the one before it."""
    draft = _Draft(group, cluster)
    current, replaced_id = group.current(member_id), None
    before = group.subscriptions.get(member_id)
    if instance_id is not None:
        holder = group.static_members.get(instance_id)
        if is_new and holder is not None:
            before, replaced_id = group.subscriptions[holder], holder
            current = group.current(holder)._replace(epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH)
            draft.replace(holder, member_id, before, current)
        elif not is_new:
            check_static(group, member_id, instance_id)
    after = properties(before)
    draft.subscribe(member_id, before, after)
    current = draft.step(member_id, after, current, named)
    return Decision(member_id, current, None, draft.changes, replaced_id, cluster.topics.version)


def _same_partitions(after: Current, before: Current) -> bool:
    return after is before or {topic_id: partitions.keys() for topic_id, partitions in after.assigned.items()} == {
        topic_id: partitions.keys() for topic_id, partitions in before.assigned.items()}


class _Draft:
    """Changes of one request in the making, and the group as it will be."""

    def __init__(self, group: ConsumerGroup, cluster: Cluster) -> None:
        self.changes: list[Change] = []
        self._group = group
        self._cluster = cluster
        self._replaced: dict[str, Subscription | None] = {}
        self._targets: dict[str, Partitions] = {}
        self._epoch = group.epoch
        self._target_epoch = group.target_epoch
        self._names: list[str] | None = None

    def replace(self, old_id: str, member_id: str, subscription: Subscription, current: Current) -> None:
        """Give what the static member `old_id` has to its successor."""
        target = self._group.targets.get(old_id, {})
        self.changes += remove(old_id)
        self.changes += (SubscriptionChange(member_id, subscription), TargetChange(member_id, target),
                         CurrentChange(member_id, current))
        if old_id != member_id:
            self._replaced[old_id] = None
        self._targets[member_id] = target

    def subscribe(self, member_id: str, before: Subscription | None, after: Subscription) -> None:
        """Add the member's change, and the new epoch that it begins, or that a change of the topics begins."""
        group, cluster = self._group, self._cluster
        self._replaced[member_id] = after
        if after != before:
            self.changes.append(SubscriptionChange(member_id, after))
        begins = before is None or (after.topic_names, after.topic_regex) != (before.topic_names, before.topic_regex)
        if after != before and not begins:
            begins = (assigning.assignor_of(group, cluster, {})
                      != assigning.assignor_of(group, cluster, self._replaced))
        if begins or group.seen_topics is not cluster.topics.version:
            self.changes += (RegexChange(regex, None) for regex in subscribing.unused_regexes(group, self._replaced))
            digest = subscribing.metadata_hash(self._subscribed(), cluster.topics)
            if begins or digest != group.metadata_hash:
                self._epoch += 1
                self.changes.append(EpochChange(GroupEpoch(self._epoch, digest)))

    def _subscribed(self) -> list[str]:
        if self._names is None:
            self._names = subscribing.subscribed_names(self._group, self._replaced)
        return self._names

    def step(self, member_id: str, subscription: Subscription, current: Current, named: Partitions | None) -> Current:
        """Add a new target if one is due, and the member's next step towards it. Return the member's assignment."""
        group, cluster = self._group, self._cluster
        targets: dict[str, Partitions] = dict(self._targets)
        if (self._epoch > self._target_epoch and group.job is None and assigning.is_due(group, cluster)
                and assigning.is_small(group, self._subscribed(), cluster.topics)):
            changed = finish(assigning.target_steps(group, cluster, self._replaced, self._targets))
            targets.update({each.member_id: each.partitions or {} for each in changed})
            self._target_epoch = self._epoch
            self.changes += changed
            self.changes.append(TargetEpochChange(TargetEpoch(self._epoch, cluster.now_ms)))
        target = Target(self._target_epoch, targets.get(member_id, group.targets.get(member_id, {})),
                        subscribing.topic_ids(group, subscription, cluster.topics))
        holders = [member_id, *(old_id for old_id, after in self._replaced.items() if after is None)]
        following = next_assignment(
            current, target, lambda topic_id, index: group.owners.get((topic_id, index), member_id) in holders, named)
        if following != current:
            self.changes.append(CurrentChange(member_id, following))
        return following


# -------------------------------------------------------------------- leaving

def check_leaver(group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest) -> None:
    """Refuse a member that leaves and is unknown, or whose instance is another member's."""
    if request.instance_id is not None:
        check_static(group, request.member_id, request.instance_id)
    group.member(request.member_id)


def leave_for_a_while(group: ConsumerGroup, member_id: str) -> list[Change]:
    """Return the changes of a static member that leaves for a while: it keeps what it has until its session ends."""
    current = group.current(member_id)._replace(epoch=STATIC_LEAVING_EPOCH, revoking={})
    return [CurrentChange(member_id, current)]


def remove(member_id: str) -> list[Change]:
    """Return the changes that remove a member, in Kafka's order."""
    return [CurrentChange(member_id, None), TargetChange(member_id, None), SubscriptionChange(member_id, None)]


def fence(group: ConsumerGroup, member_ids: tuple[str, ...], cluster: Cluster) -> list[Change]:
    """Return the changes that remove members of the group, and begin its next epoch."""
    replaced: Mapping[str, Subscription | None] = dict.fromkeys(member_ids)
    changes = [change for member_id in member_ids for change in remove(member_id)]
    changes += (RegexChange(regex, None) for regex in subscribing.unused_regexes(group, replaced))
    digest = subscribing.metadata_hash(subscribing.subscribed_names(group, replaced), cluster.topics)
    changes.append(EpochChange(GroupEpoch(group.epoch + 1, digest)))
    return changes
