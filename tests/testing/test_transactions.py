"""The judges of transactions on small histories: each anomaly with its witness, and what is no anomaly."""

from kraft.testing.history import summary
from kraft.testing.transactions.anomaly import Anomaly
from kraft.testing.transactions.cycles import graph_of
from kraft.testing.transactions.graph import Graph
from kraft.testing.transactions.history import (
    Append,
    History,
    Input,
    Log,
    OffsetCommit,
    OffsetRead,
    OpenSpan,
    Outcome,
    View,
    code_of,
)
from kraft.testing.transactions.index import Index
from kraft.testing.transactions.judge import judge
from tests.testing.transaction_histories import by_hand, random_history, transaction

ABORTED, UNKNOWN = Outcome.ABORTED, Outcome.UNKNOWN


def only(history: History) -> Anomaly:
    """Return the one anomaly of a history."""
    found = judge(history).anomalies
    assert len(found) == 1, summary(found)
    return found[0]


def kinds(history: History) -> list[str]:
    return [each.kind for each in judge(history).anomalies]


# --- logs

def test_a_committed_record_that_is_missing_is_lost() -> None:
    history = by_hand([[(0, 0)], [None]], [transaction(0, 1)])
    assert only(history) == ("lost-write", "T0 (producer 0, committed)#1 is not in the log of p1", (0,))


def test_an_acknowledged_record_is_stored_even_if_it_was_aborted() -> None:
    history = by_hand([[None, None]], [transaction(0, outcome=ABORTED)])
    assert kinds(history) == []
    history.transactions[0].appends[0] = Append(0, 1)
    assert only(history).kind == "lost-write"


def test_an_unknown_outcome_is_decided_by_the_readers() -> None:
    history = by_hand([[(0, 0)], [(0, 1)]], [transaction(0, 1, outcome=UNKNOWN)])
    assert kinds(history) == [], "nothing of it was read: it was aborted"
    history.views[0].see(0, code_of(0, 0), 1e6)
    assert only(history).kind == "torn", "a part of it was read"
    history.views[1].see(0, code_of(0, 1), 1e6)
    assert kinds(history) == []
    history.logs[1] = Log(0, 1, 1)
    history.views[1] = View("watcher", 1, end=1)
    assert only(history) == (
        "torn", "T0 (producer 0, unknown)#1 is not in the log of p1; other records of it were read", (0,))


def test_records_that_nobody_sent_there() -> None:
    history = by_hand([[(0, 0)], []], [transaction(0)])
    history.logs[1] = Log(0, 2, 2)
    history.logs[1].offsets.extend((0, 1))
    history.logs[1].codes.extend((code_of(0, 0), -1))
    found = judge(history).anomalies
    assert found == [("phantom", "T0 (producer 0, committed)#0 at p1@0", (0,)),
                     ("phantom", "no record of ours at p1@1", ())]


def test_a_record_that_is_stored_twice() -> None:
    history = by_hand([[(0, 0), (0, 0)]], [transaction(0)])
    assert only(history) == ("duplicate-write", "T0 (producer 0, committed)#0 at p0@1, and at 0 before", (0,))


def test_one_producer_in_order() -> None:
    two = [transaction(0), transaction(0)]
    assert kinds(by_hand([[(0, 0), (1, 0)]], two)) == []
    assert only(by_hand([[(1, 0), (0, 0)]], two)) == (
        "producer-order", "T0 (producer 0, committed)#0 at p0@1 lies behind T1 (producer 0, committed)#0 at p0@0",
        (1, 0))


def test_transactions_that_did_not_overlap_in_order() -> None:
    two = [transaction(0, ended=2.0), transaction(0, producer=1, began=3.0, ending=4.0)]
    assert kinds(by_hand([[(0, 0), (1, 0)]], two)) == []
    assert kinds(by_hand([[(1, 0), (0, 0)]], two, exclusive=False)) == ["realtime-order"]
    assert kinds(by_hand([[(1, 0), (0, 0)]], two)) == ["realtime-order", "G0-realtime"]


def test_one_offset_for_each_record() -> None:
    history = by_hand([[None, (0, 0)]], [transaction(0)])
    history.transactions[0].appends[0] = Append(0, 0)
    assert only(history) == (
        "inconsistent-offsets", "T0 (producer 0, committed)#0 was acknowledged at 0 and is at p0@1", (0,))


# --- readers

def test_an_aborted_record_that_was_read() -> None:
    history = by_hand([[(0, 0), None]], [transaction(0, outcome=ABORTED)])
    history.views[0] = View("watcher", 0)
    history.views[0].see(0, code_of(0, 0), 9.0)
    history.views[0].reach(2)
    assert only(history) == ("G1a", "watcher read T0 (producer 0, aborted)#0 at p0@0", (0,))
    history.views[0].committed = False
    assert kinds(history) == []


