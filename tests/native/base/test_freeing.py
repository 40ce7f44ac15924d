"""Large objects freed in steps: what is inside of them, and what only a suspended generator owns."""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Generator
from typing import Any, ClassVar, NamedTuple

import pytest

from kraft.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.metadata_response import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from kraft_native.base.freeing import containers_of, free_steps

MANY = 10_000
STEP = 256


class Element:
    """An object that is counted."""

    __slots__ = ("inside",)
    living: ClassVar[int] = 0

    def __init__(self, inside: object = None) -> None:
        self.inside = inside
        Element.living += 1

    def __del__(self) -> None:
        Element.living -= 1


class Pair(NamedTuple):
    name: object
    value: object


def run(held: list[object]) -> int:
    """Free what is in `held`, check that no step frees many elements, and return the number of steps."""
    steps, before = 0, Element.living
    for _ in free_steps(held):
        assert before - Element.living <= STEP
        before = Element.living
        steps += 1
    assert held == [] and before - Element.living <= STEP
    return steps


def test_a_long_message_is_freed_in_steps() -> None:
    """Objects with other references stay unchanged."""
    kept = MetadataResponseTopic(name="kept", partitions=[MetadataResponsePartition() for _ in range(1_000)])
    response = MetadataResponse(topics=[MetadataResponseTopic(name="n") for _ in range(MANY)])
    response.topics[5].partitions = [MetadataResponsePartition() for _ in range(MANY)]
    response.topics[6] = kept
    held: list[object] = [response]
    del response
    assert run(held) >= 2 * MANY // STEP
    assert len(kept.partitions) == 1_000
    inside: list[object] = [CreateTopicsRequest(topics=[CreatableTopic(name="t", configs=[
        CreatableTopicConfig(name="n") for _ in range(MANY)])])]
    assert run(inside) >= MANY // STEP, "a long list in the only element of a short one"
    shared = [FindCoordinatorRequest(coordinator_keys=["k"] * MANY)]
    assert run([shared[0]]) == 0 and len(shared[0].coordinator_keys) == MANY


MAKERS: list[Callable[[], object]] = [
    lambda: [Element() for _ in range(MANY)],
    lambda: {(number, 0): Element() for number in range(MANY)},
    lambda: {Element() for _ in range(MANY)},
    lambda: deque(Element() for _ in range(MANY)),
    lambda: defaultdict(list, {0: [Element() for _ in range(MANY)]}),
    lambda: Counter({Element(): 1 for _ in range(MANY)}),
    lambda: tuple(Element() for _ in range(MANY)),
    lambda: {"topics": {number: Pair(number, {}) for number in range(20)} | {
        "a": Pair(Element(), {"partitions": {number: Pair(Element(), {}) for number in range(MANY)}})}},
    lambda: [Element([Element([Element()] for _ in range(40)) for _ in range(40)]) for _ in range(40)],
    lambda: [Pair("a", Pair("b", Element([[Element()] for _ in range(MANY)])))],
]


@pytest.mark.parametrize("make", MAKERS)
def test_containers_are_freed_in_steps(make: Callable[[], object]) -> None:
    held = [make()]
    count = Element.living
    assert run(held) >= count // STEP > 0
    assert Element.living == 0


# --- what a generator owns


def lengths(work: Generator[None, None, None], before: list[object] | None = None) -> list[int]:
    return sorted(len(each) for each in containers_of(work, before))  # type: ignore[arg-type]


def test_the_local_variables_of_a_suspended_generator_are_found() -> None:
    others = [object() for _ in range(MANY)]

    def inner(given: list[object]) -> Generator[None, None, None]:
        known = dict.fromkeys(range(300))
        for _ in given:
            yield
        assert known

    def outer() -> Generator[None, None, None]:
        names = [str(number) for number in range(400)]
        short = [set(range(500)), "text"]
        closed_over = deque(range(600))
        yield from inner(others)
        assert names and short and len(closed_over) == 600

    work = outer()
    assert lengths(work) == []
    next(work)
    assert lengths(work) == [300, 400, 500, 600], "not the list that the caller has, too"
    held = containers_of(work)
    assert lengths(work) == [], "others refer to them"
    assert lengths(work, held) == [300, 400, 500, 600]
    work.close()
    assert sorted(map(len, held)) == [300, 400, 500, 600]
    assert lengths(work, held) == []


def test_what_a_function_or_an_object_of_the_generator_owns_is_found() -> None:
    class Parts:
        def __init__(self) -> None:
            self.known = {"topics": dict.fromkeys(range(300), "n")}

        def steps(self) -> Generator[None, None, None]:
            yield

    def serve() -> Generator[None, None, None]:
        names = list(range(400))
        parts = Parts()

        def send() -> int:
            return len(names)

        yield from parts.steps()
        assert send()

    work = serve()
    next(work)
    assert lengths(work) == [300, 400]


def test_structs_that_the_generator_owns_are_read() -> None:
    def send(response: MetadataResponse) -> Generator[None, None, None]:
        yield
        yield from encode(response)

    def encode(response: MetadataResponse) -> Generator[None, None, None]:
        yield from response.encode_steps(12)

    work = send(MetadataResponse(topics=[MetadataResponseTopic(name="t") for _ in range(MANY)]))
    assert lengths(work) == [MANY]
    next(work)
    next(work)
    assert lengths(work) == [MANY]


def test_no_more_than_some_objects_are_examined() -> None:
    """Nor the elements of a long container."""
    def work() -> Generator[None, None, None]:
        many: Any = [[[[] for _ in range(30)] for _ in range(30)] for _ in range(30)]
        yield
        assert many

    found = work()
    next(found)
    assert lengths(found) == []
    assert lengths(free_steps([[0] * MANY])) == []  # type: ignore[arg-type]
