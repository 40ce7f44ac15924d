"""Search for a leader and for the voters' addresses, by a replica that receives nothing from a leader.

The rules (docs/internals/discovery.md) depend on the core's clock and on answers only, never on how often or how soon
the driver reports a loss.

- Every bootstrap server is queried at the same time.
- An address that does not answer delays nothing but itself.
- A voter that listens elsewhere than its log says announces that to every voter it can reach.
"""

from typing import Final

from kraft.protocol.error_codes import ErrorCode
from kraft.raft.messages import (
    DiscoverRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    Loss,
    Lost,
    Request,
    Response,
    VoteRequest,
)
from kraft.raft.replica import FIRST_BOOTSTRAP_ID, Replica
from kraft.raft.roles import Candidate, Follower, Leader, Prospective, Resigned, Unattached
from kraft.raft.types import NOBODY

WRONG_NODE: Final = (ErrorCode.INVALID_VOTER_KEY, ErrorCode.INVALID_REQUEST, ErrorCode.INCONSISTENT_CLUSTER_ID)


def announce(replica: Replica, node_id: int) -> None:
    """Announce to a node where this one listens, and query what that node knows."""
    replica.send(node_id, DiscoverRequest(
        cluster_id=replica.cluster_id, sender=replica.own_entry, epoch=replica.epoch, leader_id=replica.leader_id),
        timeout_ms=replica.config.election_timeout_ms)


def campaigns(replica: Replica, role: Follower) -> bool:
    """Return whether it campaigns when the leader is unresponsive. It does not if that leader dismissed it as a
    voter."""
    return replica.may_campaign and not role.dismissed


def next_fetch(replica: Replica, max_wait_ms: int) -> FetchRequest:
    end, role = replica.log.end, replica.role
    is_follower = isinstance(role, Follower) and campaigns(replica, role)
    return FetchRequest(
        cluster_id=replica.cluster_id, replica=replica.config.key, epoch=replica.epoch, fetch_offset=end.offset,
        last_fetched_epoch=end.epoch, max_bytes=replica.config.fetch_max_bytes, max_wait_ms=max_wait_ms,
        high_watermark=replica.high_watermark, is_follower=is_follower)


def searches(replica: Replica) -> bool:
    """Return whether the replica searches for a leader and for addresses now.

    Without a leader it always does. A follower does as soon as its connection to the leader broke, or the leader's
    answer is overdue. A replica that has just led announces to the others that it has resigned; it searches when they
    cannot know where it listens.
    """
    match replica.role:
        case Leader():
            return False
        case Follower() as role:
            return role.losses > 0 or replica.now_ms >= search_ms(replica, role)
        case Resigned():
            return has_moved(replica)
    return True


def search_ms(replica: Replica, role: Follower) -> int:
    """Return when a follower that receives nothing more from its leader begins to search."""
    config = replica.config
    return role.fetch_ms - max(0, config.fetch_timeout_ms - config.fetch_max_wait_ms - config.patience_ms)


def has_moved(replica: Replica) -> bool:
    """Return whether this replica is a voter and listens elsewhere than its log says."""
    config = replica.config
    voter = replica.voters.find(config.node_id)
    return config.can_vote and bool(config.endpoints) and voter is not None and voter.endpoints != config.endpoints


def search(replica: Replica) -> None:
    """Do the part of the search that is not an election: announce this replica to all that it can reach."""
    if not searches(replica):
        return
    query_bootstrap_servers(replica)
    role = replica.role
    if isinstance(role, Unattached):
        query_next_voter(replica, role)
    elif has_moved(replica):
        waits = role.tally.unanswered if isinstance(role, Prospective | Candidate) else ()
        for node_id in replica.voters.ids:
            if (node_id != replica.config.node_id and node_id not in waits and replica.may_send(node_id)
                    and node_id not in replica.cannot_discover):
                announce(replica, node_id)


