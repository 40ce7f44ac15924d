"""Decisions about ShareGroupHeartbeat: what it changes, and the answer. Nothing here changes the group.

1. The member joins, changes its subscription, or only shows that it is alive. A change of what the group subscribes to
   begins a new epoch of the group, and so do partitions that can be assigned now and are not.
2. A newer epoch needs a new target, which the heartbeat computes itself if the group is small and a target is due.
3. The member enters the epoch of its target at once: other members may have the same partitions.
4. Partitions without a state are to get one before they are assigned.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.groups.consumer.cluster import Origin
from kraft.broker.groups.consumer.member import JOINING_EPOCH, LEAVING_EPOCH, Partitions
from kraft.broker.groups.consumer.subscribing import metadata_hash
from kraft.broker.groups.epochs import GroupEpoch, TargetEpoch
from kraft.broker.groups.share import assigning, states
from kraft.broker.groups.share.cluster import ShareCluster
from kraft.broker.groups.share.group import NO_TOPICS, ShareGroup, StateTopics
from kraft.broker.groups.share.member import NO_PARTITIONS, STABLE, Current, Subscription
from kraft.broker.groups.share.records import (
    Change,
    CurrentChange,
    EpochChange,
    StatesChange,
    SubscriptionChange,
    TargetChange,
    TargetEpochChange,
)
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from kraft.steps import finish

NAMES_MAX: Final = 2_000
"""Limit of the topics that one member names: each is visited several times until its partitions are assigned."""


class Decision(NamedTuple):
    """Decision about one heartbeat. `assignment` is in the answer unless it is None. `requested` are the partitions
    whose states are to be created. `seen_topics` and `assigned_states`: see `ShareGroup`."""

    current: Current
    assignment: Partitions | None
    changes: list[Change]
    requested: StateTopics
    seen_topics: object
    assigned_states: object


# -------------------------------------------------------------------- the form of a request

def check_form(request: ShareGroupHeartbeatRequest) -> None:
    """Refuse a request that no group could serve."""
    _need(request.member_id, "MemberId can't be empty.")
    _need(request.group_id, "GroupId can't be empty.")
    _need(request.rack_id is None or request.rack_id, "RackId can't be empty.")
    if request.member_epoch == JOINING_EPOCH:
        _need(request.subscribed_topic_names, "SubscribedTopicNames must be set in first request.")
    else:
        _need(request.member_epoch >= LEAVING_EPOCH, "MemberEpoch is invalid.")
    _need(len(request.subscribed_topic_names or ()) <= NAMES_MAX,
          f"SubscribedTopicNames has more than {NAMES_MAX} names.")


def is_well_formed(request: ShareGroupHeartbeatRequest) -> bool:
    """Return whether a group could serve the request."""
    try:
        check_form(request)
    except RefusedError:
        return False
    return True


def _need(holds: object, message: str) -> None:
    if not holds:
        raise RefusedError(ErrorCode.INVALID_REQUEST, message)


# -------------------------------------------------------------------- heartbeats

def heartbeat(group: ShareGroup, request: ShareGroupHeartbeatRequest, origin: Origin,
              cluster: ShareCluster) -> Decision:
    """Decide about the heartbeat of a member that joins or stays. `group` is a new one for the first member. Refuses
    with the error for the client."""
    member_id = request.member_id
    joins = request.member_epoch == JOINING_EPOCH
    _check_room(group, member_id, cluster)
    before = group.subscriptions.get(member_id) if joins else group.member(member_id)
    current = group.current(member_id)
    if not joins:
        _check_epoch(request.member_epoch, current)
    after = _updated(before, request, origin)
    shows = joins or request.subscribed_topic_names is not None
    draft = _Draft(group, cluster, member_id, before, after)
    if draft.is_at_rest(current):
        return Decision(current, current.assigned if shows else None, [], NO_TOPICS, cluster.topics.version,
                        group.assigned_states)
    draft.subscribe()
    following = draft.step(current)
    requested = draft.initialize()
    shows = shows or following.assigned != current.assigned
    return Decision(following, following.assigned if shows else None, draft.changes, requested, cluster.topics.version,
                    draft.assigned_states)


def _check_room(group: ShareGroup, member_id: str, cluster: ShareCluster) -> None:
    """Refuse a new member of a full group with GROUP_MAX_SIZE_REACHED."""
    if member_id not in group.subscriptions and len(group.subscriptions) >= cluster.config.max_size:
        raise RefusedError(ErrorCode.GROUP_MAX_SIZE_REACHED, "The share group has reached its maximum capacity of "
                           f"{cluster.config.max_size} members.")


def _check_epoch(epoch: int, current: Current) -> None:
    """Refuse another epoch than the member's with FENCED_MEMBER_EPOCH. The one before it passes: the answer with the
    new epoch may have been lost."""
    if epoch == current.epoch or (epoch == current.previous_epoch and epoch < current.epoch):
        return
    size = "greater" if epoch > current.epoch else "smaller"
    raise RefusedError(ErrorCode.FENCED_MEMBER_EPOCH, f"The share group member has a {size} member epoch ({epoch}) "
                       f"than the one known by the group coordinator ({current.epoch}). The member must abandon all "
                       "its partitions and rejoin.")


def _updated(before: Subscription | None, request: ShareGroupHeartbeatRequest, origin: Origin) -> Subscription:
    """Return the member's properties; those that the request leaves out stay."""
    before = before or Subscription()
    return Subscription(
        before.rack_id if request.rack_id is None else request.rack_id, origin.client_id, origin.client_host,
        before.topic_names if request.subscribed_topic_names is None
        else tuple(sorted(dict.fromkeys(request.subscribed_topic_names))))


