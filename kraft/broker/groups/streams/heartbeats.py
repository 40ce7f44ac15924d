"""Decisions about StreamsGroupHeartbeat: what it changes, and the answer. Nothing here changes the group.

1. The member joins, changes its properties, or only shows that it is alive. The first one brings the topology.
2. The topology is configured again when a topic has changed. A change begins a new epoch of the group, as do another
   number of standby tasks and a member that joins or changes.
3. A newer epoch needs a new target, which the heartbeat computes itself if the group is small and a target is due. A
   group that was empty waits first, so that members which start together share the first target.
4. The member takes its next step towards its target.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.groups.consumer.cluster import Origin
from kraft.broker.groups.consumer.member import JOINING_EPOCH, LEAVING_EPOCH, STATIC_LEAVING_EPOCH
from kraft.broker.groups.consumer.subscribing import metadata_hash
from kraft.broker.groups.epochs import GroupEpoch, TargetEpoch
from kraft.broker.groups.streams import assigning
from kraft.broker.groups.streams.cluster import StreamsCluster
from kraft.broker.groups.streams.configuring import Configured, Status, StatusCode, configure
from kraft.broker.groups.streams.group import NOT_VALIDATED, StreamsGroup
from kraft.broker.groups.streams.member import Current, Endpoint, Properties
from kraft.broker.groups.streams.reconciling import Target, next_tasks
from kraft.broker.groups.streams.records import (
    Change,
    CurrentChange,
    EpochChange,
    MemberChange,
    TargetChange,
    TargetEpochChange,
    TopologyChange,
)
from kraft.broker.groups.streams.tasks import NOTHING, Held, Task, TaskSet, has_all, sorted_tasks
from kraft.broker.groups.streams.topology import Topology, is_larger, topology_of
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from kraft.steps import finish

TOPOLOGY_MAX: Final = 2_000
"""Limit of the subtopologies, topics, settings and indexes of a topology: each is visited several times."""
TASKS_MAX: Final = 50_000
"""Limit of the tasks that one member may name as its own."""
TAGS_MAX: Final = 1_000
"""Limit of the tags of a member."""


class Decision(NamedTuple):
    """Decision about one heartbeat. `assigned` is in the answer unless it is None. `seen_topics` and `configured`: see
    `StreamsGroup`. `begins_delay`: the group was empty, and waits for further members."""

    current: Current
    assigned: Held | None
    changes: list[Change]
    configured: Configured
    seen_topics: object
    statuses: list[Status]
    begins_delay: bool = False


# -------------------------------------------------------------------- the form of a request

def check_form(request: StreamsGroupHeartbeatRequest) -> None:
    """Refuse a request that no group could serve."""
    _need(request.instance_id is None, "Static membership is not yet supported.")
    _need(request.task_offsets is None, "TaskOffsets are not supported yet.")
    _need(request.task_end_offsets is None, "TaskEndOffsets are not supported yet.")
    _need(not request.warmup_tasks, "WarmupTasks are not supported yet.")
    _need(request.member_id, "MemberId can't be empty.")
    _need(request.group_id, "GroupId can't be empty.")
    _need(request.rack_id is None or request.rack_id, "RackId can't be empty.")
    named = request.active_tasks, request.standby_tasks, request.warmup_tasks
    if request.member_epoch == JOINING_EPOCH:
        _need(request.rebalance_timeout_ms != -1, "RebalanceTimeoutMs must be provided in first request.")
        for each, name in zip(named, ("ActiveTasks", "StandbyTasks", "WarmupTasks"), strict=True):
            _need(each is not None and not each, f"{name} must be empty when (re-)joining.")
        _need(request.topology is not None, "Topology must be non-null when (re-)joining.")
    else:
        _need(request.member_epoch != STATIC_LEAVING_EPOCH, "InstanceId can't be null.")
        _need(request.member_epoch >= LEAVING_EPOCH,
              f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to -2.")
        _need(request.topology is None, "Topology can only be provided when (re-)joining.")
    _need(sum(each is None for each in named) in (0, len(named)), "If one task-type is non-null, all must be non-null.")
    _need(sum(1 + len(each.partitions) for role in named for each in role or ()) <= TASKS_MAX,
          f"ActiveTasks, StandbyTasks and WarmupTasks have more than {TASKS_MAX} subtopologies and tasks.")
    _need(len(request.client_tags or ()) <= TAGS_MAX, f"ClientTags has more than {TAGS_MAX} tags.")
    if request.topology is not None:
        _need(not is_larger(request.topology, TOPOLOGY_MAX),
              f"Topology has more than {TOPOLOGY_MAX} subtopologies, topics, settings and indexes.")
        _check_topology(topology_of(request.topology))


def topology_to_check(request: StreamsGroupHeartbeatRequest) -> Topology | None:
    """Return the topology whose names are checked before the form; None without one, or when it is too large: then
    `check_form` refuses it."""
    if request.topology is None or is_larger(request.topology, TOPOLOGY_MAX):
        return None
    return topology_of(request.topology)


def _need(holds: object, message: str) -> None:
    if not holds:
        raise RefusedError(ErrorCode.INVALID_REQUEST, message)


def _check_topology(topology: Topology) -> None:
    """Refuse a topology that no topics could fit."""
    _need(topology.epoch >= 0, "Topology epoch must be non-negative.")
    _need(not any(each.source_topic_regex for each in topology.subtopologies),
          "Regular expressions for source topics are not supported yet.")
    ids = dict.fromkeys(each.id for each in topology.subtopologies)
    _need_valid(len(ids) == len(topology.subtopologies), "Two subtopologies have the same id.")
    for each in topology.subtopologies:
        for topic in each.state_changelog_topics:
            _need_valid(topic.partitions == 0, f"Changelog topic {topic.name} must have an undefined partition count, "
                        f"but it is set to {topic.partitions}.")
        for topic in each.repartition_source_topics:
            _need_valid(topic.partitions >= 0, f"Repartition topic {topic.name} has {topic.partitions} partitions.")
        for group in each.copartition_groups:
            indexes = ((at, len(each.source_topics)) for at in group.source_topics)
            _need_valid(all(0 <= at < size for at, size in (
                *indexes, *((at, len(each.repartition_source_topics)) for at in group.repartition_source_topics))),
                f"A copartition group of subtopology {each.id} names a topic that the subtopology does not have.")


def _need_valid(holds: bool, message: str) -> None:
    if not holds:
        raise RefusedError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)


# -------------------------------------------------------------------- heartbeats

def heartbeat(group: StreamsGroup, request: StreamsGroupHeartbeatRequest, origin: Origin,
              cluster: StreamsCluster) -> Decision:
    """Decide about the heartbeat of a member that joins or stays. `group` is a new one for the first member. Refuses
    with the error for the client."""
    member_id = request.member_id
    joins = request.member_epoch == JOINING_EPOCH
    _check_room(group, member_id, cluster)
    named = _named(request)
    before = group.members.get(member_id) if joins else group.member(member_id)
    current = group.current(member_id)
    if not joins:
        _check_epoch(request.member_epoch, current, named)
    after = _updated(before, request, origin)
    shows = joins or request.member_epoch != current.epoch or _is_whole(request)
    draft = _Draft(group, cluster, member_id, before, after)
    draft.take_topology(None if request.topology is None else topology_of(request.topology))
    draft.configure()
    _check_tasks(named, draft.configured)
    if draft.is_at_rest(current):
        return Decision(current, current.assigned if shows else None, [], draft.configured, cluster.topics.version,
                        draft.statuses())
    draft.begin_epoch()
    following = draft.step(current, named)
    shows = shows or following.assigned.tasks != current.assigned.tasks
    return Decision(following, following.assigned if shows else None, draft.changes, draft.configured,
                    cluster.topics.version, draft.statuses(), draft.begins_delay)


def _check_room(group: StreamsGroup, member_id: str, cluster: StreamsCluster) -> None:
    """Refuse a new member of a full group with GROUP_MAX_SIZE_REACHED."""
    if member_id not in group.members and len(group.members) >= cluster.config.max_size:
        raise RefusedError(ErrorCode.GROUP_MAX_SIZE_REACHED, "The streams group has reached its maximum capacity of "
                           f"{cluster.config.max_size} members.")


def _named(request: StreamsGroupHeartbeatRequest) -> TaskSet | None:
    """Return the tasks that the member says it has; None when it says nothing about them."""
    if request.active_tasks is None:
        return None
    return TaskSet(*(sorted_tasks((each.subtopology_id, each.partitions) for each in role or ())
                     for role in (request.active_tasks, request.standby_tasks, request.warmup_tasks)))


def _check_epoch(epoch: int, current: Current, named: TaskSet | None) -> None:
    """Refuse another epoch than the member's with FENCED_MEMBER_EPOCH. The one before it passes when the member has
    nothing that it should not have: the answer with the new epoch may have been lost."""
    if epoch == current.epoch:
        return
    if (epoch == current.previous_epoch and epoch < current.epoch and named is not None
            and has_all(current.assigned, named)):
        return
    size = "greater" if epoch > current.epoch else "smaller"
    raise RefusedError(ErrorCode.FENCED_MEMBER_EPOCH, f"The streams group member has a {size} member epoch ({epoch}) "
                       f"than the one known by the group coordinator ({current.epoch}). The member must abandon all "
                       "its partitions and rejoin.")


def _updated(before: Properties | None, request: StreamsGroupHeartbeatRequest, origin: Origin) -> Properties:
    """Return the member's properties; those that the request leaves out stay."""
    before = before or Properties()
    endpoint, tags = request.user_endpoint, request.client_tags
    return Properties(
        instance_id=None, rack_id=before.rack_id if request.rack_id is None else request.rack_id,
        client_id=origin.client_id, client_host=origin.client_host,
        rebalance_timeout_ms=before.rebalance_timeout_ms if request.rebalance_timeout_ms == -1
        else request.rebalance_timeout_ms,
        topology_epoch=before.topology_epoch if request.topology is None else request.topology.epoch,
        process_id=before.process_id if request.process_id is None else request.process_id,
        endpoint=before.endpoint if endpoint is None else Endpoint(endpoint.host, endpoint.port),
        client_tags=before.client_tags if tags is None
        else tuple(sorted({each.key: each.value for each in tags}.items())))


