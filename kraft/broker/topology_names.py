"""Names of topics that the topology of a streams application may not have."""

from collections.abc import Generator

from kraft.broker.groups.streams.topology import Topology
from kraft.broker.internal_topics import is_internal
from kraft.broker.topic_views import absence_of
from kraft.protocol.error_codes import ErrorCode


def refusal_of_names(topology: Topology) -> Generator[None, None, str]:
    """Return why the topology is refused for the name of one of its topics; "" when it is not. One name per step."""
    for name in topology.named_topics:
        if is_internal(name):
            return f"Use of Kafka internal topics {name} in a Kafka Streams topology is prohibited."
        if absence_of(name) == ErrorCode.INVALID_TOPIC_EXCEPTION:
            return f"Topic names {name} are not valid topic names."
        yield
    return ""
