"""Rules about partitions: leaders, in-sync replicas, reassignments, transactions."""

from collections.abc import Iterator
from typing import Final

from kraft.client.partitions import Partition
from kraft.console.clock import time_text
from kraft.console.state.what_if import Placed
from kraft.console.why.facts import Facts
from kraft.console.why.finding import AMBER, RED, Finding, count_of, does_not_answer, named

RECENT_MS: Final = 7 * 24 * 3_600_000
"""Unclean elections older than this are history."""
PREFERRED_SHARE: Final = 0.8


def name_of(partition: Partition) -> str:
    return f"{partition[0]}/{partition[1]}"


def link_of(partition: Partition) -> str:
    from urllib.parse import quote

    return f"/topics/{quote(partition[0], safe='')}"


def leaderless(facts: Facts) -> Iterator[Finding]:
    """Partitions that nobody leads, each with the reason from the metadata log."""
    explained = {partition: answer.text for partition, answer in facts.about_partitions
                 if answer.about == "leader" and not answer.is_well}
    rest = []
    for each in facts.red:
        if each.leader >= 0:
            continue
        if len(each.replicas) == 1 and each.replicas[0] in facts.offline:
            yield Finding(RED, name_of(each.partition), f"{name_of(each.partition)} has only one replica, on broker "
                          f"{each.replicas[0]}, which is offline.", _evidence(explained.get(each.partition)),
                          link_of(each.partition), 2)
        elif each.partition in explained:
            yield Finding(RED, name_of(each.partition), explained[each.partition], _placement(each),
                          link_of(each.partition), 2)
        else:
            rest.append(each)
    if rest:
        offline = sorted({replica for each in rest for replica in each.replicas if replica in facts.offline})
        cause = f": their replicas are on {', '.join(f'broker {each}' for each in offline)}, offline" if offline else ""
        yield Finding(RED, "partitions", f"{count_of(len(rest), 'partition')} have no leader{cause}: "
                      f"{named([name_of(each.partition) for each in rest])}.", (), "/topics?problems=1", 2)


def out_of_sync(facts: Facts) -> Iterator[Finding]:
    """Replicas that are not in sync although their brokers are up and somebody leads the partition. Those of offline
    brokers are the effects of that finding. A broker that is only slow to answer is up: its session is alive."""
    down = {node_id for node_id, each in facts.offline.items() if each.fenced or not does_not_answer(each.problem)}
    brokers_found = {*down, *facts.leases}
    explained = {}
    for partition, answer in facts.about_partitions:
        if answer.about == "replica" and not answer.is_well:
            explained[partition, answer.node_id] = answer.text
    rest = []
    for each in facts.red:
        for replica in each.replicas:
            if each.leader < 0 or replica in each.isr or replica in brokers_found:
                continue
            text = explained.get((each.partition, replica))
            if text is None:
                rest.append(each.partition)
            else:
                yield Finding(RED, name_of(each.partition), f"{name_of(each.partition)}: {text}", _placement(each),
                              link_of(each.partition), 3)
    if rest:
        yield Finding(RED, "partitions", f"{count_of(len(rest), 'replica')} of running brokers out of sync: "
                      f"{named([name_of(each) for each in rest])}.", (), "/topics?problems=1", 3)


def refused_writes(facts: Facts) -> Iterator[Finding]:
    """Partitions that refuse acks=all."""
    without = [each.partition for each in facts.red if each.leader < 0]
    for partition, answer in facts.about_partitions:
        if answer.about == "isr" and not answer.is_well and partition not in without:
            yield Finding(RED, name_of(partition), f"acks=all requests to {name_of(partition)} are refused. "
                          f"{answer.text}", (), link_of(partition), 1)


def unclean_elections(facts: Facts) -> Iterator[Finding]:
    """Partitions whose leader was elected without being in sync."""
    for partition, time_ms in facts.history.unclean.items():
        if facts.now_ms - time_ms <= RECENT_MS:
            yield Finding(RED, name_of(partition), f"{name_of(partition)} had an unclean election at "
                          f"{time_text(time_ms)}: its leader was not in sync, and acknowledged records may be lost.",
                          (), link_of(partition), 3)


def moving(facts: Facts) -> Iterator[Finding]:
    """Reassignments in progress, with what they wait for."""
    explained = {partition: answer.text for partition, answer in facts.about_partitions
                 if answer.about == "reassignment"}
    for partition, move in facts.moves.items():
        waits = [each for each in move.adding if each in facts.offline]
        if waits:
            text = f"it waits for broker {', '.join(map(str, waits))}, which is offline"
        elif partition in explained:
            text = explained[partition].partition("under way: ")[2].rstrip(".") or explained[partition]
        else:
            text = f"broker {', '.join(map(str, move.adding))} copies its log" if move.adding else "it ends soon"
        throttle = _throttle(facts, partition[0])
        yield Finding(RED if waits else AMBER, name_of(partition), f"{name_of(partition)}: the reassignment to "
                      f"{', '.join(map(str, move.targets))} is not done: {text}{throttle}.", (), link_of(partition), 4)


def _throttle(facts: Facts, topic: str) -> str:
    if facts.image is None or not throttled_topic(facts, topic):
        return ""
    from kraft.metadata.image import BROKER_RESOURCE

    rates = [settings[name] for resource, settings in facts.image.configs.items() if resource.type == BROKER_RESOURCE
             for name in ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
             if name in settings]
    return f"; a throttle of {min(rates, key=int)} bytes per second slows it" if rates else ""


def throttled_topic(facts: Facts, topic: str) -> bool:
    """Return whether a topic names replicas whose replication is throttled."""
    return facts.image is not None and any(
        facts.image.topic_config(topic).get(name)
        for name in ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas"))


def holding_transactions(facts: Facts) -> Iterator[Finding]:
    """Transactions that hold back readers of committed records."""
    for partition, answer in facts.transactions:
        if answer.node_id == -1 and answer.is_well:
            continue
        yield Finding(AMBER if answer.is_well else RED, name_of(partition), answer.text, (), "/transactions", 4)


def unbalanced_leaders(facts: Facts) -> Iterator[Finding]:
    """Brokers that lead far fewer partitions than they are preferred for."""
    preferred: dict[int, int] = {}
    leading: dict[int, int] = {}
    for each in facts.placed:
        if each.leader < 0:
            continue
        first = each.replicas[0] if each.replicas else -1
        preferred[first] = preferred.get(first, 0) + 1
        leading[first] = leading.get(first, 0) + (each.leader == first)
    for broker, count in sorted(preferred.items()):
        if broker not in facts.offline and count >= 2 and leading[broker] < count * PREFERRED_SHARE:
            yield Finding(AMBER, f"broker {broker}", f"Broker {broker} leads {leading[broker]:,} of the {count:,} "
                          "partitions for which it is the preferred leader: `kraft leaders elect --all` moves them.",
                          (), f"/brokers/{broker}", 6)


def _placement(each: Placed) -> tuple[str, ...]:
    return (f"replicas {', '.join(map(str, each.replicas))}; in sync {', '.join(map(str, each.isr)) or 'none'}",)


def _evidence(text: str | None) -> tuple[str, ...]:
    return () if text is None else (text,)
