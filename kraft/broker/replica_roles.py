"""Roles of this broker's replicas: leaders with their in-sync replicas, followers that fetch. Sans-IO."""

from typing import Generic, Protocol, TypeVar
from uuid import UUID

from kraft.broker.isr import IsrKeeper, Key, Replicated
from kraft.metadata.image import NO_LEADER, PartitionRegistration


class Replica(Replicated, Protocol):
    """Local replica of a partition (`kraft_native.partition.partition.Partition`)."""

    @property
    def topic_id(self) -> bytes: ...
    @property
    def index(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...

    def become_leader(self, leader_epoch: int, *, node_id: int, replicas: tuple[int, ...],
                      isr: tuple[int, ...], maximal: tuple[int, ...]) -> None: ...
    def become_follower(self, leader_epoch: int, leader_id: int) -> None: ...


AnyReplica = TypeVar("AnyReplica", bound=Replica)
AnyReplica_contra = TypeVar("AnyReplica_contra", bound=Replica, contravariant=True)


class Fetchers(Protocol[AnyReplica_contra]):
    """The connections to leaders."""

    def begin(self, leader_id: int, key: Key, replica: AnyReplica_contra, /) -> None:
        """Start to fetch the replica from that leader, from its log end."""

    def end(self, leader_id: int, key: Key, /) -> None:
        """Stop fetching the replica and append nothing of the fetches in flight."""

    def watch(self, replica: AnyReplica_contra, /) -> None:
        """Start to watch the followers of a replica that this broker leads."""


class ReplicaRoles(Generic[AnyReplica]):
    """Roles of all local replicas. `following` holds each fetched replica with its leader's id."""

    def __init__(self, node_id: int, keeper: IsrKeeper, fetchers: Fetchers[AnyReplica]) -> None:
        self._node_id = node_id
        self._keeper = keeper
        self._fetchers = fetchers
        self.following: dict[Key, tuple[int, AnyReplica]] = {}

    def lead(self, replica: AnyReplica, registration: PartitionRegistration) -> None:
        """Make this broker the leader and watch the followers."""
        key = key_of(replica)
        self.stop_following(key)
        if self._keeper.knows_newer(key, registration):
            return
        replica.become_leader(registration.leader_epoch, node_id=self._node_id, replicas=registration.replicas,
                              isr=registration.isr, maximal=self._keeper.maximal(key, registration))
        self._keeper.lead(key, replica, registration)
        self._fetchers.watch(replica)
        self._keeper.recovered(key)

    def follow(self, replica: AnyReplica, registration: PartitionRegistration) -> None:
        """Follow another leader, or none."""
        key = key_of(replica)
        self._keeper.resign(key)
        known = self.following.get(key)
        if (known is not None and known[0] == registration.leader
                and replica.leader_epoch == registration.leader_epoch):
            return
        self.stop_following(key)
        replica.become_follower(registration.leader_epoch, registration.leader)
        if registration.leader != NO_LEADER:
            self.following[key] = registration.leader, replica
            self._fetchers.begin(registration.leader, key, replica)

    def remove(self, replica: AnyReplica) -> None:
        """Drop a replica that is removed from this broker."""
        key = key_of(replica)
        self._keeper.resign(key)
        self.stop_following(key)

    def stop_following(self, key: Key) -> None:
        """Stop fetching from the previous leader."""
        known = self.following.pop(key, None)
        if known is not None:
            self._fetchers.end(known[0], key)


def key_of(replica: Replica) -> Key:
    """Return topic id and index."""
    return UUID(bytes=replica.topic_id), replica.index
