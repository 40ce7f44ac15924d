"""Short rotations; `make rotations` runs long ones."""

import pytest

from tests.rotations.run import SUBJECTS, rotate

ROTATIONS = 2


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """Nothing of the engine runs in this process."""


@pytest.mark.parametrize("subject", SUBJECTS)
def test_clients_with_valid_credentials_do_not_notice(subject: str) -> None:
    found = rotate(subject, ROTATIONS, lambda _: None)
    assert found.rotations == ROTATIONS
    assert found.revoked_seconds
    assert found.requests > 0