def _is_whole(request: StreamsGroupHeartbeatRequest) -> bool:
    """Return whether a member that is in the group says everything of itself, as it does after an error."""
    return request.rebalance_timeout_ms != -1 and request.active_tasks is not None


def _check_tasks(named: TaskSet | None, configured: Configured) -> None:
    """Refuse a member that names tasks which the topology does not have."""
    if named is None or not configured.is_ready:
        return
    for role in named:
        for subtopology, partitions in role.items():
            known = configured.subtopologies.get(subtopology)
            _need(known is not None, f"Subtopology {subtopology} does not exist in the topology.")
            assert known is not None
            _need(partitions[0] >= 0 and partitions[-1] < known.tasks, f"Task {subtopology}_{partitions[-1]} is "
                  f"invalid: subtopology {subtopology} has {known.tasks} tasks.")


class _Others:
    """Tasks of the members beside one, see `Holders`."""

    def __init__(self, group: StreamsGroup, member_id: str, process_id: str) -> None:
        self._group = group
        self._member_id = member_id
        self._process_id = process_id

    def _is_in_process(self, member_id: str | None) -> bool:
        """Return whether that is another member of the same process."""
        return (member_id is not None and member_id != self._member_id
                and self._group.process_of(member_id) == self._process_id)

    def is_active_free(self, task: Task) -> bool:
        """See `Holders`."""
        return (self._group.owner(task) in (None, self._member_id)
                and not any(map(self._is_in_process, self._group.holders(task))))

    def is_passive_free(self, task: Task) -> bool:
        """See `Holders`."""
        return not (self._is_in_process(self._group.owner(task))
                    or any(map(self._is_in_process, self._group.holders(task))))


