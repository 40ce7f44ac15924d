"""Queries of a broker to another one, besides Fetch."""

from typing import Final

from kraft.broker.broker import Broker
from kraft.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kraft.protocol.messages.list_offsets_response import ListOffsetsResponse
from kraft.raft.types import Endpoint
from kraft.runtime.net.controller_channel import Line
from kraft.runtime.net.dialer import Dialer
from kraft_native.partition.partition import Partition

VERSION: Final = 9
LATEST: Final = -1
EARLIEST: Final = -2


def address_of(broker: Broker, node_id: int) -> Endpoint | None:
    """Return the address at which brokers reach the node; None while it is not registered, or not with the listener of
    brokers."""
    registration = broker.image.brokers.get(node_id)
    listener = broker.config.inter_broker_listener
    for each in registration.endpoints if registration is not None else ():
        if each.name == listener:
            return Endpoint(each.name, each.host, each.port)
    return None


async def log_bounds(dialer: Dialer, address: Endpoint, node_id: int, partition: Partition,
                     timeout_seconds: float) -> tuple[int, int] | None:
    """Start and end of the leader's log; None when it refuses the query. Raises OSError or TimeoutError when the leader
    cannot be reached, or does not answer one of the two queries in time."""
    line = Line(f"broker-{node_id}-fetcher-0", dialer)
    try:
        await line.open(address)
        bounds = []
        for timestamp in (EARLIEST, LATEST):
            body = await line.request(ListOffsetsRequest(replica_id=node_id, topics=[ListOffsetsTopic(
                name=partition.topic, partitions=[ListOffsetsPartition(
                    partition_index=partition.index, current_leader_epoch=partition.leader_epoch,
                    timestamp=timestamp)])]), VERSION, timeout_seconds)
            [part] = ListOffsetsResponse.decode(body, VERSION).topics[0].partitions
            if part.error_code:
                return None
            bounds.append(part.offset)
    finally:
        line.close()
    return bounds[0], bounds[1]
