"""Settings that a replica gets at its start and never changes."""

from typing import Final

from kraft.raft.types import Endpoints, ReplicaKey
from kraft.raft.voters import KRAFT_VERSIONS, NO_VOTERS, VersionRange, VoterSet
from kraft.structs import immutable
from kraft_native.base.errors import InvalidArgumentError

CHECK_QUORUM_FACTOR: Final = 1.5
"""Number of fetch time-outs after which a leader without a Fetch from a majority gives up. More than one, because
followers notice the loss first: their leader must not resign before they could search for another."""


@immutable(kw_only=True)
class RaftConfig:
    """Settings of one replica. Times are milliseconds.

    - `election_timeout_ms` (controller.quorum.election.timeout.ms): an election that is not won after this time, plus a
      random time of at most the same length, is given up. A replica that knows no leader waits as long before it
      campaigns.
    - `election_backoff_max_ms` (controller.quorum.election.backoff.max.ms): the longest random time before a candidate
      that lost campaigns again, and before a preferred successor campaigns.
    - `fetch_timeout_ms` (controller.quorum.fetch.timeout.ms): a follower that could not fetch for this time campaigns.
      A leader without a Fetch from a majority for 1.5 times as long gives up (KIP-996's check quorum).
    - `request_timeout_ms`, `retry_backoff_ms`: of one request.
    - `fetch_max_wait_ms`: how long a leader may hold a Fetch for which it has nothing new.
    - `fetch_max_bytes`, `fetch_snapshot_max_bytes` (controller.quorum.fetch.max.bytes and .fetch.snapshot.max.bytes):
      bytes of records, and of a snapshot, in one answer.
    - `disconnect_grace_ms`: how long a follower waits before it campaigns after its connection to the leader was
      closed, plus twice as long for each voter with a smaller id. It does not wait for its fetch time-out. The pre-vote
      makes that harmless.
    - `start_grace_ms`: a voter that has just started, and knows no leader or led itself, campaigns after this time plus
      a random time of at most the same length. The pre-vote makes that harmless too. 0: it waits for its election
      time-out.
    - `can_vote`: a node with the controller role. Other nodes are always observers.
    - `auto_join` (controller.quorum.auto.join.enable): a node that can vote but is not a voter requests to become one.
    - `bootstrap` (controller.quorum.bootstrap.servers): addresses to query for the leader where no voter is known. They
      have the ids -2, -3 and so on, and are queried all at the same time.
    - `cluster_id`: None until the first leader has created one (KIP-642).
    - `static_voters` (controller.quorum.voters): in force as long as the log names no others.
    """

    key: ReplicaKey
    cluster_id: str | None = None
    can_vote: bool = True
    auto_join: bool = False
    endpoints: Endpoints = ()
    bootstrap: Endpoints = ()
    static_voters: VoterSet = NO_VOTERS
    kraft_versions: VersionRange = KRAFT_VERSIONS
    election_timeout_ms: int = 1000
    election_backoff_max_ms: int = 1000
    fetch_timeout_ms: int = 2000
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 8 << 20
    fetch_snapshot_max_bytes: int = 8 << 20
    disconnect_grace_ms: int = 50
    start_grace_ms: int = 0

    def __post_init__(self) -> None:
        if self.key.node_id < 0:
            raise InvalidArgumentError(f"key: the node id {self.key.node_id} must not be negative")
        for name in ("election_timeout_ms", "election_backoff_max_ms", "fetch_timeout_ms", "request_timeout_ms",
                     "retry_backoff_ms", "disconnect_grace_ms"):
            if getattr(self, name) < 1:
                raise InvalidArgumentError(f"{name}: {getattr(self, name)} must be at least 1")
        if not 0 <= self.fetch_max_wait_ms < self.fetch_timeout_ms:
            raise InvalidArgumentError(f"fetch_max_wait_ms: {self.fetch_max_wait_ms} must be below fetch_timeout_ms "
                                       f"({self.fetch_timeout_ms}), or idle followers would stand")

    @property
    def node_id(self) -> int:
        return self.key.node_id

    @property
    def check_quorum_timeout_ms(self) -> int:
        return int(self.fetch_timeout_ms * CHECK_QUORUM_FACTOR)

    @property
    def patience_ms(self) -> int:
        """Time that an answer may be missing before the replica tries another way: another address of the node, another
        voter, the bootstrap servers. Four such tries fit into one election time-out."""
        return max(1, self.election_timeout_ms // 4)

    @property
    def begin_epoch_interval_ms(self) -> int:
        """Interval at which a leader reminds a voter that does not fetch."""
        return max(1, self.fetch_timeout_ms // 2)
