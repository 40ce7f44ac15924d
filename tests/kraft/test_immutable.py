"""Value classes behave as frozen dataclasses."""

from dataclasses import dataclass, replace

import pytest

from kraft.immutable import immutable, is_immutable


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
