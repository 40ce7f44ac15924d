"""A wait for other nodes ends when there is no progress."""

import pytest

from kraft.cli.stall import Stall
from kraft.client import RefusedError


def test_moves_may_take_long() -> None:
    now = [0.0]
    stall = Stall("the copy", 10.0, lambda: now[0])
    for left in range(100, 0, -1):
        now[0] += 9.0
        stall.check(left)
    now[0] += 10.0
    stall.check(1)
    now[0] += 0.1
    with pytest.raises(RefusedError, match=r"the copy: nothing has moved for 10 s.*REQUEST_TIMED_OUT"):
        stall.check(1)