def query_bootstrap_servers(replica: Replica) -> None:
    """Query all of them at the same time, with DiscoverBrokers, which also announces where this replica listens."""
    config = replica.config
    for number, endpoint in enumerate(config.bootstrap):
        node_id = FIRST_BOOTSTRAP_ID - number
        if endpoint not in config.endpoints and replica.may_send(node_id):
            _inquire(replica, node_id, announces=True)


def query_next_voter(replica: Replica, role: Unattached | Follower) -> None:
    """Query the voters one after the other: those of the log, and those that DiscoverBrokers named. A voter that does
    not answer soon is passed over: a process that hangs accepts connections, and would be waited for indefinitely."""
    voters = replica.voters.ids
    discovered = [each for each in replica.addresses.voters if each not in voters]
    nodes = [each for each in (*voters, *discovered)
             if each not in (replica.config.node_id, replica.leader_id) and replica.addresses_of(each)]
    for _ in range(len(nodes) + 1):
        if not nodes:
            return
        node_id = nodes[role.inquiries % len(nodes)]
        may_send = replica.may_send(node_id)
        if role.queried == node_id:
            if not may_send and replica.now_ms < role.passes_ms:
                return
            role.inquiries += 1
            role.queried = NOBODY
        elif may_send:
            role.queried = node_id
            role.passes_ms = replica.now_ms + replica.config.patience_ms
            _inquire(replica, node_id, announces=has_moved(replica))
            return
        elif replica.requests.is_under_way(node_id, replica.now_ms):
            role.inquiries += 1
        else:
            return


def _inquire(replica: Replica, node_id: int, *, announces: bool) -> None:
    """Query a node for the leader. Its answer to a Fetch names the leader too, but a Fetch may not be sent while the
    log is not durable to its end."""
    if announces and node_id not in replica.cannot_discover:
        announce(replica, node_id)
    elif replica.is_durable:
        replica.send(node_id, next_fetch(replica, 0), timeout_ms=replica.config.election_timeout_ms)


def inquiry_answered(replica: Replica, node_id: int, answer: Response | Lost) -> None:
    """End an inquiry: the answer, or its loss, has said all that it can about the leader.

    A bootstrap server that answered a voter knows the voter's address, and the leader will announce itself to a voter.
    So a voter does not query that server again at once, as an observer does.
    """
    role = replica.role
    if isinstance(role, Unattached | Follower) and role.queried == node_id:
        role.inquiries += 1
        role.queried = NOBODY
    is_known_there = node_id <= FIRST_BOOTSTRAP_ID and replica.may_campaign and isinstance(answer, Response)
    replica.requests.back_off(node_id, replica.now_ms, replica.config.patience_ms if is_known_there else None)


def note_sender_is_up(replica: Replica, request: Request) -> None:
    """Repeat an overdue request to a node at once, because a request from that node shows that it is up."""
    node_id = _sender(request)
    if searches(replica) and node_id in replica.requests.unanswered(replica.now_ms, replica.config.patience_ms):
        replica.address_failed(node_id)
        replica.requests.forget(node_id)


def _sender(request: Request) -> int:
    match request:
        case VoteRequest():
            return request.candidate.node_id
        case FetchRequest():
            return request.replica.node_id
        case DiscoverRequest():
            return request.sender.key.node_id
        case EndQuorumEpochRequest():
            return request.leader_id
    return NOBODY


def judge_address(replica: Replica, node_id: int, answer: Response | Lost) -> None:
    """Record whether a node was found at the queried address.

    Another process may listen there by now. It refuses a voter's key, or a request that its own id seems to have sent,
    and it does not act as the leader. What it says of the quorum is true nevertheless.
    """
    replica.requests.speed_up(node_id, replica.now_ms, replica.config.patience_ms)
    if isinstance(answer, Lost):
        if answer.reason is not Loss.UNSUPPORTED:
            replica.address_failed(node_id)
    elif answer.error in WRONG_NODE or (node_id == replica.leader_id and answer.error is not ErrorCode.NONE):
        replica.address_failed(node_id)
