"""The time for which a transaction holds a last stable offset, as an observer sees it."""

from types import SimpleNamespace

from tests.crash_transactions.readers import StableOffsets
from tests.crash_transactions.record import Record


def observer() -> StableOffsets:
    return StableOffsets(SimpleNamespace(address="127.0.0.1:9"), Record({"t": 1}, "alone", 10.0), lambda: 0.0)


def test_a_span_lasts_from_the_first_answer_to_the_last_request() -> None:
    stable = observer()
    stable.note(0, 7, 1.0, 2.0, is_open=True)
    stable.note(0, 7, 5.0, 30.0, is_open=True)
    [span] = stable.spans
    assert (span.offset, span.since, span.until) == (7, 2.0, 5.0)


def test_an_old_offset_after_a_kill_of_all_nodes_extends_no_span() -> None:
    stable = observer()
    stable.note(0, 7, 1.0, 1.0, is_open=True)
    stable.note(0, 90, 12.0, 12.0, is_open=False)
    stable.note(0, 7, 38.0, 38.0, is_open=True)
    assert [(span.offset, span.until) for span in stable.spans] == [(7, 1.0)]
