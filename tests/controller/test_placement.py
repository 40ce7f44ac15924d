"""Placement of new partitions: even, on as many racks as possible, and led by brokers that live."""

from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kraft.controller import partitions, placement
from kraft.controller.decision import STEP, RefusedError
from kraft.controller.partitions import placed_partitions
from kraft.controller.placement import Ring, ring_of
from kraft.metadata.delta import MetadataDelta
from kraft.metadata.image import EMPTY, BrokerRegistration
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kraft.protocol.messages.register_broker_record import RegisterBrokerRecord
from kraft.steps import finish
from tests.controller.world import World


def broker(broker_id: int, rack: str | None = None, *, fenced: bool = False,
           leaves: bool = False, cordoned: bool = False) -> BrokerRegistration:
    delta = MetadataDelta(EMPTY)
    directory = UUID(int=1000 + broker_id)
    delta.replay(RegisterBrokerRecord(
        broker_id=broker_id, broker_epoch=1, rack=rack, fenced=fenced, in_controlled_shutdown=leaves,
        log_dirs=[directory], cordoned_log_dirs=[directory] if cordoned else None))
    return delta.finish(0, 0, 0).brokers[broker_id]


def place(ring: Sequence[BrokerRegistration], partitions: int, replicas: int,
          rotation: int) -> list[tuple[int, ...]]:
    """Return the outcome of all steps. None places more partitions than a step may."""
    steps = placement.place(Ring(ring), partitions, replicas, rotation)
    count = 1
    while True:
        try:
            next(steps)
        except StopIteration as end:
            assert count > partitions // STEP
            found: list[tuple[int, ...]] = end.value
            return found
        count += 1


def spread(counts: Counter[int]) -> int:
    return max(counts.values()) - min(counts.values())


@st.composite
def shapes(draw: st.DrawFn) -> tuple[list[BrokerRegistration], int, int, int]:
    """Brokers without racks, or in racks of one size; partitions, replicas, rotation."""
    racks = draw(st.integers(0, 4))
    count = draw(st.integers(1, 9)) if not racks else racks * draw(st.integers(1, 3))
    ring = [broker(broker_id, f"rack {broker_id % racks}" if racks else None) for broker_id in range(count)]
    return ring, draw(st.integers(1, 40)), draw(st.integers(1, count)), draw(st.integers(0, 1 << 40))


def plain(brokers: int, partitions: int, replicas: int) -> tuple[list[BrokerRegistration], int, int, int]:
    """A shape without racks."""
    return [broker(broker_id) for broker_id in range(brokers)], partitions, replicas, 0


@given(shapes())
@example(plain(5, 10, 3))
@example(plain(3, 3, 2))               # even only when leaderships move
def test_replicas_and_leaders_are_even(shape: tuple[list[BrokerRegistration], int, int, int]) -> None:
    ring, partitions, replicas, rotation = shape
    found = place(ring, partitions, replicas, rotation)
    counts, leaders = (Counter({each.broker_id: 0 for each in ring}) for _ in range(2))
    names = {each.broker_id: each.rack for each in ring}
    for chosen in found:
        assert len(dict.fromkeys(chosen)) == replicas
        counts.update(chosen)
        leaders[chosen[0]] += 1
        racks = Counter(dict.fromkeys(names.values(), 0))
        racks.update(names[broker_id] for broker_id in chosen)
        assert spread(racks) <= 1
    assert len(found) == partitions
    assert spread(counts) <= 1
    assert spread(leaders) <= 1


@given(st.lists(st.tuples(st.sampled_from(("a", "b", "c")), st.booleans()), min_size=1, max_size=9),
       st.integers(1, 20), st.integers(1, 9), st.integers(0, 1000))
def test_any_brokers_get_partitions_that_are_led(
    kinds: list[tuple[str, bool]], partitions: int, replicas: int, rotation: int,
) -> None:
    ring = [broker(broker_id, rack, fenced=fenced) for broker_id, (rack, fenced) in enumerate(kinds)]
    if replicas > len(ring) or all(each.fenced for each in ring):
        with pytest.raises(RefusedError) as refused:
            place(ring, partitions, replicas, rotation)
        assert refused.value.error == ErrorCode.INVALID_REPLICATION_FACTOR
        return
    for chosen in place(ring, partitions, replicas, rotation):
        assert len(dict.fromkeys(chosen)) == replicas
        assert not ring[chosen[0]].fenced
        racks = {ring[broker_id].rack: None for broker_id in chosen}
        assert len(racks) == min(replicas, len({each.rack: None for each in ring}))
        for rack in racks:             # a fenced broker only where every other one of its rack is used
            if any(ring[broker_id].fenced for broker_id in chosen if ring[broker_id].rack == rack):
                assert all(each.broker_id in chosen for each in ring if each.rack == rack and not each.fenced)


