"""Topics that match the regular expressions of a group's members, found in steps beside the requests.

A search begins when a member is the first to use an expression. It also begins when topics were created or deleted,
at most once in `REFRESH_MIN_MS`, and after `group.consumer.regex.refresh.interval.ms`, because permissions may have
changed. An expression matches the topics that the member may describe whose heartbeat led to the search.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Final

from kraft.broker.coordinator.answer import RequestContext
from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.coordinator.patterns import Pattern
from kraft.broker.groups.consumer import subscribing
from kraft.broker.groups.consumer.cluster import Cluster
from kraft.broker.groups.consumer.group import ConsumerGroup, Resolved
from kraft.broker.groups.consumer.records import Change, EpochChange, RegexChange
from kraft.broker.groups.epochs import GroupEpoch
from kraft.broker.groups.shard import GroupShard

REFRESH_MIN_MS: Final = 10_000
NAMES_OF_A_STEP: Final = 16
STEPS_OF_A_STEP: Final = 16


def due(group: ConsumerGroup, cluster: Cluster) -> list[str]:
    """Return the expressions whose topics are to be found now: all of the group when one of them is new or too old."""
    used = list(group.regex_counts())
    for regex in used:
        resolved = group.regexes.get(regex)
        if resolved is None:
            return used
        age_ms = cluster.now_ms - resolved.timestamp_ms
        if age_ms >= cluster.config.regex_refresh_interval_ms:
            return used
        if age_ms >= REFRESH_MIN_MS and cluster.topics.names_version is not group.searched_names:
            return used
    return []


def prepare(state: GroupShard, group: ConsumerGroup, cluster: Cluster, context: RequestContext,
            found: Callable[[], None]) -> None:
    """Begin to find the topics of the group's expressions if that is due. `found` is called when they are written."""
    if not group.has_regexes or group.search is not None:
        return
    if wanted := due(group, cluster):
        group.search = _search_steps(state, group, wanted, context.may_describe, found)
        state.shard.after(("regex", group.group_id), 0, partial(_continue, state, group, group.search))


def _continue(state: GroupShard, group: ConsumerGroup, search: Generator[None, None, None]) -> None:
    if state.groups.get(group.group_id) is not group or group.search is not search:
        return
    while True:
        try:
            next(search)
        except StopIteration:
            group.search = None
            return
        except RefusedError:
            group.search = None     # the next heartbeat begins it again
            return
        state.shard.steps_left -= STEPS_OF_A_STEP
        if state.shard.steps_left <= 0:
            state.shard.after(("regex", group.group_id), 0, partial(_continue, state, group, search))
            return


def _search_steps(state: GroupShard, group: ConsumerGroup, wanted: list[str], may_describe: Callable[[str], bool],
                  done: Callable[[], None]) -> Generator[None, None, None]:
    """Find the topics and write what changed, with a new epoch of the group if its members subscribe to others now."""
    topics = state.environment.topics
    version, seen = topics.offset, topics.names_version
    names = list(topics.topic_names())
    found: dict[str, tuple[str, ...]] = {}
    for regex in wanted:
        pattern = Pattern(regex)
        matching: list[str] = []
        for number, name in enumerate(names, 1):
            if (yield from pattern.match_steps(name)) and may_describe(name):
                matching.append(name)
            if number % NAMES_OF_A_STEP == 0:
                yield
        found[regex] = tuple(sorted(matching))
    used = group.regex_counts()
    found = {regex: each for regex, each in found.items() if regex in used}
    changes: list[Change] = [RegexChange(regex, Resolved(each, version, state.now_ms)) for regex, each in found.items()]
    if any(each != group.regexes.get(regex, Resolved()).topics for regex, each in found.items()):
        digest = subscribing.metadata_hash(subscribing.subscribed_names(group, {}, found), topics)
        changes.append(EpochChange(GroupEpoch(group.epoch + 1, digest)))
    if changes:
        state.write_changes(group.group_id, changes)
    group.searched_names = seen
    done()
