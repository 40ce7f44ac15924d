"""The judge of acknowledged records."""

from tests.integration.load import UNKNOWN_OFFSET, lost_of


def test_an_acknowledged_record_is_lost_unless_it_is_stored_at_its_offset() -> None:
    stored = {0: 0, 1: 1, 2: 3, 3: 2}
    assert lost_of([(0, 0), (1, 1), (2, 3), (3, 2)], stored) == []
    assert lost_of([(0, 0), (2, 2), (4, 4)], stored) == [(2, 2), (4, 4)]


def test_a_record_acknowledged_without_its_offset_may_be_stored_anywhere() -> None:
    stored = {0: 0, 1: 1}
    assert lost_of([(0, 0), (1, UNKNOWN_OFFSET)], stored) == []
    assert lost_of([(2, UNKNOWN_OFFSET)], stored) == [(2, UNKNOWN_OFFSET)]