def neighbours(found: Sequence[Sequence[int]], broker_id: int) -> Counter[int]:
    return Counter(other for chosen in found if broker_id in chosen for other in chosen if other != broker_id)


def test_a_failed_brokers_load_falls_on_all_others() -> None:
    found = place([broker(broker_id) for broker_id in range(5)], 60, 2, 0)
    for broker_id in range(5):
        assert len(neighbours(found, broker_id)) == 4


def test_small_topics_do_not_all_begin_at_one_broker() -> None:
    ring = [broker(broker_id) for broker_id in range(4)]
    for step in (1, 2, 3, 4):
        first = Counter(place(ring, 1, 1, rotation)[0][0] for rotation in range(0, 400 * step, step))
        assert len(first) == 4
        assert min(first.values()) > 50


@given(st.lists(st.tuples(st.sampled_from(("a", "b", "c")), st.booleans()), min_size=1, max_size=8),
       st.integers(1, 3), st.integers(1, 3), st.integers(0, 1 << 40))
def test_small_topics_of_a_request_are_placed_as_each_alone(
    kinds: list[tuple[str, bool]], partitions: int, replicas: int, first: int,
) -> None:
    brokers = {0: broker(0), **{broker_id: broker(broker_id, rack, fenced=fenced)
                                for broker_id, (rack, fenced) in enumerate(kinds, 1)}}
    replicas = min(replicas, len(brokers))
    context: Any = SimpleNamespace(image=SimpleNamespace(brokers=brokers),
                                   is_active=lambda broker_id: brokers[broker_id].active)
    ring = ring_of(brokers)
    for rotation in range(first, first + 200):
        together = finish(placed_partitions(context, ring, 4, partitions, replicas, rotation))
        alone = finish(placement.place(ring_of(brokers), partitions, replicas, rotation))
        assert [each.replicas for each in together.values()] == alone
        assert list(together) == list(range(4, 4 + partitions))
    assert len(ring.known) <= ring.period


def test_large_topics_are_not_kept() -> None:
    brokers = {0: broker(0)}
    context: Any = SimpleNamespace(image=SimpleNamespace(brokers=brokers), is_active=lambda _id: True)
    ring = ring_of(brokers)
    for count in (STEP + 1, STEP):
        assert len(finish(placed_partitions(context, ring, 0, count, 1, 0))) == count
    assert list(ring.known) == [(STEP, 1, 0)]


def test_so_many_places_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "KNOWN_MAX", 3)
    brokers = {broker_id: broker(broker_id) for broker_id in range(20)}
    context: Any = SimpleNamespace(image=SimpleNamespace(brokers=brokers), is_active=lambda _id: True)
    ring = ring_of(brokers)
    for rotation in range(0, 5_000_000, 100_000):
        assert len(finish(placed_partitions(context, ring, 0, 1, 1, rotation))) == 1
        assert len(ring.known) <= 3


def test_which_brokers_count() -> None:
    ring = ring_of({each.broker_id: each for each in (
        broker(4, fenced=True, leaves=True), broker(6, "r"), broker(5, cordoned=True), broker(3, leaves=True),
        broker(2, fenced=True), broker(1))})
    assert (ring.count, ring.unfenced) == (4, [1, 6])
    assert ring.racks == [([1], [2, 4]), ([6], [])]


def test_a_topic_on_all_brokers_while_one_of_them_is_stopped() -> None:
    world = World()
    world.join(1, 2, 3)
    world.send(CreateTopicsRequest(topics=[CreatableTopic(name="before", num_partitions=3, replication_factor=3)]))
    world.beat(2, want_shut_down=True)
    for other in (1, 3):
        world.beat(other)
    assert world.beat(2, want_shut_down=True).should_shut_down
    assert world.image.brokers[2].fenced
    made = world.send(CreateTopicsRequest(topics=[
        CreatableTopic(name="__consumer_offsets", num_partitions=4, replication_factor=3)]))
    assert made.topics[0].error_code == ErrorCode.NONE
    for index in range(4):
        partition = world.partition("__consumer_offsets", index)
        assert sorted(partition.replicas) == [1, 2, 3]
        assert sorted(partition.isr) == [1, 3]
        assert partition.leader in (1, 3)
