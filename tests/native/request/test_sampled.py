"""Reports of one of so many requests."""

import pytest

from kraft.protocol.api_keys import ApiKey
from kraft_native.base.errors import InvalidArgumentError
from kraft_native.request.reply import Reply, ReplySink, RequestHandler
from kraft_native.request.sampled import SampledHandler

LARGE = 256 * 1024


def handler(interval: int, seen: list[bytes | None]) -> SampledHandler:
    return SampledHandler(RequestHandler(), interval, lambda _reply, body: seen.append(body))


@pytest.mark.parametrize(("interval", "expected"), [(1, [b"0", b"1", b"2", b"3", b"4", b"5"]), (3, [b"2", b"5"]),
                                                    (7, [])])
def test_every_so_many_requests_are_reported_and_all_are_served(interval: int, expected: list[bytes]) -> None:
    seen: list[bytes | None] = []
    sampled = handler(interval, seen)
    for number in range(6):
        with pytest.raises(AssertionError, match="RequestHandler does not say"):
            sampled.handle_bytes(Reply(ReplySink(), ApiKey.PRODUCE, 9, 1), b"%d" % number)
    assert seen == expected
    assert sampled.sampled == len(expected)


def test_a_large_body_is_not_copied() -> None:
    seen: list[bytes | None] = []
    sampled = handler(1, seen)
    for size in (LARGE, LARGE + 1):
        with pytest.raises(AssertionError):
            sampled.handle_bytes(Reply(ReplySink(), ApiKey.PRODUCE, 9, 1), bytes(size))
    assert seen == [bytes(LARGE), None]


def test_an_interval_is_positive() -> None:
    with pytest.raises(InvalidArgumentError, match="interval must be 1 or more, not 0"):
        handler(0, [])
