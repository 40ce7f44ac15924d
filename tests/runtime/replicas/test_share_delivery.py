"""Share partitions of a broker that have no state begin."""

from types import SimpleNamespace
from typing import Any

import pytest

from kraft.protocol.error_codes import ErrorCode
from kraft.runtime.replicas.share_partitions import PAUSE_MS, ShareDelivery
from kraft_native.base.errors import KraftError, NotLeaderOrFollowerError, OffsetNotAvailableError


@pytest.mark.parametrize(("error", "expected"), [
    (OffsetNotAvailableError("the high watermark is too low"), ("paused", PAUSE_MS)),
    (NotLeaderOrFollowerError("follows"), ("failed", ErrorCode.NOT_LEADER_OR_FOLLOWER)),
])
def test_a_new_leader_begins_once_it_knows_the_end(error: KraftError, expected: tuple[str, int]) -> None:
    """A start below records that the previous leader delivered would deliver them again."""
    def latest() -> None:
        raise error

    outcome: list[tuple[str, int]] = []
    share: Any = SimpleNamespace(partition=SimpleNamespace(latest=latest),
                                 paused=lambda pause_ms: outcome.append(("paused", pause_ms)),
                                 failed=lambda code: outcome.append(("failed", code)))
    delivery = ShareDelivery.__new__(ShareDelivery)
    delivery._clock = lambda: 0
    delivery._begin_new(share, SimpleNamespace(), "latest")  # type: ignore[arg-type]
    assert outcome == [expected]