def test_a_transaction_that_one_reader_saw_in_part() -> None:
    history = by_hand([[(0, 0), None], [(0, 1), None]], [transaction(0, 1)])
    history.views[1] = View("watcher", 1, end=2)
    assert only(history) == (
        "torn", ("watcher, at 2, did not receive T0 (producer 0, committed)#1 at p1@0; it received "
                "T0 (producer 0, committed)#0 at p0@0"), (0,))
    history.views[1].reader = "another"
    assert only(history).kind == "skipped"
    history.views[0] = View("watcher", 0, end=2)
    assert kinds(history) == ["lost-write", "lost-write"], "acknowledged as committed, and no reader saw it"
    for view in history.views:
        view.end = 0
    assert kinds(history) == [], "no reader was beyond it"


def test_a_record_behind_the_last_stable_offset_at_the_end() -> None:
    history = by_hand([[(0, 0), None], [(0, 1), None]], [transaction(0, 1)])
    history.logs[1].stable_end = 0
    assert kinds(history) == ["torn", "open-too-long"]


def test_a_record_that_was_read_before_its_commit_was_requested() -> None:
    history = by_hand([[(0, 0), (0, 1), None]], [transaction(0, 0, ending=5.0)])
    history.views[0].times[0] = 4.0
    assert only(history) == ("open-read", ("watcher read T0 (producer 0, committed)#0 at p0@0 at 4.000 s; its commit "
                                          "was requested at 5.000 s"), (0,))
    history.transactions[0].appends[1] = Append(0, -1, 4.5)
    assert kinds(history) == ["open-read", "G1b"]


def test_an_end_between_the_records_of_a_transaction() -> None:
    history = by_hand([[(0, 0), (0, 1), None]], [transaction(0, 0)])
    history.views[0].stable_ends.append(1)
    assert only(history) == ("G1b", ("watcher had read all that was visible at p0@1, a part of "
                                    "T0 (producer 0, committed), which continues to 1"), (0,))
    history = by_hand([[(0, 0), (1, 0), (0, 1), None, None]], [transaction(0, 0), transaction(0, producer=1)],
                      exclusive=False)
    history.views[0].stable_ends.append(1)
    assert kinds(history) == [], "another transaction was open there"


def test_a_reader_that_goes_back_or_skips() -> None:
    history = by_hand([[(0, 0), (0, 1)]], [transaction(0, 0)])
    history.views[0].see(0, code_of(0, 0), 1e6)
    assert only(history) == ("internal", ("watcher read T0 (producer 0, committed)#0 at p0@0 where 2 or a later offset "
                                         "comes next"), (0,))
    history.views[0] = View("watcher", 0, committed=False, end=2)
    assert kinds(history) == ["skipped", "skipped"]


def test_a_reader_and_the_log_disagree() -> None:
    history = by_hand([[(0, 0), (0, 1)]], [transaction(0, 0)])
    for code, kind in ((code_of(0, 0), "inconsistent-offsets"), (-1, "phantom")):
        history.views[0].codes[1] = code
        assert only(history).kind == kind
    view = View("late", 0, start=5)
    view.see(5, code_of(0, 1), 1e6)
    history.views[0].codes[1] = code_of(0, 1)
    history.views.append(view)
    assert only(history).text.endswith("the log has no record there")


# --- cycles

CROSSED = [[(0, 0), (1, 0)], [(1, 1), (0, 1)]]


def test_a_cycle_of_writes() -> None:
    two = [transaction(0, 1), transaction(0, 1, producer=1)]
    assert only(by_hand(CROSSED, two)) == (
        "G0", ("T0 (producer 0, committed) wrote p0@0 before T1 (producer 1, committed) wrote 1; "
              "T1 (producer 1, committed) wrote p1@0 before T0 (producer 0, committed) wrote 1"), (0, 1))
    verdict = judge(by_hand(CROSSED, two, exclusive=False))
    assert verdict == ([], 1), "the writers overlap"
    two[1].outcome = ABORTED
    assert kinds(by_hand(CROSSED, two)) == [], "an aborted transaction is in no cycle"


def test_a_cycle_of_reads() -> None:
    two = [transaction(0), transaction(1, producer=1)]
    history = by_hand([[(0, 0)], [(1, 0)]], two, exclusive=False)
    two[1].inputs.append(Input(0, 0, code_of(0, 0)))
    assert kinds(history) == []
    two[0].inputs.append(Input(1, 0, code_of(1, 0)))
    assert only(history) == (
        "G1c", ("T1 (producer 1, committed) consumed the record of T0 (producer 0, committed) at p0@0; "
               "T0 (producer 0, committed) consumed the record of T1 (producer 1, committed) at p1@0"), (0, 1))


def test_a_cycle_of_a_write_and_a_read() -> None:
    two = [transaction(0, 1), transaction(0, producer=1)]
    two[1].inputs.append(Input(1, 0, code_of(0, 1)))
    logs = [[(1, 0), (0, 0)], [(0, 1)]]
    assert kinds(by_hand(logs, two)) == ["G1c"]
    assert judge(by_hand(logs, two, exclusive=False)) == ([], 1)


