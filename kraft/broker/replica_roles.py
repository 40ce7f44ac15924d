"""What this broker's replicas are: leaders whose in-sync replicas are kept, followers that fetch. Sans-IO."""

from typing import Generic, Protocol, TypeVar
from uuid import UUID

from kraft.broker.isr import IsrKeeper, Key, Replicated
from kraft.metadata.image import NO_LEADER, PartitionRegistration


class Replica(Replicated, Protocol):
    """A partition's replica here (`kraft_native.partition.Partition`)."""

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
        """Fetches it from that leader, from the log end on."""

    def end(self, leader_id: int, key: Key, /) -> None:
        """Fetches it no more, and appends nothing of what is under way."""

    def watch(self, replica: AnyReplica_contra, /) -> None:
        """This broker leads it: who fetches it is watched from now on."""


class ReplicaRoles(Generic[AnyReplica]):
    """`following`: what is fetched, from whom."""

    def __init__(self, node_id: int, keeper: IsrKeeper, fetchers: Fetchers[AnyReplica]) -> None:
        self._node_id = node_id
        self._keeper = keeper
        self._fetchers = fetchers
        self.following: dict[Key, tuple[int, AnyReplica]] = {}

    def lead(self, replica: AnyReplica, registration: PartitionRegistration) -> None:
        """This broker leads; its followers are watched."""
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
        """Another broker leads, or nobody."""
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
        """The replica is no longer here."""
        key = key_of(replica)
        self._keeper.resign(key)
        self.stop_following(key)

    def stop_following(self, key: Key) -> None:
        """Whoever led it is not asked for it any more."""
        known = self.following.pop(key, None)
        if known is not None:
            self._fetchers.end(known[0], key)


def key_of(replica: Replica) -> Key:
    """Topic id and index."""
    return UUID(bytes=replica.topic_id), replica.index
