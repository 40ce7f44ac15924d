"""Properties of `uniform` and `range`: every partition once, balance, and that nothing moves without need."""

import time
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.broker.groups.consumer.assignors import ASSIGNORS
from kraft.broker.groups.consumer.assignors.spec import STEP, AssignedMember, Spec
from kraft.broker.groups.consumer.member import Partitions
from kraft.steps import finish

TOPICS = [UUID(int=number) for number in range(1, 5)]
INDEXES = st.lists(st.integers(0, 9), min_size=1, max_size=5, unique=True).map(lambda each: tuple(sorted(each)))
PREVIOUS = st.dictionaries(st.sampled_from(TOPICS), INDEXES, max_size=4)
COUNTS = st.tuples(*[st.integers(0, 8)] * len(TOPICS))
SUBSETS = st.lists(st.sampled_from(TOPICS), unique=True)


def spec_of(counts: tuple[int, ...], members: list[tuple[list[UUID], Partitions]]) -> Spec:
    made = {f"m{number}": AssignedMember(None, dict.fromkeys(topics), previous)
            for number, (topics, previous) in enumerate(members)}
    return Spec(made, {topic_id: count for topic_id, count in zip(TOPICS, counts, strict=True)
                       if any(topic_id in member.topics for member in made.values())})


def sizes(assigned: dict[str, Partitions]) -> dict[str, int]:
    return {member_id: sum(map(len, partitions.values())) for member_id, partitions in assigned.items()}


def assign(name: str, spec: Spec) -> dict[str, Partitions]:
    """Return the assignment, whose every partition is checked to have one member that subscribes to it."""
    assigned = dict(finish(ASSIGNORS[name](spec)))
    assert assigned.keys() == spec.members.keys()
    seen = [(topic_id, index) for partitions in assigned.values()
            for topic_id, indexes in partitions.items() for index in indexes]
    assert sorted(seen) == [(topic_id, index) for topic_id in sorted(spec.partition_counts)
                            for index in range(spec.partition_counts[topic_id])]
    for member_id, partitions in assigned.items():
        assert all(topic_id in spec.members[member_id].topics and indexes for topic_id, indexes in partitions.items())
    return assigned


HOMOGENEOUS = st.builds(lambda counts, previous: spec_of(counts, [(TOPICS, each) for each in previous]),
                        COUNTS, st.lists(PREVIOUS, min_size=1, max_size=6))
ANY = st.builds(spec_of, COUNTS, st.lists(st.tuples(SUBSETS, PREVIOUS), min_size=1, max_size=6))


@given(HOMOGENEOUS)
def test_uniform_is_balanced_to_within_one(spec: Spec) -> None:
    assigned = assign("uniform", spec)
    assert max(sizes(assigned).values()) - min(sizes(assigned).values()) <= 1


@given(ANY)
def test_no_single_move_makes_uniform_more_even(spec: Spec) -> None:
    assigned = assign("uniform", spec)
    counts = sizes(assigned)
    for member_id, partitions in assigned.items():
        for topic_id in partitions:
            for other_id, other in spec.members.items():
                assert topic_id not in other.topics or counts[member_id] - counts[other_id] <= 1


@given(ANY)
def test_uniform_is_stable_kafka_18688(spec: Spec) -> None:
    """A second run changes nothing, in whichever order the members come."""
    assigned = assign("uniform", spec)
    again = Spec({member_id: spec.members[member_id]._replace(previous=assigned[member_id])
                  for member_id in reversed(spec.members)}, spec.partition_counts)
    assert assign("uniform", again) == assigned


@given(HOMOGENEOUS)
def test_uniform_moves_no_more_than_it_has_to(spec: Spec) -> None:
    """Only what a leaving member had moves."""
    assigned = assign("uniform", spec)
    left = Spec({member_id: member._replace(previous=assigned[member_id])
                 for member_id, member in spec.members.items() if member_id != "m0"}, spec.partition_counts)
    if left.members:
        after = assign("uniform", left)
        kept = [len(set(assigned[member_id].get(topic_id, ())) & set(indexes))
                for member_id, partitions in after.items() for topic_id, indexes in partitions.items()]
        assert sum(kept) == sum(sizes(assigned).values()) - sizes(assigned)["m0"]


@given(ANY)
def test_range_gives_runs_of_partitions(spec: Spec) -> None:
    assigned = assign("range", spec)
    for topic_id, count in spec.partition_counts.items():
        subscribers = [member_id for member_id in spec.ordered() if topic_id in spec.members[member_id].topics]
        runs = [assigned[member_id].get(topic_id, ()) for member_id in subscribers]
        assert [index for run in runs for index in run] == list(range(count))
        assert max(map(len, runs)) - min(map(len, runs)) <= 1


def test_static_members_keep_their_place() -> None:
    members = {"z": AssignedMember("a", {TOPICS[0]: None}, {}), "b": AssignedMember(None, {TOPICS[0]: None}, {}),
               "a": AssignedMember("b", {TOPICS[0]: None}, {})}
    assert Spec(members, {TOPICS[0]: 3}).ordered() == ["z", "a", "b"]


@pytest.mark.parametrize("name", list(ASSIGNORS))
@pytest.mark.parametrize("homogeneous", [True, False])
def test_large_groups_take_many_short_steps(name: str, homogeneous: bool) -> None:
    topics = {UUID(int=number): None for number in range(1, 51)}
    some = dict.fromkeys(list(topics)[:25])
    spec = Spec({f"m{number}": AssignedMember(None, topics if homogeneous or number % 2 else some, {})
                 for number in range(500)}, dict.fromkeys(topics, 100))
    steps, longest = 0, 0.0
    work = ASSIGNORS[name](spec)
    try:
        while True:
            began = time.thread_time()
            next(work)
            longest = max(longest, time.thread_time() - began)
            steps += 1
    except StopIteration:
        pass
    assert steps >= 5_000 // STEP // 2
    assert longest < 0.05
