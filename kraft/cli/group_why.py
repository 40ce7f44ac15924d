"""`kraft why group NAME`: members of a group with what each reads, and what a rebalance waits for."""

from collections.abc import Iterable, Iterator
from typing import Final

from kraft.client import Cluster
from kraft.client.groups import (
    CONSUMER,
    DescribedGroup,
    MemberProgress,
    Progress,
    describe_group,
    describe_progress,
)
from kraft.client.partitions import Partition
from kraft.recorder.why import Answer

ABOUT: Final = "group"
NAMES_MAX: Final = 5
_WAITS: Final = {
    "PreparingRebalance": "is rebalancing: it waits until each of its members has joined again, or its rebalance "
                          "time-out has passed",
    "CompletingRebalance": "is rebalancing: it waits for the assignment by the member that leads it",
}


def group_answers(cluster: Cluster, names: Iterable[str]) -> list[Answer]:
    """Explain each group. Raises `RefusedError` for one that does not exist."""
    found: list[Answer] = []
    for name in dict.fromkeys(names):
        described = describe_group(cluster, name)
        if described.kind == CONSUMER:
            found += consumer_answers(describe_progress(cluster, name))
        else:
            found += classic_answers(described)
    return found


def classic_answers(group: DescribedGroup) -> Iterator[Answer]:
    """Explain a group of the classic protocol."""
    if group.state in _WAITS:
        yield _answer(f"Group {group.group} {_WAITS[group.state]}.", is_well=False)
    else:
        yield _answer(f"Group {group.group} is {group.state.lower()}, with {_count(len(group.members), 'member')}.")
    for member in group.members:
        host, has = member.client_host.lstrip("/"), _names(member.partitions or ()) or "nothing"
        yield _answer(f"Member {member.member_id} ({member.client_id} at {host}) reads {has}.")


def consumer_answers(group: Progress) -> Iterator[Answer]:
    """Explain a group of the consumer protocol: first its state, then each member that is not where it is to be, then
    the others."""
    yield _state(group)
    owners = {partition: member for member in group.members for partition in member.assigned}
    wanted = {partition: member for member in group.members for partition in member.target}
    moving = [member for member in group.members if _is_moving(group, member)]
    for member in moving:
        yield from _moves(member, owners, wanted)
    for member in group.members:
        if member not in moving:
            yield _answer(f"Member {_name(member)} reads {_names(member.assigned) or 'nothing'}, in epoch "
                          f"{member.epoch}.")


def _state(group: Progress) -> Answer:
    members = _count(len(group.members), "member")
    if group.state == "Assigning":
        return _answer(f"Group {group.group} is in epoch {group.epoch}, and its target still in epoch "
                       f"{group.target_epoch}: its coordinator computes the next one when "
                       "consumer.assignment.interval.ms has passed since the last.", is_well=False)
    if group.state == "Reconciling":
        return _answer(f"Group {group.group} is rebalancing: {members} go to the target of epoch {group.target_epoch}.",
                       is_well=False)
    return _answer(f"Group {group.group} is {group.state.lower()} in epoch {group.epoch}, with {members}.")


def _is_moving(group: Progress, member: MemberProgress) -> bool:
    return member.epoch != group.target_epoch or sorted(member.assigned) != sorted(member.target)


def _moves(member: MemberProgress, owners: dict[Partition, MemberProgress], wanted: dict[Partition, MemberProgress]
           ) -> Iterator[Answer]:
    """Explain what a member has to give up, and what it has to get."""
    surplus = [each for each in member.assigned if each not in member.target]
    missing = [each for each in member.target if each not in member.assigned]
    if surplus:
        takers = dict.fromkeys(_name(wanted[each]) for each in surplus if each in wanted)
        then = f", for {', '.join(takers)}" if takers else ""
        yield _answer(f"Member {_name(member)} has yet to give up {_names(surplus)}{then}: it does so at a heartbeat, "
                      "or is removed when its rebalance time-out has passed.", is_well=False)
    held = [each for each in missing if each in owners and owners[each] is not member]
    for owner in dict.fromkeys(owners[each] for each in held):
        lacking = _names(each for each in held if owners[each] is owner)
        yield _answer(f"Member {_name(member)} waits for {lacking}, which {_name(owner)} still has.", is_well=False)
    free = [each for each in missing if each not in held]
    if free:
        yield _answer(f"Member {_name(member)} gets {_names(free)} at its next heartbeat.", is_well=False)
    if not surplus and not missing:
        yield _answer(f"Member {_name(member)} is in epoch {member.epoch}, and enters the next one at its next "
                      "heartbeat.", is_well=False)


def _answer(text: str, *, is_well: bool = True) -> Answer:
    return Answer(ABOUT, -1, is_well, text)


def _name(member: MemberProgress) -> str:
    return f"{member.member_id} ({member.client_id} at {member.client_host.lstrip('/')})"


def _names(partitions: Iterable[Partition]) -> str:
    found = [f"{topic}/{index}" for topic, index in sorted(partitions)]
    more = f" and {len(found) - NAMES_MAX} more" if len(found) > NAMES_MAX else ""
    return ", ".join(found[:NAMES_MAX]) + more


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
