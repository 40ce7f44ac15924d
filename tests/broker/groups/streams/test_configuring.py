"""Numbers of partitions of internal topics, and of tasks, for the topics that exist."""

from types import SimpleNamespace
from typing import Any

import pytest

from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.groups.streams.configuring import Configured, StatusCode, configure
from kraft.broker.groups.streams.topology import CopartitionGroup, InternalTopic, Subtopology, Topology


def configured(counts: dict[str, int], *subtopologies: Subtopology) -> Configured:
    topics: Any = SimpleNamespace(partition_count=counts.get)
    return configure(Topology(0, subtopologies), topics)


def tasks(found: Configured) -> dict[str, int]:
    return {each: subtopology.tasks for each, subtopology in found.subtopologies.items()}


def missing(found: Configured) -> dict[str, int]:
    return {each.name: each.partitions for each in found.missing}


def repartition(name: str, partitions: int = 0) -> tuple[InternalTopic, ...]:
    return (InternalTopic(name, partitions),)


def test_numbers_follow_the_widest_input_through_a_chain_in_any_order() -> None:
    chain = [
        Subtopology("c", repartition_source_topics=repartition("r2"), state_changelog_topics=repartition("log")),
        Subtopology("b", repartition_source_topics=repartition("r1"), repartition_sink_topics=("r2",)),
        Subtopology("a", ("one", "two"), repartition_sink_topics=("r1",))]
    for subtopologies in (chain, chain[::-1]):
        found = configured({"one": 3, "two": 5}, *subtopologies)
        assert tasks(found) == {"a": 5, "b": 5, "c": 5}
        assert missing(found) == {"r1": 5, "r2": 5, "log": 5}
        assert found.status is not None
        assert found.status.code is StatusCode.MISSING_INTERNAL_TOPICS


def test_a_number_of_its_own_and_an_existing_topic_count_first() -> None:
    first = Subtopology("a", ("one",), repartition_sink_topics=("r",))
    second = Subtopology("b", repartition_source_topics=repartition("r", 7))
    assert tasks(configured({"one": 3, "r": 7}, first, second)) == {"a": 3, "b": 7}
    assert configured({"one": 3, "r": 7}, first, second).is_ready
    found = configured({"one": 3, "r": 4}, first, second)
    assert found.status is not None
    assert found.status.code is StatusCode.INCORRECTLY_PARTITIONED_TOPICS


def test_missing_source_topics_are_named_up_to_three() -> None:
    found = configured({}, Subtopology("a", ("e", "d", "c", "b", "a")))
    assert found.status == (StatusCode.MISSING_SOURCE_TOPICS, "Source topics a, b, c and 2 more are missing.")
    assert not found.subtopologies


JOINED = CopartitionGroup(source_topics=(0,), repartition_source_topics=(0,))


def joined(own: int = 0) -> tuple[Subtopology, Subtopology]:
    """Return a subtopology that writes `r`, and one that joins it with `two`."""
    return (Subtopology("a", ("one",), repartition_sink_topics=("r",)),
            Subtopology("b", ("two",), repartition_source_topics=repartition("r", own), copartition_groups=(JOINED,)))


def test_a_repartition_topic_takes_the_number_of_the_topic_it_is_joined_with() -> None:
    assert missing(configured({"one": 3, "two": 6}, *joined())) == {"r": 6}
    found = configured({"one": 3, "two": 6}, *joined(own=4))
    assert found.status is not None
    assert "[4] of repartition topic [r]" in found.status.detail


def test_source_topics_that_are_joined_need_the_same_number() -> None:
    group = CopartitionGroup(source_topics=(0, 1))
    subtopology = Subtopology("a", ("one", "two"), copartition_groups=(group,))
    assert configured({"one": 2, "two": 2}, subtopology).is_ready
    found = configured({"one": 2, "two": 3}, subtopology)
    assert found.status == (StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                            "Following topics do not have the same number of partitions: [one=2, two=3]")


def test_repartition_topics_that_are_joined_take_the_widest_or_the_fixed_number() -> None:
    def topology(own: int) -> list[Subtopology]:
        group = CopartitionGroup(repartition_source_topics=(0, 1))
        return [Subtopology("a", ("one",), repartition_sink_topics=("r1",)),
                Subtopology("b", ("two",), repartition_sink_topics=("r2",)),
                Subtopology("c", repartition_source_topics=(InternalTopic("r1"), InternalTopic("r2", own)),
                            copartition_groups=(group,))]

    assert missing(configured({"one": 3, "two": 6}, *topology(0))) == {"r1": 6, "r2": 6}
    assert missing(configured({"one": 3, "two": 6}, *topology(2))) == {"r1": 2, "r2": 2}


@pytest.mark.parametrize("subtopologies", [
    (Subtopology("a", repartition_source_topics=repartition("r"), repartition_sink_topics=("r",)),),
    (Subtopology("a", ("one",)), Subtopology("b", repartition_source_topics=repartition("r"))),
    (Subtopology("a"),),
])
def test_what_no_topics_could_fit_is_refused(subtopologies: tuple[Subtopology, ...]) -> None:
    with pytest.raises(RefusedError):
        configured({"one": 1}, *subtopologies)


def test_a_long_chain_takes_few_steps() -> None:
    """Each subtopology has two turns at most, whatever their order."""
    length = 600
    looked_up = 0

    def partition_count(name: str) -> int | None:
        nonlocal looked_up
        looked_up += 1
        return 4 if name == "one" else None

    chain = [Subtopology("s0", ("one",), repartition_sink_topics=("r1",))]
    chain += (Subtopology(f"s{at}", repartition_source_topics=repartition(f"r{at}"), repartition_sink_topics=(
        f"r{at + 1}",)) for at in range(1, length))
    chain.append(Subtopology("end", repartition_source_topics=repartition(f"r{length}")))
    topics: Any = SimpleNamespace(partition_count=partition_count)
    found = configure(Topology(0, tuple(reversed(chain))), topics)
    assert set(tasks(found).values()) == {4}
    assert looked_up < 10 * length
