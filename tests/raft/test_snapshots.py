"""Snapshots whose check takes long: the replica waits for it, and does not campaign meanwhile."""

from collections.abc import Callable

import pytest

from kraft.raft.messages import FetchRequest, FetchSnapshotRequest
from kraft.raft.transitions import Role
from kraft.raft.types import OffsetAndEpoch
from kraft_native.base.errors import CorruptRecordError
from tests.raft.scenario import Story
from tests.raft.world import World

BEHIND = ("quorum 1 2 3", "elect 1", "partition 1,2 3", "propose 1 a b c", "deliver", "snapshot 1", "trim 1",
          "propose 1 d", "deliver", "heal")


class Slow:
    """A quorum whose node 3 has fetched a snapshot, and checks it until the test says that it is done."""

    def __init__(self, fails: bool = False) -> None:
        story = Story()
        for line in BEHIND:
            story.run(line)
        self.world: World = story.world
        self.is_done = False
        self.calls = 0
        snapshots = self.world.nodes[3].snapshots
        install: Callable[[], bool] = snapshots.install

        def checked() -> bool:
            self.calls += 1
            if not self.is_done:
                return False
            if fails:
                raise CorruptRecordError("it cannot be decoded")
            return install()

        snapshots.install = checked  # type: ignore[method-assign]
        while not self.calls:
            self.pass_ms(50)

    def pass_ms(self, time_ms: int) -> None:
        self.world.now_ms += time_ms
        for node_id in (1, 2, 3):
            self.world.raft(node_id).tick(self.world.now_ms)
            self.world.settle(node_id)
        self.world.deliver()

    def sent_by_3(self) -> list[type]:
        kinds: list[type] = []
        self.world.watch = lambda packet: kinds.append(type(packet.message)) if packet.sender == 3 else None
        self.pass_ms(50)
        return kinds


def test_nothing_is_sent_until_the_snapshot_is_checked() -> None:
    slow = Slow()
    assert not {FetchRequest, FetchSnapshotRequest} & set(slow.sent_by_3())
    assert slow.world.nodes[3].installed is None
    slow.is_done = True
    assert FetchRequest in slow.sent_by_3()
    assert slow.world.nodes[3].installed == OffsetAndEpoch(6, 1)
    assert slow.world.raft(3).replica.log.end == OffsetAndEpoch(7, 1)


def test_a_snapshot_that_is_refused_after_its_check_is_fetched_again() -> None:
    slow = Slow(fails=True)
    slow.is_done = True
    slow.pass_ms(50)
    slow.pass_ms(500)
    slow.pass_ms(500)
    assert slow.calls > 2
    assert slow.world.nodes[3].installed is None


@pytest.mark.parametrize("leader_dies", [False, True])
def test_a_check_outlasts_the_fetch_time_out(leader_dies: bool) -> None:
    """The role stays, and with it the snapshot; another voter is not kept from leading."""
    slow = Slow()
    if leader_dies:
        slow.world.crash(1)
        slow.world.now_ms += 3 * slow.world.raft(3).replica.config.fetch_timeout_ms
        slow.world.raft(3).tick(slow.world.now_ms)
        assert slow.world.role(3) is Role.FOLLOWER
        slow.world.time_out(2)
        slow.world.deliver()
        assert slow.world.leader() == 2
        return
    for _ in range(100):
        slow.pass_ms(50)
        assert slow.world.role(3) is Role.FOLLOWER
    slow.is_done = True
    before = len(slow.world.events)
    slow.pass_ms(50)
    assert slow.world.nodes[3].installed == OffsetAndEpoch(6, 1)
    assert not [each for each in slow.world.events[before:] if "Prospective" in each]
