"""Rules about groups: lost records, lag without members, members without partitions."""

from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

from kraft.console.state.groups import GroupDetail, Place
from kraft.console.why.facts import Facts
from kraft.console.why.finding import AMBER, RED, Finding, count_of, named

LAG_MAX: Final = 1_000
REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


def about_groups(facts: Facts) -> Iterator[Finding]:
    """The findings about each group; of those about its offsets the gravest."""
    for group in facts.groups:
        yield from _members(group)
        yield from list(_offsets(group))[:1]


def _members(group: GroupDetail) -> Iterator[Finding]:
    described = group.described
    name, link = described.group, link_of(described.group)
    if described.state in REBALANCING:
        yield Finding(AMBER, name, f"Group {name} is rebalancing ({described.state}) and waits for a member's next "
                      f"request; its {count_of(len(described.members), 'member')} may read nothing until then.",
                      tuple(f"{each.client_id} at {each.client_host}" for each in described.members[:8]), link, 4)
    idle = group.idle_members
    if described.state == "Stable" and idle:
        yield Finding(AMBER, name, f"Group {name}: {len(idle)} of {count_of(len(described.members), 'member')} read "
                      "nothing, because the topics have fewer partitions than the group has members.",
                      tuple(f"{each.client_id} at {each.client_host}" for each in idle[:8]), link, 6)


def _offsets(group: GroupDetail) -> Iterator[Finding]:
    name, link = group.described.group, link_of(group.described.group)
    past = [place for place in group.places if place.is_past_end]
    if past:
        yield Finding(RED, name, f"Group {name}: its offset of {_names(past)} lies past the end of the log, so the "
                      "topic was created again or lost records.", _evidence(past), link, 4)
    lost = [place for place in group.places if place.lost]
    if lost:
        yield Finding(RED, name, f"Group {name}: {sum(place.lost for place in lost):,} records of {_names(lost)} were "
                      "deleted before the group read them.", _evidence(lost), link, 4)
    behind = [place for place in group.places if place.lag]
    if behind and not group.described.members:
        yield Finding(AMBER, name, f"Group {name} has no member, and is {count_of(group.lag, 'record')} behind in "
                      f"{_names(behind)}.", _evidence(behind), link, 5)
    elif group.lag > LAG_MAX:
        yield Finding(AMBER, name, f"Group {name} has {count_of(len(group.described.members), 'member')} and is "
                      f"{group.lag:,} records behind: they read more slowly than records arrive, or do not commit.",
                      _evidence(sorted(behind, key=lambda place: -(place.lag or 0))), link, 5)


def _names(places: list[Place]) -> str:
    return named([f"{place.partition[0]}/{place.partition[1]}" for place in places], 3)


def _evidence(places: list[Place]) -> tuple[str, ...]:
    return tuple(f"{place.partition[0]}/{place.partition[1]}: committed {place.committed:,}, log {place.start} to "
                 f"{place.end}" for place in places[:5])


def link_of(group: str) -> str:
    return f"/groups/{quote(group, safe='')}"
