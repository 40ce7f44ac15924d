"""DiscoverBrokers (key 1000, kraft's own, from KIP-642): addresses of nodes, voters and leader, as this node knows
them.

With it `controller.quorum.bootstrap.servers` may name brokers, too.
"""

from kraft.broker.api import Answer, RequestContext
from kraft.broker.broker import Broker
from kraft.protocol.messages.discover_brokers_request import DiscoverBrokersRequest


def discover_brokers(broker: Broker, request: DiscoverBrokersRequest, context: RequestContext, answer: Answer) -> None:
    """Answer from this node's own replica of the metadata log, regardless of the leader."""
    broker.submit(request, context.version, context.now_ms, answer, context.client)
