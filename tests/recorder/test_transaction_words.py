"""Words of events of transactions, and the entries about one transactional id."""

import pytest

from kraft.broker.transactions import events
from kraft.broker.transactions.events import EndReason, TransactionEvent
from kraft.protocol.error_codes import ErrorCode
from kraft.recorder.entry import parse
from kraft.recorder.timeline import sentence
from kraft.recorder.transaction_words import NAMES, of_transactional_id
from kraft.runtime.replicas.recorder import TRANSACTION_CAPACITY, ReplicaRecorder

WORDS: list[tuple[TransactionEvent, str]] = [
    (events.Began("t", 7, 1), "transaction begins transactional_id=t producer=7 producer_epoch=1"),
    (events.Decided("t", 7, 2, True, 3, EndReason.CLIENT),
     "transaction is to commit transactional_id=t producer=7 producer_epoch=2 partitions=3: its client requested it"),
    (events.Decided("t", 7, 2, False, 3, EndReason.TIMED_OUT),
     ("transaction is to abort transactional_id=t producer=7 producer_epoch=2 partitions=3: it was open for longer "
      "than its time-out")),
    (events.Completed("t", 7, 2, True), "transaction is committed transactional_id=t producer=7 producer_epoch=2"),
    (events.Completed("t", 7, 2, False), "transaction is aborted transactional_id=t producer=7 producer_epoch=2"),
    (events.Fenced("t", ErrorCode.PRODUCER_FENCED), "client is fenced transactional_id=t: PRODUCER_FENCED"),
    (events.MarkerWritten(7, 2, "o", 0, ErrorCode.NONE),
     "marker is written producer=7 producer_epoch=2 topic=o partition=0"),
    (events.MarkerWritten(7, 2, "o", 0, ErrorCode.INVALID_PRODUCER_EPOCH),
     "marker is written producer=7 producer_epoch=2 topic=o partition=0: INVALID_PRODUCER_EPOCH"),
    (events.MarkerDelayed(7, 2, "o", 0, ErrorCode.REQUEST_TIMED_OUT),
     "marker is delayed producer=7 producer_epoch=2 topic=o partition=0: REQUEST_TIMED_OUT"),
    (events.VerificationRefused("t", 7, 2, "o", 0, ErrorCode.TRANSACTION_ABORTABLE),
     "batch is not verified transactional_id=t producer=7 producer_epoch=2 topic=o partition=0: TRANSACTION_ABORTABLE"),
    (events.CoordinatorLoaded(3, 5, 100), "coordinates transactions of=3 epoch=5 transactional_ids=100"),
    (events.CoordinatorResigned(3, 5), "stops coordinating transactions of=3 epoch=5"),
]


class Clock:
    now_ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def recorder() -> ReplicaRecorder:
    return ReplicaRecorder(1, Clock(), dict)


def test_every_event_has_words(recorder: ReplicaRecorder) -> None:
    for event, _ in WORDS:
        recorder.transaction(event)
    entries = [parse(line) for line in recorder.lines()][:-1]
    assert list(map(sentence, entries)) == [text for _, text in WORDS]
    assert {each.what for each in entries} == set(NAMES)
    assert {type(event) for event, _ in WORDS} == set(TransactionEvent.__args__)      # type: ignore[attr-defined]


def test_the_last_events_are_kept(recorder: ReplicaRecorder) -> None:
    for number in range(TRANSACTION_CAPACITY + 10):
        recorder.transaction(events.CoordinatorResigned(number, 1))
    assert len(recorder.lines()) == TRANSACTION_CAPACITY + 1
    assert [parse(line).values.get("of") for line in recorder.lines(2)] == [
        TRANSACTION_CAPACITY + 8, TRANSACTION_CAPACITY + 9, None]
    assert len(recorder.lines(0)) == 1


def test_the_entries_about_a_transactional_id(recorder: ReplicaRecorder) -> None:
    for event in (events.Began("t", 7, 1), events.Began("u", 8, 1), events.MarkerWritten(7, 2, "o", 0, 0),
                  events.MarkerWritten(8, 2, "o", 0, 0), events.Fenced("t", 90)):
        recorder.transaction(event)
    found = of_transactional_id(map(parse, recorder.lines()), "t")
    assert [each.what for each in found] == ["transaction begins", "marker is written", "client is fenced"]
