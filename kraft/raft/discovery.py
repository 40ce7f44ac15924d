"""Finding the others without a log that tells where they are: DiscoverBrokers (KIP-642), KIP-595's FindQuorum.

Who asks tells where it listens itself and since when its process runs; the answer is everything that is known. So
addresses spread also while there are too few voters to elect anybody.
"""

from kraft.protocol.error_codes import ErrorCode
from kraft.raft.messages import DiscoverRequest, DiscoverResponse, Loss, Lost, Response
from kraft.raft.replica import Replica
from kraft.raft.roles import Follower, Unattached
from kraft.raft.types import NOBODY


def announce(replica: Replica, node_id: int) -> None:
    """Tells a node where this one listens, and asks what it knows."""
    replica.ask(node_id, DiscoverRequest(
        cluster_id=replica.cluster_id, sender=replica.own_entry, epoch=replica.epoch, leader_id=replica.leader_id))


def handle_discover(replica: Replica, source: int, correlation: int, request: DiscoverRequest) -> None:
    """Answered by everybody, whatever its role. A leader of a higher epoch is news here too."""
    if replica.is_of_other_cluster(request):
        replica.answer(source, correlation, DiscoverResponse(error=ErrorCode.INCONSISTENT_CLUSTER_ID))
        return
    replica.directory.learn(request.sender)
    if request.epoch > replica.epoch and request.leader_id not in (NOBODY, replica.config.node_id):
        replica.learn(request.epoch, request.leader_id, replica.directory.endpoints(request.leader_id),
                      source=request.sender.key.node_id)
    replica.answer(source, correlation, DiscoverResponse(
        voters=replica.voters.keys, targets=replica.voters.targets, cluster_id=replica.cluster_id,
        nodes=(replica.own_entry, *replica.directory.nodes.values())))


def handle_discover_answer(
    replica: Replica, node_id: int, _request: DiscoverRequest, answer: Response | Lost
) -> None:
    """Takes in where nodes listen; who leads is taken in already. Who does not know DiscoverBrokers, as Apache Kafka's
    controllers do not, is asked with a Fetch from now on."""
    if answer == Lost(Loss.UNSUPPORTED):
        replica.cannot_discover[node_id] = None
        if isinstance(replica.role, Unattached | Follower):
            replica.role.asked = NOBODY
        return
    if isinstance(answer, DiscoverResponse) and answer.error is ErrorCode.NONE:
        for known in answer.nodes:
            if known.key.node_id != replica.config.node_id:
                replica.directory.learn(known)
    if isinstance(replica.role, Follower) and node_id == replica.leader_id:
        replica.role.announced = isinstance(answer, DiscoverResponse)
        return
    if isinstance(replica.role, Unattached | Follower):
        replica.role.inquiries += 1
    replica.requests.back_off(node_id, replica.now_ms)
