"""Codec of DiscoverBrokers (KIP-642, kraft's API 1000); see `kraft.raft.wire`."""

from collections.abc import Sequence
from typing import Final

from kraft.protocol.message import Message
from kraft.protocol.messages import discover_brokers_request, discover_brokers_response
from kraft.raft.address_book import Known
from kraft.raft.messages import DiscoverRequest, DiscoverResponse, Request, Response
from kraft.raft.types import Endpoint, ReplicaKey
from kraft.raft.wire import Codec, endpoints_of, error_of


def _discover_request(request: DiscoverRequest, _version: int) -> Message:
    of, sender = discover_brokers_request, request.sender
    return of.DiscoverBrokersRequest(
        cluster_id=request.cluster_id, replica_id=sender.key.node_id, replica_directory_id=sender.key.directory_id,
        boot_timestamp=sender.boot_ms, leader_id=request.leader_id, leader_epoch=request.epoch,
        listeners=[of.Listener(name=each.name, host=each.host, port=each.port) for each in sender.endpoints])


def _discover_of(message: discover_brokers_request.DiscoverBrokersRequest, _version: int) -> Request:
    key = ReplicaKey(message.replica_id, message.replica_directory_id)
    return DiscoverRequest(
        cluster_id=message.cluster_id, sender=Known(key, message.boot_timestamp, endpoints_of(message.listeners)),
        epoch=max(message.leader_epoch, 0), leader_id=message.leader_id)


def _discover_response(response: DiscoverResponse, _version: int) -> Message:
    of = discover_brokers_response
    return of.DiscoverBrokersResponse(
        error_code=response.error, cluster_id=response.cluster_id, leader_id=response.leader_id,
        leader_epoch=response.epoch, current_voters=_voters(response.voters),
        target_voters=None if response.targets is None else _voters(response.targets),
        brokers=[of.Broker(
            broker_id=node.key.node_id, directory_id=node.key.directory_id, boot_timestamp=node.boot_ms,
            listeners=[of.Listener(name=each.name, host=each.host, port=each.port) for each in node.endpoints])
            for node in response.nodes])


def _voters(keys: Sequence[ReplicaKey]) -> list[discover_brokers_response.Voter]:
    return [discover_brokers_response.Voter(voter_id=key.node_id, voter_directory_id=key.directory_id) for key in keys]


def _discover_answer_of(message: discover_brokers_response.DiscoverBrokersResponse) -> Response:
    """Return the core's response. The leader's address is among those of the nodes."""
    nodes = tuple(
        Known(ReplicaKey(each.broker_id, each.directory_id), each.boot_timestamp, endpoints_of(each.listeners))
        for each in message.brokers)
    leader: tuple[Endpoint, ...] = next(
        (node.endpoints for node in nodes if node.key.node_id == message.leader_id), ())
    return DiscoverResponse(
        error=error_of(message.error_code), epoch=max(message.leader_epoch, 0), leader_id=message.leader_id,
        leader_endpoints=leader, nodes=nodes, cluster_id=message.cluster_id, voters=_keys(message.current_voters),
        targets=None if message.target_voters is None else _keys(message.target_voters))


def _keys(voters: Sequence[discover_brokers_response.Voter]) -> tuple[ReplicaKey, ...]:
    return tuple(ReplicaKey(each.voter_id, each.voter_directory_id) for each in voters)


DISCOVER_CODEC: Final = Codec(
    DiscoverRequest, discover_brokers_response.DiscoverBrokersResponse, _discover_request, _discover_of,
    _discover_response, _discover_answer_of, lambda code: discover_brokers_response.DiscoverBrokersResponse(
        error_code=code))