def test_a_cycle_with_time() -> None:
    """A record that was consumed before the transaction that wrote it began."""
    two = [transaction(0, ended=2.0), transaction(1, producer=1, began=3.0, ending=4.0)]
    two[0].inputs.append(Input(1, 0, code_of(1, 0)))
    found = only(by_hand([[(0, 0)], [(1, 0)]], two))
    assert found == ("G1c-realtime", ("T0 (producer 0, committed) ended at 2.000 s, T1 (producer 1, committed) began "
                                     "at 3.000 s; T0 (producer 0, committed) consumed the record of "
                                     "T1 (producer 1, committed) at p1@0"), (0, 1))


def test_a_long_cycle_is_reported_once() -> None:
    count = 500
    chain = [transaction(each, (each + 1) % count, producer=each) for each in range(count)]
    logs = [[(each, 0), ((each - 1) % count, 1)] for each in range(count)]
    found = only(by_hand(logs, chain))
    assert found.kind == "G0"
    assert len(found.transactions) == count


def test_the_shortest_of_several_cycles() -> None:
    graph = Graph(6)
    for source, target in ((0, 1), (1, 2), (2, 3), (3, 0), (3, 2), (4, 0), (3, 5)):
        graph.add(source, target, 1)
    component, = graph.components(1)
    assert sorted(component) == [0, 1, 2, 3]
    assert sorted(edge.source for edge in graph.cycle(component, 1)) == [2, 3]
    assert graph.components(2) == []


def test_the_graph_is_linear_in_the_history() -> None:
    history = random_history(7, 4_000)
    records = sum(len(log.codes) for log in history.logs)
    inputs = sum(len(each.inputs) for each in history.transactions)
    assert len(graph_of(Index(history)).edges) <= records + inputs + 3 * len(history.transactions)


# --- offsets of groups

def consuming() -> History:
    """Return a history of two records, one group, and a transaction for each record."""
    history = by_hand([[(0, 0), (0, 1)], [(1, 0), (2, 0)]],
                      [transaction(0, 0, ended=2.0), *(transaction(1, producer=1, began=each, ending=each + 0.5,
                                                                   ended=each + 0.9) for each in (3.0, 4.0))])
    for place, each in enumerate(history.transactions[1:]):
        each.inputs.append(Input(0, place, code_of(0, place)))
        each.commits.append(OffsetCommit("g", 0, place + 1))
    history.offset_reads.append(OffsetRead("g", 0, 2, 9.0, 9.1))
    return history


def test_outputs_and_offsets_together() -> None:
    assert kinds(consuming()) == []
    history = consuming()
    history.offset_reads[0] = OffsetRead("g", 0, 1, 9.0, 9.1)
    assert kinds(history) == ["offset-back", "output-without-offset"]
    history = consuming()
    history.transactions[2].inputs.clear()
    assert only(history) == ("offset-without-output", ("g: T0 (producer 0, committed)#1 at p0@1 was not processed, the "
                                                      "final offset is 2"), ())


def test_a_record_is_processed_once() -> None:
    history = consuming()
    history.transactions[2].inputs.insert(0, Input(0, 0, code_of(0, 0)))
    assert only(history) == ("processed-twice", ("g: p0@0: by T1 (producer 1, committed) and by "
                                                "T2 (producer 1, committed)"), (1, 2))


def test_an_offset_goes_back() -> None:
    history = consuming()
    history.offset_reads.insert(0, OffsetRead("g", 0, 1, 4.5, 4.6))
    assert kinds(history) == [], "the second commit was not acknowledged yet"
    history.offset_reads[0] = OffsetRead("g", 0, 1, 5.0, 5.1)
    assert only(history) == ("offset-back", "g: p0@1 was read after 2 was committed by T2 (producer 1, committed)",
                             (2,))


def test_an_offset_of_an_aborted_transaction_or_of_none() -> None:
    history = consuming()
    history.transactions.append(transaction(outcome=ABORTED))
    history.transactions[3].commits.append(OffsetCommit("g", 0, 7))
    history.offset_reads.append(OffsetRead("g", 0, 7, 9.2, 9.3))
    assert kinds(history) == ["G1a"]
    history.offset_reads[1] = OffsetRead("g", 0, 8, 9.2, 9.3)
    assert kinds(history) == ["phantom"]


# --- time

def test_open_transactions() -> None:
    history = by_hand([[(0, 0), None]], [transaction(0)])
    history.open_spans += [OpenSpan(0, 0, 10.0, 24.9, 10.0), OpenSpan(0, 0, 10.0, 34.0, 10.0, excused=10.0)]
    assert kinds(history) == []
    history.open_spans.append(OpenSpan(0, 0, 10.0, 25.5, 10.0))
    assert only(history) == ("open-too-long", ("T0 (producer 0, committed)#0 at p0@0 held the last stable offset for "
                                              "15.5 s, the time-out is 10.0 s"), (0,))
    history = by_hand([[(0, 0), None]], [transaction(0)])
    history.logs[0].stable_end = 1
    assert only(history).kind == "open-too-long"
