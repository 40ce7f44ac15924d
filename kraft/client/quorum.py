"""Client of the metadata quorum: its voters, the progress of every replica, and changes of the voters.

Requests go to controllers, or to brokers, which forward them. Both may be ours or Kafka's.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

from kraft.client.cluster import CONNECT_SECONDS_MIN, Cluster
from kraft.client.connection import (
    CONNECT_SECONDS,
    AuthenticationError,
    Connection,
    ConnectionFailedError,
    UnreachableError,
)
from kraft.client.refusals import RefusedError, check
from kraft.client.retries import Attempts
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.add_raft_voter_request import AddRaftVoterRequest, Listener
from kraft.protocol.messages.add_raft_voter_response import AddRaftVoterResponse
from kraft.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kraft.protocol.messages.alter_partition_reassignments_response import AlterPartitionReassignmentsResponse
from kraft.protocol.messages.describe_cluster_request import DescribeClusterRequest
from kraft.protocol.messages.describe_cluster_response import DescribeClusterResponse
from kraft.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from kraft.protocol.messages.describe_quorum_response import DescribeQuorumResponse, ReplicaState
from kraft.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from kraft.protocol.messages.remove_raft_voter_response import RemoveRaftVoterResponse

METADATA_TOPIC: Final = "__cluster_metadata"
CONTROLLERS: Final = 2
RETRY_PAUSE_SECONDS: Final = 0.05
ATTEMPT_SECONDS: Final = 5.0
"""Longest wait for one leader: one that hangs accepts connections, while another may lead by now."""
REACH_SECONDS: Final = 3.0
"""Time for the nodes to restart, after which their addresses count as wrong."""
ANSWER_SECONDS: Final = 1.0
"""Delay of an answer after the time-out of its change."""
PASSING: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT,
                  ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.FENCED_LEADER_EPOCH)
"""Errors after which the next leader may succeed."""

Result = TypeVar("Result")


class Replica(NamedTuple):
    """One replica of the metadata log. `fetch_ms` and `caught_up_ms` are times, -1 when unknown. `lag` counts records
    behind the leader. Only voters have `addresses`."""

    node_id: int
    directory_id: UUID
    voter: bool
    log_end_offset: int
    lag: int
    fetch_ms: int
    caught_up_ms: int
    addresses: tuple[str, ...] = ()


class Description(NamedTuple):
    """The quorum as its leader sees it. `targets` are the ids of the voters after the reassignment in progress; None
    without one."""

    leader: int
    epoch: int
    high_watermark: int
    replicas: tuple[Replica, ...]
    targets: tuple[int, ...] | None = None

    @property
    def voters(self) -> tuple[Replica, ...]:
        return tuple(each for each in self.replicas if each.voter)

    @property
    def observers(self) -> tuple[Replica, ...]:
        return tuple(each for each in self.replicas if not each.voter)


class QuorumClient:
    """Client that finds the leader of the quorum. Without a leader it searches for at most the cluster's time-out."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def describe(self) -> Description:
        def attempt(seconds: float) -> Description:
            with self.leader(seconds) as connection:
                return describe_quorum(connection)

        return self._retried("quorum", attempt)

    def _retried(self, what: str, attempt: Callable[[float], Result]) -> Result:
        """Return the result of `attempt`, whose argument is a time limit in seconds. It is repeated with the next
        leader while there is no leader, or the queried one does not answer in time or has lost its role.

        After the cluster's time-out the last error is raised; much earlier when no address was ever reached.
        """
        attempts, reached = Attempts(self.cluster.timeout, RETRY_PAUSE_SECONDS), False
        while True:
            try:
                return attempt(max(0.1, min(ATTEMPT_SECONDS, attempts.left)))
            except AuthenticationError:
                raise
            except RefusedError as error:
                reached = True
                if error.code not in PASSING or attempts.over:
                    raise
            except ConnectionFailedError as error:
                reached = reached or not isinstance(error, UnreachableError)
                if not reached and attempts.elapsed > REACH_SECONDS:
                    raise
                if attempts.over:
                    raise ConnectionFailedError(
                        f"{what}: no leader answered within {self.cluster.timeout:g} s: {error}") from error
            attempts.pause()

    def leader(self, seconds: float | None = None) -> Connection:
        """Open a connection, owned by the caller, to the leader, or to a broker, which forwards requests to it. Raises
        `RefusedError` with NOT_CONTROLLER when no reachable controller knows the leader. `seconds` limits the wait for
        each answer."""
        failures: list[ConnectionFailedError] = []
        share = max(CONNECT_SECONDS / len(self.cluster.bootstrap), CONNECT_SECONDS_MIN)
        for host, port in self.cluster.bootstrap:
            try:
                connection = self.cluster.connect(host, port, share, timeout=seconds)
                if ApiKey.VOTE not in connection.versions:
                    return connection
                with connection:
                    described = connection.send(
                        DescribeClusterRequest(endpoint_type=CONTROLLERS), DescribeClusterResponse)
                if described.error_code == ErrorCode.UNSUPPORTED_VERSION:
                    continue  # a controller of Kafka that has just started and does not know metadata.version yet
                check("controllers", described.error_code, described.error_message)
                for node in described.brokers:
                    if node.broker_id == described.controller_id:
                        return self.cluster.connect(node.host, node.port, timeout=seconds)
            except AuthenticationError:
                raise
            except ConnectionFailedError as error:
                failures.append(error)
        if len(failures) == len(self.cluster.bootstrap):
            kind = UnreachableError if all(isinstance(each, UnreachableError) for each in failures) \
                else ConnectionFailedError
            raise kind("; ".join(map(str, failures)))
        raise RefusedError("leader of the quorum", ErrorCode.NOT_CONTROLLER, "no controller that answers knows one")

    def add(self, node_id: int, directory_id: UUID, listeners: list[tuple[str, str, int]]) -> None:
        """Make a replica that already follows the log a voter; wait until that is committed. `listeners` are name, host
        and port of its controller listeners. Raises `RefusedError` when the leader refuses."""
        what, attempts = f"adding voter {node_id}", 0

        def attempt(seconds: float) -> None:
            nonlocal attempts
            attempts += 1
            request = AddRaftVoterRequest(
                cluster_id=None, timeout_ms=_milliseconds(seconds), voter_id=node_id, voter_directory_id=directory_id,
                listeners=[Listener(name=name, host=host, port=port) for name, host, port in listeners])
            with self.leader(seconds + ANSWER_SECONDS) as connection:
                answer = connection.send(request, AddRaftVoterResponse)
            if attempts > 1 and answer.error_code == ErrorCode.DUPLICATE_VOTER and self._votes(node_id, directory_id):
                return                 # an earlier attempt succeeded, and its answer was lost
            check(what, answer.error_code, answer.error_message)

        self._retried(what, attempt)

    def _votes(self, node_id: int, directory_id: UUID) -> bool:
        """Return whether the replica is a voter. A removal checks this before and after, because a leader's own removal
        ends its leadership. A broker then forwards the request to the next controller as well, which refuses it because
        the voter is already removed."""
        return any((each.node_id, each.directory_id) == (node_id, directory_id) for each in self.describe().voters)

    def remove(self, node_id: int, directory_id: UUID) -> None:
        """Make a voter an observer; wait until that is committed. Raises `RefusedError` when the leader refuses."""
        what = f"removing voter {node_id}"
        request = RemoveRaftVoterRequest(cluster_id=None, voter_id=node_id, voter_directory_id=directory_id)
        voted = self._votes(node_id, directory_id)

        def attempt(seconds: float) -> None:
            with self.leader(seconds) as connection:
                answer = connection.send(request, RemoveRaftVoterResponse)
            if voted and answer.error_code == ErrorCode.VOTER_NOT_FOUND and not self._votes(node_id, directory_id):
                return
            check(what, answer.error_code, answer.error_message)

        self._retried(what, attempt)

    def reassign(self, targets: tuple[int, ...] | None) -> None:
        """Set the target voters, or end their reassignment with None (KIP-642). Waits until the target is committed,
        not until it is reached. Raises `RefusedError` when the leader refuses. Apache Kafka's leader has no such
        reassignment and answers UNKNOWN_TOPIC_OR_PARTITION."""
        what = "ending the reassignment" if targets is None else f"reassigning the voters to {_listed(targets)}"

        def attempt(seconds: float) -> None:
            request = AlterPartitionReassignmentsRequest(timeout_ms=_milliseconds(seconds), topics=[
                ReassignableTopic(name=METADATA_TOPIC, partitions=[ReassignablePartition(
                    replicas=None if targets is None else list(targets))])])
            with self.leader(seconds + ANSWER_SECONDS) as connection:
                answer = connection.send(request, AlterPartitionReassignmentsResponse)
            check(what, answer.error_code, answer.error_message)
            for topic in answer.responses:
                for part in topic.partitions:
                    check(what, part.error_code, part.error_message)

        self._retried(what, attempt)