class _Draft:
    """Changes of one heartbeat in the making, and the group as it will be."""

    def __init__(self, group: ShareGroup, cluster: ShareCluster, member_id: str, before: Subscription | None,
                 after: Subscription) -> None:
        self.changes: list[Change] = []
        self.assigned_states = group.assigned_states
        self._group = group
        self._cluster = cluster
        self._member_id = member_id
        self._before = before
        self._after = after
        self._replaced: dict[str, Subscription | None] = {member_id: after}
        self._names: list[str] | None = None
        self._epoch = group.epoch
        self._target_epoch = group.target_epoch

    def is_at_rest(self, current: Current) -> bool:
        """Return whether nothing is to be decided: most heartbeats only show that the member is alive."""
        group, cluster = self._group, self._cluster
        return (self._after == self._before and group.epoch == group.target_epoch == current.epoch
                and group.seen_topics is cluster.topics.version and group.assigned_states is group.states
                and not self._may_request())

    def _may_request(self) -> bool:
        """Return whether partitions may lack a state that no request is under way for."""
        return bool(self._group.states.initializing) and self._can_request()

    def _can_request(self) -> bool:
        return self._cluster.has_coordinators and self._group.may_request(self._cluster.now_ms)

    def _subscribed(self) -> list[str]:
        if self._names is None:
            self._names = self._group.subscribed_names(self._replaced)
        return self._names

    def _is_pending(self) -> bool:
        """Return whether partitions can be assigned that are not in the target, which is of the present epoch."""
        group, topics = self._group, self._cluster.topics
        if group.epoch > group.target_epoch or group.assigned_states is group.states:
            return False
        if states.has_unassigned(group, states.topics_of(self._subscribed(), topics), topics):
            return True
        self.assigned_states = group.states
        return False

    def subscribe(self) -> None:
        """Add the member's change, and the new epoch that it, the topics or new partitions begin."""
        group, topics = self._group, self._cluster.topics
        if self._after != self._before:
            self.changes.append(SubscriptionChange(self._member_id, self._after))
        begins = self._before is None or self._after.topic_names != self._before.topic_names or self._is_pending()
        if begins or group.seen_topics is not topics.version:
            digest = metadata_hash(self._subscribed(), topics)
            if begins or digest != group.metadata_hash:
                self._epoch += 1
                self.changes.append(EpochChange(GroupEpoch(self._epoch, digest)))

    def step(self, current: Current) -> Current:
        """Add a new target if one is due, and the member's step to it. Return the member's assignment."""
        group, cluster = self._group, self._cluster
        target = group.targets.get(self._member_id, NO_PARTITIONS)
        due_ms = group.target_due_ms(cluster.now_ms, cluster.settings.assignment_interval_ms)
        if (self._epoch > self._target_epoch and group.job is None and cluster.now_ms >= due_ms
                and assigning.is_small(group, self._subscribed(), cluster.topics)):
            changed = finish(assigning.target_steps(group, cluster.topics, self._replaced))
            target = next((each.partitions or NO_PARTITIONS for each in changed
                           if each.member_id == self._member_id), target)
            self._target_epoch = self._epoch
            self.assigned_states = group.states
            self.changes += changed
            self.changes.append(TargetEpochChange(TargetEpoch(self._epoch, cluster.now_ms)))
        topic_ids = states.topics_of(self._after.topic_names, cluster.topics)
        assigned = {topic_id: indexes for topic_id, indexes in target.items() if topic_id in topic_ids}
        if current.epoch == self._target_epoch and current.assigned == assigned:
            return current
        previous = current.previous_epoch if current.epoch == self._target_epoch else current.epoch
        following = Current(self._target_epoch, previous, STABLE, assigned)
        self.changes.append(CurrentChange(self._member_id, following))
        return following

    def initialize(self) -> StateTopics:
        """Return the partitions whose states are to be created; add that they are."""
        if not self._can_request():
            return NO_TOPICS
        requested = states.uninitialized(self._group, self._subscribed(), self._cluster.topics)
        following = states.begin_initializing(self._group.states, requested)
        if following != self._group.states:
            self.changes.append(StatesChange(following))
        return requested


# -------------------------------------------------------------------- leaving

def remove(group: ShareGroup, member_id: str, cluster: ShareCluster) -> list[Change]:
    """Return the changes that remove a member, in Kafka's order, and begin the group's next epoch."""
    digest = metadata_hash(group.subscribed_names({member_id: None}), cluster.topics)
    return [CurrentChange(member_id, None), TargetChange(member_id, None), SubscriptionChange(member_id, None),
            EpochChange(GroupEpoch(group.epoch + 1, digest))]
