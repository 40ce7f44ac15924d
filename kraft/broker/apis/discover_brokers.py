"""DiscoverBrokers (key 1000, ours, from KIP-642): where nodes listen, who votes and who leads, as this node knows it.

So `controller.quorum.bootstrap.servers` may name brokers, too.
"""

from kraft.broker.api import Answer, RequestContext, serves
from kraft.broker.broker import Broker
from kraft.protocol.messages.discover_brokers_request import DiscoverBrokersRequest


@serves("DiscoverBrokers")
def discover_brokers(broker: Broker, request: DiscoverBrokersRequest, context: RequestContext, answer: Answer) -> None:
    """This node's own replica of the metadata log answers, whoever leads."""
    broker.submit(request, context.version, context.now_ms, answer, context.client_id)
