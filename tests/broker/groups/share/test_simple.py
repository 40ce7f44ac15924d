"""Properties of the assignor `simple`: every partition as often as it must, balance, and nothing moves without need."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from kraft.broker.groups.consumer.member import Partitions
from kraft.broker.groups.share.simple import SharingMember, Spec, assign_simply
from kraft.steps import finish

TOPICS = [UUID(int=number) for number in range(1, 4)]
INDEXES = st.lists(st.integers(0, 6), min_size=1, max_size=5, unique=True).map(lambda each: tuple(sorted(each)))
PREVIOUS = st.dictionaries(st.sampled_from(TOPICS), INDEXES, max_size=3)
COUNTS = st.tuples(*[st.integers(0, 5)] * len(TOPICS))
SUBSETS = st.lists(st.sampled_from(TOPICS), unique=True)


def spec_of(counts: tuple[int, ...], members: list[tuple[list[UUID], Partitions]]) -> Spec:
    made = {f"m{number}": SharingMember(dict.fromkeys(topics), previous)
            for number, (topics, previous) in enumerate(members)}
    return Spec(made, {topic_id: tuple(range(count)) for topic_id, count in zip(TOPICS, counts, strict=True)
                       if any(topic_id in member.topics for member in made.values())})


HOMOGENEOUS = st.builds(lambda counts, previous: spec_of(counts, [(TOPICS, each) for each in previous]),
                        COUNTS, st.lists(PREVIOUS, min_size=1, max_size=12))
ANY = st.builds(spec_of, COUNTS, st.lists(st.tuples(SUBSETS, PREVIOUS), min_size=1, max_size=9))


def assign(spec: Spec) -> dict[str, Partitions]:
    """Return the assignment. Each member is checked to have only partitions that it may have, in order."""
    assigned = finish(assign_simply(spec))
    assert assigned.keys() == spec.members.keys()
    for member_id, partitions in assigned.items():
        for topic_id, indexes in partitions.items():
            assert topic_id in spec.members[member_id].topics
            assert indexes == tuple(sorted(dict.fromkeys(indexes)))
            assert all(index in spec.assignable[topic_id] for index in indexes)
    return assigned


def holders(assigned: dict[str, Partitions]) -> dict[tuple[UUID, int], int]:
    counts: dict[tuple[UUID, int], int] = {}
    for partitions in assigned.values():
        for topic_id, indexes in partitions.items():
            for index in indexes:
                counts[topic_id, index] = counts.get((topic_id, index), 0) + 1
    return counts


@given(HOMOGENEOUS)
def test_each_partition_has_as_many_members_and_each_member_as_many_partitions(spec: Spec) -> None:
    assigned = assign(spec)
    total = sum(map(len, spec.assignable.values()))
    sharing = -(-len(spec.members) // total) if total else 0
    assert sorted(holders(assigned).values()) == [sharing] * total
    sizes = [sum(map(len, each.values())) for each in assigned.values()]
    assert max(sizes) - min(sizes) <= 1


@given(ANY)
def test_topics_are_divided_among_their_subscribers(spec: Spec) -> None:
    assigned = assign(spec)
    if spec.is_homogeneous:
        return
    for topic_id, indexes in spec.assignable.items():
        subscribers = [member_id for member_id, member in spec.members.items() if topic_id in member.topics]
        sizes = [len(assigned[member_id].get(topic_id, ())) for member_id in subscribers]
        if indexes:
            sharing = -(-len(subscribers) // len(indexes))
            assert [holders(assigned)[topic_id, index] for index in indexes] == [sharing] * len(indexes)
            assert max(sizes) - min(sizes) <= 1


@given(ANY)
def test_a_second_run_changes_nothing(spec: Spec) -> None:
    assigned = assign(spec)
    again = Spec({member_id: spec.members[member_id]._replace(previous=assigned[member_id])
                  for member_id in reversed(spec.members)}, spec.assignable)
    assert assign(again) == assigned


@given(COUNTS, st.integers(2, 6))
def test_what_a_member_keeps_is_as_much_as_balance_allows(counts: tuple[int, ...], size: int) -> None:
    """The others keep all that they have when a member leaves and partitions are not shared."""
    spec = spec_of(counts, [(TOPICS, {})] * size)
    assigned = assign(spec)
    if sum(counts) < size:
        return
    left = Spec({member_id: member._replace(previous=assigned[member_id])
                 for member_id, member in spec.members.items() if member_id != "m0"}, spec.assignable)
    after = assign(left)
    for member_id, partitions in after.items():
        for topic_id, indexes in assigned[member_id].items():
            assert dict.fromkeys(indexes).keys() <= dict.fromkeys(partitions.get(topic_id, ())).keys()
