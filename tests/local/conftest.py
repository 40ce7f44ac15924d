"""Nothing of the engine runs in this process but the cluster's owner."""

import os
from collections.abc import Iterator

import pytest

from kraft.testing.pytest_plugin import launcher_of


@pytest.fixture(autouse=True)
def no_leaks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Check that every descriptor of a cluster is closed. The launcher stays: the whole session shares it."""
    launcher_of(request.config)
    before = sorted(os.listdir("/proc/self/fd"))
    yield
    assert sorted(os.listdir("/proc/self/fd")) == before
