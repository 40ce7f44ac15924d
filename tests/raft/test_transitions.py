"""The table of role changes: every (role, cause) pair, and its rendering in the documentation."""

from itertools import product
from pathlib import Path

import pytest

from kraft.raft.transitions import TRANSITIONS, Cause, Role, check_transition, render

DOCUMENT = Path(__file__).parents[2] / "docs" / "internals" / "raft.md"


@pytest.mark.parametrize(("role", "cause"), list(product(Role, Cause)))
def test_every_pair_is_allowed_or_refused(role: Role, cause: Cause) -> None:
    allowed = TRANSITIONS[role].get(cause, ())
    for target in Role:
        if target in allowed:
            check_transition(role, cause, target)
        else:
            with pytest.raises(AssertionError, match="does not become"):
                check_transition(role, cause, target)


def test_only_prospective_becomes_candidate() -> None:
    assert _sources(Role.CANDIDATE) == [Role.PROSPECTIVE]


def test_only_candidate_becomes_leader_and_only_leader_resigns() -> None:
    assert _sources(Role.LEADER) == [Role.CANDIDATE]
    assert _sources(Role.RESIGNED) == [Role.LEADER]


def test_a_higher_epoch_ends_every_role() -> None:
    assert all(TRANSITIONS[role][Cause.HIGHER_EPOCH] == (Role.UNATTACHED,) for role in Role)


def test_the_document_has_the_table() -> None:
    assert render() in DOCUMENT.read_text()


def _sources(target: Role) -> list[Role]:
    return [role for role in Role if any(target in targets for targets in TRANSITIONS[role].values())]
