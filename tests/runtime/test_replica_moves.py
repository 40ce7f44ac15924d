"""Where two logs part, by their leader epochs; the rest of moves is tested on processes (tests/integration)."""

import pytest

from kraft.runtime.replica_moves import Entries, common_end


@pytest.mark.parametrize(("one", "one_end", "other", "other_end", "expected"), [
    ([], 0, [(0, 0)], 10, -1),
    ([(0, 0)], 5, [(0, 0)], 10, 5),
    ([(0, 0)], 10, [(0, 0)], 5, 5),
    ([(0, 0), (2, 7)], 9, [(0, 0), (3, 6)], 20, 6),
    ([(0, 0), (3, 8)], 9, [(0, 0), (2, 5), (3, 8)], 20, 9),
    ([(0, 0), (1, 4)], 9, [(1, 4), (2, 8)], 20, 8),
    ([(0, 0)], 9, [(4, 9)], 20, -1),
])
def test_what_two_logs_have_in_common(one: Entries, one_end: int, other: Entries, other_end: int,
                                      expected: int) -> None:
    assert common_end(one, one_end, other, other_end) == expected
