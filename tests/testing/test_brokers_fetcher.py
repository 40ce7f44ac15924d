"""The model of a follower's retries: answers about the bounds of the leader's log that come late."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kraft.broker.isr import Key
from kraft.broker.replica_roles import key_of
from kraft.protocol.error_codes import ErrorCode
from kraft.testing.brokers.fetcher import Fetcher
from kraft.testing.brokers.messages import Bounds, BoundsAre
from kraft.testing.sim.options import Options
from kraft_native.partition.partition import Partition
from tests.native.logs import batch
from tests.native.serving import Node

LEADER, FOLLOWER = 1, 2


class Follower:
    """Broker 2, which cannot connect to the leader. `run` ends its pauses, `answer` gives the answer to its query."""

    def __init__(self, partition: Partition) -> None:
        self.id = FOLLOWER
        self.epoch = 0
        self.options = Options()
        self.partition = partition
        self.following: dict[Key, tuple[int, Partition]] = {key_of(partition): (LEADER, partition)}
        self.fetcher = Fetcher(self, LEADER)
        self.pauses: list[Callable[[], None]] = []
        self.answer: Callable[[object], object] = lambda _: None
        self.queries = 0

    def open_to_peer(self, *_: object) -> None:
        """Refuse a connection."""

    def send_to_peer(self, target_id: int, lane: str, body: object, answered: Callable[[object], object]) -> None:
        assert (target_id, lane, body) == (LEADER, "bounds", Bounds(key_of(self.partition), 0))
        self.queries += 1
        self.answer = answered

    def later(self, _delay_ms: int, function: Callable[..., None], *arguments: Any) -> None:
        self.pauses.append(partial(function, *arguments))

    def count(self, _name: str) -> None:
        """Count nothing."""

    def was_cut(self, _partition: Partition) -> None:
        raise AssertionError("only a fetch cuts by epochs")

    def run(self) -> None:
        pauses, self.pauses = self.pauses, []
        for end in pauses:
            end()


@pytest.fixture
def follower(tmp_path: Path) -> Iterator[Follower]:
    """A follower with two batches of two records whose fetch was answered with OFFSET_OUT_OF_RANGE."""
    node = Node(tmp_path)
    partition = node.partition(leader=False, high_watermark="manual")
    partition.become_follower(0, LEADER)
    for _ in range(2):
        partition.log.append_as_follower(batch(2, base_offset=partition.log.log_end_offset, leader_epoch=0))
    made = Follower(partition)
    made.fetcher._failed(partition, ErrorCode.OFFSET_OUT_OF_RANGE, None)
    yield made
    made.fetcher.close()
    node.close()
    vars(made).clear()             # they refer to each other


@pytest.mark.parametrize(("bounds", "end"), [((0, 2), 2), ((9, 12), 9), ((0, 4), 4)])
def test_the_log_end_is_placed_inside_the_leaders_log(
        follower: Follower, bounds: tuple[int, int], end: int) -> None:
    follower.run()
    follower.answer(BoundsAre(ErrorCode.NONE, *bounds))
    assert follower.partition.log.log_end_offset == end
    assert list(follower.fetcher.followed.values()) == [follower.partition]


@pytest.mark.parametrize("epoch", [0, 1])
def test_an_outdated_answer_places_nothing(follower: Follower, epoch: int) -> None:
    """Records were fetched meanwhile, in another leader epoch or over another connection. The leader counts them."""
    follower.run()
    follower.partition.become_follower(epoch, LEADER)
    follower.partition.log.append_as_follower(batch(2, base_offset=4, leader_epoch=epoch))
    follower.answer(BoundsAre(ErrorCode.NONE, 0, 2))
    assert follower.partition.log.log_end_offset == 6
    assert follower.pauses == []


def test_a_log_that_is_closed_fails_the_attempt(follower: Follower) -> None:
    """Its directory has failed. The real driver tries again after a pause."""
    follower.partition.log.close()
    follower.run()
    follower.answer(BoundsAre(ErrorCode.NONE, 0, 2))
    assert (len(follower.pauses), follower.queries) == (1, 1)
