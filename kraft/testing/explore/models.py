"""Explored models: quorums of three nodes, each with the events that its question needs, and bounds that make its
states finitely many. The elections begin with empty disks. The other models begin with the records of a quorum after
its first epochs, so that the bounds are spent on their own questions."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from kraft.raft.config import RaftConfig
from kraft.raft.messages import FetchRequest, FetchResponse, Request, Response, VoteRequest, VoteResponse
from kraft.raft.ready import HardState
from kraft.raft.records import KRaftVersion, LeaderChange, Voters
from kraft.raft.types import Endpoint, ReplicaKey
from kraft.raft.voters import NO_VOTERS, Voter, VoterSet
from kraft.testing.explore.frozen import NodeId
from kraft.testing.memory_log import Record

CLUSTER_ID: Final = "explored"


class Budget(NamedTuple):
    """Number of events of each kind in a run, over all nodes. `losses`: lost messages whose loss the sender notices; a
    message that is never delivered costs nothing. `reminders`: repeated BeginQuorumEpoch requests of a leader, beyond
    the first."""

    timeouts: int = 0
    crashes: int = 0
    losses: int = 0
    duplicates: int = 0
    reminders: int = 0
    changes: int = 0
    proposals: int = 0

    def __str__(self) -> str:
        return ", ".join(f"{count} {name}" for name, count in self._asdict().items() if count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Explored quorum: at the start, `voters` of its `nodes` are voters.

    - `epoch_max`: states with later epochs are not followed.
    - `depth_max`: longest sequence of events.
    - `late`: kinds of messages that may arrive when their sender no longer waits for them. Other kinds are lost then.
    - `queries_voters`: a voter without a leader queries the others for it; otherwise it waits for a notification. (An
    observer always queries: no node notifies it.)
    - `founded`: the log begins with the records that make the voters dynamic, and epoch 1 has passed.
    - `led`: node 1 has been elected, and all nodes have committed its first record.
    """

    name: str
    text: str
    nodes: int = 3
    voters: int = 3
    epoch_max: int
    budget: Budget
    depth_max: int
    late: tuple[type[Request | Response], ...] = ()
    queries_voters: bool = False
    founded: bool = False
    led: bool = False

    @property
    def ids(self) -> tuple[NodeId, ...]:
        return tuple(NodeId(number) for number in range(1, self.nodes + 1))

    @property
    def first_voters(self) -> VoterSet:
        return VoterSet(tuple(voter(node_id) for node_id in self.ids[:self.voters]), None, CLUSTER_ID)

    @property
    def first_epoch(self) -> int:
        """Last epoch before the exploration: it has no leader, and no node has voted in it."""
        return 2 if self.founded else 0

    @property
    def records(self) -> tuple[Record, ...]:
        """Records on every node's disk at the start."""
        if not self.founded:
            return ()
        keys = self.first_voters.keys
        return tuple(Record(1, value) for value in (
            LeaderChange(keys[0].node_id, keys, keys), KRaftVersion(1), Voters(self.first_voters)))

    def config(self, node_id: NodeId) -> RaftConfig:
        """Return the configuration of a node. An empty Fetch is answered at once: one that waits is equivalent to one
        that is under way for longer."""
        return RaftConfig(
            key=ReplicaKey(node_id), cluster_id=CLUSTER_ID, endpoints=endpoints(node_id), fetch_max_wait_ms=0,
            static_voters=NO_VOTERS if self.founded else self.first_voters)

    @property
    def hard_state(self) -> HardState:
        return HardState(self.first_epoch)

    @property
    def bounds(self) -> str:
        return (f"{self.nodes} nodes, {self.voters} voters, epochs up to {self.epoch_max}, {self.budget}, "
                f"{self.depth_max} events")


def endpoints(node_id: NodeId) -> tuple[Endpoint, ...]:
    return (Endpoint("CONTROLLER", "node", node_id),)


def voter(node_id: NodeId) -> Voter:
    return Voter(ReplicaKey(node_id), endpoints(node_id))


MODELS: Final[dict[str, Model]] = {model.name: model for model in (
    Model(name="elections", text="leaders, with pre-votes, and previous leaders; nothing is on the disks at the start",
          epoch_max=2, budget=Budget(timeouts=3, crashes=1, losses=1, duplicates=1), depth_max=60,
          late=(VoteRequest, VoteResponse)),
    Model(name="replication", text="what is proposed, replicated, committed, lost unflushed, and cut",
          epoch_max=2, budget=Budget(timeouts=2, crashes=1, proposals=2), depth_max=60,
          late=(FetchRequest, FetchResponse), led=True),
    Model(name="voters", text="a voter is removed, any of them, by way of the log",
          epoch_max=4, budget=Budget(timeouts=3, crashes=1, changes=1), depth_max=60, founded=True, led=True),
    Model(name="joining", text="an observer becomes a voter, or one of two voters is removed, by way of the log",
          voters=2, epoch_max=4, budget=Budget(timeouts=2, crashes=1, changes=1), depth_max=60, founded=True, led=True),
)}
