"""A bug can only replace something that exists, and must be callable in the same way."""

import pytest

from kraft.testing.mutants.patches import Patches


class Owner:
    def __init__(self) -> None:
        self.held = 1

    def call(self, first: int, *, named: int = 0) -> int:
        return first + named


def test_patches_are_reverted() -> None:
    patches = Patches()
    before = Owner.call
    patches.put(Owner, "call", lambda _owner, first, *, named=0: -first - named)
    patches.shadow(Owner, "held", property(lambda _owner: 2, lambda _owner, _value: None))
    assert (Owner().call(1, named=2), Owner().held) == (-3, 2)
    patches.undo()
    assert Owner.call is before
    assert Owner().held == 1


def test_a_name_that_is_not_there_is_refused() -> None:
    with pytest.raises(AttributeError, match="gone"):
        Patches().put(Owner, "gone", lambda _owner: None)


@pytest.mark.parametrize("value", [
    lambda _owner: 0, lambda _owner, _first: 0, lambda _owner, _first, _second, *, named=0: named,
    lambda _owner, *, first, named=0: first + named,
])
def test_a_different_signature_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        Patches().put(Owner, "call", value)


@pytest.mark.parametrize("value", [
    lambda *_arguments, **_named: 0, lambda _owner, _first, _more=None, *, named=0: named,
])
def test_more_parameters_are_accepted(value: object) -> None:
    patches = Patches()
    patches.put(Owner, "call", value)
    patches.undo()


def test_attributes_of_instances_can_only_be_shadowed() -> None:
    with pytest.raises(AttributeError, match="held"):
        Patches().put(Owner, "held", property(lambda _owner: 2))
    with pytest.raises(AssertionError, match="call"):
        Patches().shadow(Owner, "call", property(lambda _owner: 2))
