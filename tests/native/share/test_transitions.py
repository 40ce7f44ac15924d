"""The life of a record: every state with every event."""

from itertools import product

import pytest

from kraft_native.share.transitions import EVENTS, STATES, transition

ALWAYS = {
    ("AVAILABLE", "ACQUIRE"): "ACQUIRED",
    ("AVAILABLE", "ARCHIVE"): "ARCHIVED",
    ("ACQUIRED", "GAP"): "REJECTING",
    ("ACQUIRED", "ACCEPT"): "ACCEPTING",
    ("ACQUIRED", "REJECT"): "REJECTING",
    ("ACQUIRED", "RENEW"): "ACQUIRED",
    ("ACQUIRED", "LEAVE"): "AVAILABLE",
    ("ACQUIRED", "ARCHIVE"): "ARCHIVED",
    ("ACCEPTING", "WRITTEN"): "ACKNOWLEDGED",
    ("ACCEPTING", "FAILED"): "ACQUIRED",
    ("ACCEPTING", "ARCHIVE"): "ARCHIVED",
    ("REJECTING", "WRITTEN"): "ARCHIVED",
    ("REJECTING", "FAILED"): "ACQUIRED",
    ("REJECTING", "ARCHIVE"): "ARCHIVED",
    ("RELEASING", "WRITTEN"): "AVAILABLE",
    ("RELEASING", "FAILED"): "ACQUIRED",
    ("RELEASING", "ARCHIVE"): "ARCHIVED",
}
FRESH = {**ALWAYS, ("ACQUIRED", "RELEASE"): "RELEASING", ("ACQUIRED", "EXPIRE"): "AVAILABLE"}
EXHAUSTED = {**ALWAYS, ("ACQUIRED", "RELEASE"): "REJECTING", ("ACQUIRED", "EXPIRE"): "ARCHIVED"}


@pytest.mark.parametrize("exhausted", [False, True])
def test_every_state_with_every_event(exhausted: bool) -> None:
    wanted = EXHAUSTED if exhausted else FRESH
    found = {}
    for state, event in product(STATES, EVENTS):
        number = transition(STATES.index(state), EVENTS.index(event), exhausted=exhausted)
        if number >= 0:
            found[state, event] = STATES[number]
    assert found == wanted


def test_codes_are_those_of_kafka() -> None:
    assert [STATES.index(name) for name in ("AVAILABLE", "ACQUIRED", "ACKNOWLEDGED", "ARCHIVED")] == [0, 1, 2, 4]
    assert EVENTS[:5] == ("GAP", "ACCEPT", "RELEASE", "REJECT", "RENEW")


def test_other_numbers_are_no_states_and_no_events() -> None:
    assert transition(-1, 0) == transition(len(STATES), 0) == transition(0, -1) == transition(0, len(EVENTS)) == -1
