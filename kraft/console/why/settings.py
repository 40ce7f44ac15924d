"""Rules about settings and placement: those that endanger records or slow clients although all nodes are up."""

from collections.abc import Iterator
from typing import Final

from kraft.console.why.facts import Facts
from kraft.console.why.finding import AMBER, RED, Finding, named
from kraft.console.why.partitions import link_of, throttled_topic
from kraft.metadata.image import CLUSTER_DEFAULT

MIN_ISR: Final = "min.insync.replicas"
SLOW_BYTES: Final = 1_000_000
"""A default quota below this many bytes per second slows ordinary clients."""
INTERNAL: Final = ("__consumer_offsets", "__transaction_state", "__share_group_state")


def _replicas_by_topic(facts: Facts) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in facts.placed:
        found[each.partition[0]] = max(found.get(each.partition[0], 0), len(each.replicas))
    return found


def minimum_above_replicas(facts: Facts) -> Iterator[Finding]:
    """Topics that need more in-sync replicas than they have replicas."""
    if facts.image is None:
        return
    default = facts.image.config(CLUSTER_DEFAULT).get(MIN_ISR, "1")
    for topic, replicas in _replicas_by_topic(facts).items():
        text = facts.image.topic_config(topic).get(MIN_ISR, default)
        if text.isdecimal() and int(text) > replicas:
            many = "replica" if replicas == 1 else "replicas"
            yield Finding(AMBER, topic, f"{topic}: {MIN_ISR} is {text}, and the topic has {replicas} {many}: the value "
                          "has no further effect than the number of replicas, and a single fault refuses acks=all.",
                          (), link_of((topic, 0)), 5)


def one_rack(facts: Facts) -> Iterator[Finding]:
    """Topics with all replicas of a partition in one rack, while brokers in others exist."""
    racks = {each.node_id: each.rack for each in facts.brokers if each.rack}
    if len(set(racks.values())) < 2:
        return
    topics = {each.partition[0]: racks.get(each.replicas[0]) for each in facts.placed
              if len(each.replicas) > 1 and each.replicas[0] in racks
              and len({racks.get(replica) for replica in each.replicas}) == 1}
    if topics:
        names = list(topics)
        yield Finding(AMBER, "racks", f"All replicas of partitions of {named(names)} are in one rack "
                      f"({named(sorted({str(each) for each in topics.values()}))}): its failure takes them offline.",
                      (), link_of((names[0], 0)), 5)


def internal_topics(facts: Facts) -> Iterator[Finding]:
    """Internal topics with one replica in a cluster of several brokers."""
    replicas = _replicas_by_topic(facts)
    for topic in INTERNAL:
        if replicas.get(topic) == 1 and len(facts.brokers) > 1:
            yield Finding(AMBER, topic, f"{topic} has 1 replica in a cluster of {len(facts.brokers)} brokers: groups "
                          "or transactions stop when its broker fails.", (), link_of((topic, 0)), 5)


def forgotten_throttles(facts: Facts) -> Iterator[Finding]:
    """Replication throttles without a reassignment."""
    if facts.image is None:
        return
    moving = {topic for topic, _ in facts.moves}
    for topic in _replicas_by_topic(facts):
        if topic not in moving and throttled_topic(facts, topic):
            yield Finding(AMBER, topic, f"Throttles slow the replication of {topic}, and no reassignment of it is in "
                          "progress: the settings *.replication.throttled.replicas were not removed.", (),
                          link_of((topic, 0)), 5)


def slow_quotas(facts: Facts) -> Iterator[Finding]:
    """Default quotas that slow every client."""
    if facts.image is None:
        return
    for entity, limits in facts.image.quotas.items():
        for name in ("producer_byte_rate", "consumer_byte_rate"):
            limit = limits.get(name)
            if limit is None or limit >= SLOW_BYTES:
                continue
            if all(value is None for _, value in entity):
                kinds = " and ".join(kind for kind, _ in entity)
                yield Finding(RED, "quotas", f"A default quota slows every {kinds} to {limit:,.0f} bytes per second "
                              f"({name}).", (), "/quotas", 4)
