"""Value classes behave as frozen dataclasses, and mutable ones as dataclasses with slots."""

from dataclasses import dataclass, field, fields, replace
from typing import ClassVar

import pytest

from kraft.structs import immutable, is_immutable, mutable


@immutable
class Span:
    start: int
    end: int = 7


@immutable(kw_only=True)
class Named(Span):
    name: str = ""


@immutable
class Nothing:
    pass


@immutable
class Own:
    number: int

    def __repr__(self) -> str:
        return "mine"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own)

    __hash__ = None  # type: ignore[assignment]


def test_values_are_compared_hashed_and_shown_by_their_fields() -> None:
    assert Span(1) == Span(1, 7)
    assert Span(1) != Span(2)
    assert hash(Span(1)) == hash(Span(1, 7))
    assert repr(Span(1)) == "Span(start=1, end=7)"
    assert len({Nothing(), Nothing()}) == 1
    assert repr(Nothing()) == "Nothing()"


def test_another_class_is_another_value() -> None:
    assert Named(start=1, end=7) != Span(1, 7)
    assert repr(Named(start=1, name="a")) == "Named(start=1, end=7, name='a')"


def test_a_copy_with_changes() -> None:
    assert replace(Named(start=1, name="a"), end=9) == Named(start=1, end=9, name="a")


def test_a_class_keeps_the_methods_that_it_has_itself() -> None:
    assert repr(Own(1)) == "mine"
    assert Own(1) == Own(2)
    with pytest.raises(TypeError, match="unhashable"):
        hash(Own(1))


def test_there_is_no_place_for_other_fields() -> None:
    with pytest.raises(AttributeError):
        Span(1).other = 2  # type: ignore[attr-defined]


def test_different_values_are_not_equal() -> None:
    @dataclass(frozen=True)
    class Frozen:
        number: int

    assert is_immutable(Span)
    assert not is_immutable(Frozen)


def test_a_class_creates_its_methods_with_its_first_instance() -> None:
    @immutable
    class Late:
        first: int
        second: int = 2
        shared: ClassVar[int] = 3

    assert "__dataclass_fields__" in vars(Late)
    assert not isinstance(vars(Late)["__dataclass_fields__"], dict)
    assert Late(1).second == 2
    assert [each.name for each in fields(Late)] == ["first", "second"]
    assert isinstance(vars(Late)["__dataclass_fields__"], dict)
    assert Late.shared == 3


def test_what_describes_a_class_exists_before_its_first_instance() -> None:
    @immutable
    class Described:
        first: int
        second: list[int] = field(default_factory=list)

    @immutable
    class Matched(Described):
        third: int = 3

    assert [each.name for each in fields(Matched)] == ["first", "second", "third"]
    assert Matched.__match_args__ == ("first", "second", "third")  # type: ignore[attr-defined]
    match Described(1, [2]):
        case Described(first, second):
            assert (first, second) == (1, [2])
    assert Matched(1).second is not Matched(1).second


def test_a_wrong_argument_is_refused_also_the_first_time() -> None:
    @immutable
    class Strict:
        number: int

    for _ in range(2):
        with pytest.raises(TypeError, match=r"__init__\(\) got an unexpected keyword argument 'other'"):
            Strict(number=1, other=2)  # type: ignore[call-arg]


def test_a_class_checks_its_fields_after_they_are_set() -> None:
    @immutable
    class Checked:
        number: int

        def __post_init__(self) -> None:
            if self.number < 0:
                raise ValueError(self.number)

    assert Checked(1).number == 1
    with pytest.raises(ValueError, match="-1"):
        Checked(-1)


@mutable
class Counter:
    name: str
    count: int = 0


@mutable(eq=False, kw_only=True)
class Waiting:
    name: str


def test_a_mutable_class_is_compared_by_its_fields_and_cannot_be_hashed() -> None:
    counter = Counter("a")
    counter.count += 1
    assert counter == Counter("a", 1)
    assert counter != Counter("a")
    assert repr(counter) == "Counter(name='a', count=1)"
    assert not is_immutable(Counter)
    with pytest.raises(TypeError, match="unhashable"):
        hash(counter)
    with pytest.raises(AttributeError):
        counter.other = 2  # type: ignore[attr-defined]


def test_a_mutable_class_may_be_compared_by_identity() -> None:
    one = Waiting(name="a")
    assert one != Waiting(name="a")
    assert len({one, one}) == 1
    assert repr(one) == "Waiting(name='a')"