def _milliseconds(seconds: float) -> int:
    return max(1, int(seconds * 1000))


def _listed(ids: tuple[int, ...]) -> str:
    return ",".join(map(str, ids))


def describe_quorum(connection: Connection) -> Description:
    """Return the quorum as one node sees it, or as the leader that it forwards to. Raises `RefusedError`, and what
    `Connection.send` raises."""
    request = DescribeQuorumRequest(topics=[TopicData(topic_name=METADATA_TOPIC, partitions=[PartitionData()])])
    answer = connection.send(request, DescribeQuorumResponse)
    check("quorum", answer.error_code, answer.error_message)
    found = answer.topics[0].partitions[0]
    check("quorum", found.error_code, found.error_message)
    end = max((each.log_end_offset for each in found.current_voters if each.replica_id == found.leader_id), default=0)
    addresses = {node.node_id: tuple(f"{each.name}://{each.host}:{each.port}" for each in node.listeners)
                 for node in answer.nodes}

    def replica(each: ReplicaState, voter: bool) -> Replica:
        return Replica(each.replica_id, each.replica_directory_id, voter, each.log_end_offset,
                       max(0, end - each.log_end_offset), each.last_fetch_timestamp, each.last_caught_up_timestamp,
                       addresses.get(each.replica_id, ()) if voter else ())

    return Description(found.leader_id, found.leader_epoch, found.high_watermark,
                       (*(replica(each, True) for each in found.current_voters),
                        *(replica(each, False) for each in found.observers)),
                       None if found.target_voters is None else tuple(each.replica_id for each in found.target_voters))
