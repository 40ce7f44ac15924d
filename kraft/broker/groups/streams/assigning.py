"""Target assignment of a streams group: computed in steps, written as the changes against the previous one."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Final

from kraft.broker.groups.streams.assignor import STEP, Part, Spec, Subject, assign_sticky
from kraft.broker.groups.streams.configuring import Configured
from kraft.broker.groups.streams.group import StreamsGroup
from kraft.broker.groups.streams.member import Properties
from kraft.broker.groups.streams.records import TargetChange
from kraft.broker.groups.streams.tasks import NOTHING

AT_ONCE: Final = 256
"""Members and tasks of a group whose target a heartbeat computes itself."""

Replaced = Mapping[str, Properties | None]
"""Members that a decision changes, with their next properties; None for one that leaves."""


def is_small(group: StreamsGroup, configured: Configured) -> bool:
    """Return whether a target takes so little time that a request may wait for it."""
    return len(group.members) + configured.task_count <= AT_ONCE


def target_steps(group: StreamsGroup, configured: Configured, standby_replicas: int, replaced: Replaced
                 ) -> Generator[None, None, list[TargetChange]]:
    """Return the changes of the members' targets, in steps. What the group is now counts, not what it becomes
    meanwhile. Without all topics no member has a task."""
    members: dict[str, Subject] = {}
    for number, (member_id, properties) in enumerate({**group.members, **replaced}.items()):
        if properties is not None:
            members[member_id] = Subject(properties.process_id, group.targets.get(member_id, NOTHING))
        if number % STEP == STEP - 1:
            yield
    targets = dict(group.targets)
    found = dict.fromkeys(members, NOTHING)
    if configured.is_ready:
        parts = {each: Part(subtopology.tasks, subtopology.is_stateful)
                 for each, subtopology in configured.subtopologies.items()}
        found = yield from assign_sticky(Spec(members, parts, standby_replicas))
    return [TargetChange(member_id, tasks) for member_id, tasks in found.items() if targets.get(member_id) != tasks]
