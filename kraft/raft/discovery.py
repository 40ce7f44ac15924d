"""Finding the other nodes without a log that holds their addresses: DiscoverBrokers (KIP-642), KIP-595's FindQuorum.

The sender announces its own listeners and the time at which its process started; the answer is everything that the
receiver knows. So addresses spread also while there are too few voters to elect a leader.
"""

from typing import Final

from kraft.protocol.error_codes import ErrorCode
from kraft.raft.address_book import Known
from kraft.raft.messages import DiscoverRequest, DiscoverResponse, Loss, Lost, Response
from kraft.raft.replica import Replica
from kraft.raft.roles import Follower, Unattached
from kraft.raft.searching import inquiry_answered
from kraft.raft.types import NOBODY

NEVER_BOOTED_MS: Final = -1
"""Boot timestamp for a node that did not announce itself: any announcement replaces it."""
VOTERS_MAX: Final = 100
"""Largest number of voters of one answer that are queried for the leader."""


def handle_discover(replica: Replica, source: int, correlation: int, request: DiscoverRequest) -> None:
    """Answer the request in any role. A leader of a higher epoch is news here too."""
    if replica.is_of_other_cluster(request):
        replica.answer(source, correlation, DiscoverResponse(error=ErrorCode.INCONSISTENT_CLUSTER_ID))
        return
    replica.learn_address(request.sender, is_direct=True)
    if request.epoch > replica.epoch and request.leader_id not in (NOBODY, replica.config.node_id):
        replica.learn(request.epoch, request.leader_id, replica.addresses.endpoints(request.leader_id),
                      source=request.sender.key.node_id)
    replica.answer(source, correlation, DiscoverResponse(
        voters=replica.voters.keys, targets=replica.voters.targets, cluster_id=replica.cluster_id,
        nodes=_known(replica)))


def _known(replica: Replica) -> tuple[Known, ...]:
    """Return the nodes that announced themselves, this one first, then the other voters at the address known from the
    log or the leader."""
    nodes = replica.addresses.nodes
    logged = tuple(
        Known(voter.key, NEVER_BOOTED_MS, (address, )) for voter in replica.voters.voters
        if voter.key.node_id not in (*nodes, replica.config.node_id)
        and (address := replica.address_of(voter.key.node_id)) is not None)
    return replica.own_entry, *nodes.values(), *logged


def handle_discover_answer(
    replica: Replica, node_id: int, _request: DiscoverRequest, answer: Response | Lost
) -> None:
    """Record where nodes listen; the leader has been recorded already. A node that does not support DiscoverBrokers,
    such as Apache Kafka's controllers, is queried with a Fetch from then on."""
    if answer == Lost(Loss.UNSUPPORTED):
        replica.cannot_discover[node_id] = None
        if isinstance(replica.role, Unattached | Follower) and replica.role.queried == node_id:
            replica.role.queried = NOBODY
        return
    if isinstance(answer, DiscoverResponse) and answer.error is ErrorCode.NONE:
        replica.addresses.voters = tuple(dict.fromkeys(
            key.node_id for key in (*answer.voters, *(answer.targets or ())) if key.node_id >= 0))[:VOTERS_MAX]
        for known in answer.nodes:
            replica.learn_address(known)
    if isinstance(replica.role, Follower) and node_id == replica.leader_id:
        replica.role.announced = isinstance(answer, DiscoverResponse)
        return
    inquiry_answered(replica, node_id, answer)
