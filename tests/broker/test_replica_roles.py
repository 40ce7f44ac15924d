"""The role of a replica follows the leader that the metadata names."""

from kraft.broker.isr import IsrKeeper, Key
from kraft.broker.replica_roles import ReplicaRoles
from kraft.metadata.image import NO_LEADER, PartitionRegistration
from tests.broker.test_isr import EPOCHS, KEY, TOPIC, Led, registration


class FakeReplica(Led):
    """`roles_given`: the roles that it was given."""

    topic_id, index, leader_epoch = TOPIC.bytes, 0, -1

    def __init__(self) -> None:
        super().__init__()
        self.roles_given: list[tuple[object, ...]] = []

    def become_leader(self, leader_epoch: int, *, node_id: int, replicas: tuple[int, ...], isr: tuple[int, ...],
                      maximal: tuple[int, ...]) -> None:
        self.leader_epoch = leader_epoch
        self.roles_given.append(("leads", isr, maximal))

    def become_follower(self, leader_epoch: int, leader_id: int) -> None:
        self.leader_epoch = leader_epoch
        self.roles_given.append(("follows", leader_id))


class Bench:
    """`fetched`: what began and ended, in order."""

    def __init__(self) -> None:
        self.fetched: list[tuple[str, int]] = []
        self.keeper = IsrKeeper(1, lambda request: None, EPOCHS.get)
        self.roles: ReplicaRoles[FakeReplica] = ReplicaRoles(1, self.keeper, self)
        self.replica = FakeReplica()

    def begin(self, leader_id: int, _key: Key, _replica: FakeReplica) -> None:
        self.fetched.append(("begin", leader_id))

    def end(self, leader_id: int, _key: Key) -> None:
        self.fetched.append(("end", leader_id))

    def watch(self, replica: FakeReplica) -> None:
        replica.roles_given.append(("watches",))


def led_by(leader: int, leader_epoch: int) -> PartitionRegistration:
    return PartitionRegistration((1, 2, 3), (TOPIC,) * 3, (1, 2, 3), leader, leader_epoch, leader_epoch)


def test_a_proposal_counts_apart_from_what_is_committed() -> None:
    """The metadata reports a state that the controller already answered with, and a proposal is based on it already."""
    bench = Bench()
    bench.roles.lead(bench.replica, registration((1, 2)))
    assert bench.keeper.caught_up(KEY, 3)
    bench.replica.roles_given.clear()
    bench.roles.lead(bench.replica, registration((1, 2)))
    assert bench.replica.roles_given == [("leads", (1, 2), (1, 2, 3)), ("watches",)]


def test_the_followed_broker_changes_with_the_leader_and_the_epoch() -> None:
    bench = Bench()
    for leader, epoch in ((2, 1), (2, 1), (2, 2), (3, 3), (NO_LEADER, 4), (3, 5)):
        bench.roles.follow(bench.replica, led_by(leader, epoch))
    bench.roles.lead(bench.replica, led_by(1, 6))
    bench.roles.remove(bench.replica)
    assert bench.fetched == [("begin", 2), ("end", 2), ("begin", 2), ("end", 2), ("begin", 3), ("end", 3),
                             ("begin", 3), ("end", 3)]
    assert bench.roles.following == {}