class _Draft:
    """Changes of one heartbeat in the making, and the group as it will be."""

    def __init__(self, group: StreamsGroup, cluster: StreamsCluster, member_id: str, before: Properties | None,
                 after: Properties) -> None:
        self.changes: list[Change] = []
        self.begins_delay = False
        self._group = group
        self._cluster = cluster
        self._member_id = member_id
        self._before = before
        self._after = after
        self._topology = group.topology
        self._hash = group.metadata_hash
        self._epoch = group.epoch
        self._target_epoch = group.target_epoch
        self._delay = ""
        if after != before:
            self.changes.append(MemberChange(member_id, after))

    def take_topology(self, topology: Topology | None) -> None:
        """Add the topology that the first member brings. A topology of an earlier epoch is ignored; another topology of
        the same epoch, or a later one, is refused."""
        known = self._group.topology
        if topology is None:
            if known is None:
                raise RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, "The group has no topology.")
        elif known is None:
            self._topology = topology
            self.changes.append(TopologyChange(topology))
        elif known.epoch <= topology.epoch and known != topology:
            raise RefusedError(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")

    @property
    def _is_new(self) -> bool:
        """True when this heartbeat brings the topology."""
        return self._group.topology is None

    def configure(self) -> None:
        """Configure the topology, unless no topic has changed since that was done."""
        group, topics = self._group, self._cluster.topics
        assert self._topology is not None
        if group.configured is not None and group.seen_topics is topics.version and not self._is_new:
            self.configured = group.configured
            return
        self.configured = configure(self._topology, topics)
        self._hash = metadata_hash(self._topology.required_topics(), topics)

    @property
    def _validated_epoch(self) -> int:
        assert self._topology is not None
        return self._topology.epoch if self.configured.is_ready else NOT_VALIDATED

    def _begins_epoch(self) -> bool:
        group = self._group
        return (self._after != self._before or self._is_new or self._hash != group.metadata_hash
                or self._validated_epoch != group.validated_topology_epoch
                or self._cluster.settings.assignment_configs != group.assignment_configs)

    def is_at_rest(self, current: Current) -> bool:
        """Return whether nothing is to be decided: most heartbeats only show that the member is alive."""
        group = self._group
        return (not self._begins_epoch() and group.epoch == group.target_epoch
                and current.is_reconciled_to(group.target_epoch))

    def begin_epoch(self) -> None:
        """Add the new epoch that a change of the member, the topics or the settings begins."""
        if self._begins_epoch():
            self._epoch += 1
            self.changes.append(EpochChange(self._validated_epoch, self._cluster.settings.assignment_configs,
                                            GroupEpoch(self._epoch, self._hash)))

    def step(self, current: Current, named: TaskSet | None) -> Current:
        """Add a new target if one is due, and the member's next step towards it. Return the member's tasks."""
        target = self._target()
        following = next_tasks(current, Target(self._target_epoch, target),
                               _Others(self._group, self._member_id, self._after.process_id), named)
        if following != current:
            self.changes.append(CurrentChange(self._member_id, following))
        return following

    def _target(self) -> TaskSet:
        """Return the member's target, of a new assignment if one is due."""
        group, cluster = self._group, self._cluster
        settings = cluster.settings
        self.begins_delay = group.is_empty and settings.initial_delay_ms > 0 and not is_delayed(group, cluster.now_ms)
        if self.begins_delay or is_delayed(group, cluster.now_ms):
            self._delay = "Assignment delayed due to the configured initial rebalance delay."
            return NOTHING
        target = group.targets.get(self._member_id, NOTHING)
        if self._epoch == self._target_epoch:
            return target
        if cluster.now_ms < group.target_due_ms(cluster.now_ms, settings.common.assignment_interval_ms):
            self._delay = "Assignment delayed due to the configured assignment interval."
            return target
        if group.job is not None or not assigning.is_small(group, self.configured):
            return target
        changed = finish(assigning.target_steps(
            group, self.configured, settings.standby_replicas, {self._member_id: self._after}))
        self._target_epoch = self._epoch
        self.changes += changed
        self.changes.append(TargetEpochChange(TargetEpoch(self._epoch, cluster.now_ms)))
        return next((each.tasks or NOTHING for each in changed if each.member_id == self._member_id), target)

    def statuses(self) -> list[Status]:
        """Return what the answer says about the group."""
        found = []
        known = self._group.topology
        if known is not None and self._after.topology_epoch < known.epoch:
            found.append(Status(StatusCode.STALE_TOPOLOGY, f"The member's topology epoch {self._after.topology_epoch} "
                                f"is behind the group's topology epoch {known.epoch}."))
        if self._delay:
            found.append(Status(StatusCode.ASSIGNMENT_DELAYED, self._delay))
        if self.configured.status is not None:
            found.append(self.configured.status)
        return found


def is_delayed(group: StreamsGroup, now_ms: int) -> bool:
    """Return whether the group waits for further members before its first target."""
    return now_ms < group.delayed_until_ms


# -------------------------------------------------------------------- leaving

def remove(group: StreamsGroup, member_id: str) -> list[Change]:
    """Return the changes that remove a member, in Kafka's order, and begin the group's next epoch."""
    return [CurrentChange(member_id, None), TargetChange(member_id, None), MemberChange(member_id, None),
            EpochChange(group.validated_topology_epoch, group.assignment_configs,
                        GroupEpoch(group.epoch + 1, group.metadata_hash))]
