"""Random histories: without a fault no judge finds an anomaly; with one, the right judge does."""

import random
from array import array
from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kraft.testing.transactions.history import (
    Append,
    History,
    OffsetCommit,
    OffsetRead,
    OpenSpan,
    Outcome,
    View,
    code_of,
    transaction_of,
)
from kraft.testing.transactions.judge import judge
from tests.testing.transaction_histories import GROUP, INPUTS, TIMEOUT, random_history

SEEDS = st.integers(0, 1 << 32)


def kinds(history: History) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in judge(history).anomalies:
        found[each.kind] = found.get(each.kind, 0) + 1
    return found


def committed_view(history: History, chance: random.Random, records: int = 1) -> View:
    """Return a view of the watcher with at least so many records."""
    found = [view for view in history.views if view.committed and len(view.codes) >= records]
    assume(found)
    return chance.choice(found)


def stored(history: History, chance: random.Random, outcome: Outcome) -> tuple[int, int, int]:
    """Return partition, place in the log, and code of a record of a transaction with this outcome."""
    found = [(partition, place, code) for partition, log in enumerate(history.logs)
             for place, code in enumerate(log.codes)
             if history.transactions[transaction_of(code)].outcome is outcome]
    assume(found)
    return chance.choice(found)


def remove_from_views(history: History, partition: int, code: int) -> None:
    for view in history.views:
        if view.partition == partition and code in view.codes:
            place = view.codes.index(code)
            del view.offsets[place], view.codes[place], view.times[place]


def add_to_view(view: View, offset: int, code: int, now: float) -> None:
    place = sum(each < offset for each in view.offsets)
    view.offsets.insert(place, offset)
    view.codes.insert(place, code)
    view.times.insert(place, now)


# --- faults, each with the kinds that it must lead to

def show_aborted(history: History, chance: random.Random) -> None:
    partition, place, code = stored(history, chance, Outcome.ABORTED)
    view = next(each for each in history.views if each.committed and each.partition == partition)
    add_to_view(view, history.logs[partition].offsets[place], code, 1e6)


def lose_committed(history: History, chance: random.Random) -> None:
    partition, place, code = stored(history, chance, Outcome.COMMITTED)
    log = history.logs[partition]
    del log.offsets[place], log.codes[place]
    remove_from_views(history, partition, code)


def hide_a_part(history: History, chance: random.Random) -> None:
    """Hide one record of a transaction from the watcher that has read another record of it."""
    view = committed_view(history, chance)
    numbers = {transaction_of(code) for view in history.views if view.committed for code in view.codes}
    large = [each for each in sorted(numbers) if len(history.transactions[each].appends) > 1]
    assume(large)
    number = chance.choice(large)
    code = code_of(number, chance.randrange(len(history.transactions[number].appends)))
    for view in history.views:
        if view.committed and code in view.codes:
            place = view.codes.index(code)
            del view.offsets[place], view.codes[place], view.times[place]


def hide_all(history: History, chance: random.Random) -> None:
    """Abort a transaction that was acknowledged as committed."""
    _, _, code = stored(history, chance, Outcome.COMMITTED)
    for view in history.views:
        if view.committed:
            kept = [each for each in range(len(view.codes))
                    if transaction_of(view.codes[each]) != transaction_of(code)]
            view.offsets = array("q", [view.offsets[each] for each in kept])
            view.times = array("d", [view.times[each] for each in kept])
            view.codes = array("q", [view.codes[each] for each in kept])


def store_twice(history: History, chance: random.Random) -> None:
    partition, _, code = stored(history, chance, Outcome.COMMITTED)
    log = history.logs[partition]
    log.offsets.append(log.end)
    log.codes.append(code)
    log.end += 1
    log.stable_end += 1
    for view in history.views:
        if view.partition == partition:
            view.see(log.end - 1, code, 1e6)


def store_foreign(history: History, chance: random.Random) -> None:
    log = history.logs[chance.randrange(len(history.logs))]
    log.offsets.append(log.end)
    log.codes.append(code_of(len(history.transactions), 0))
    log.end += 1
    log.stable_end += 1


def read_early(history: History, chance: random.Random) -> None:
    view = committed_view(history, chance)
    place = chance.randrange(len(view.codes))
    view.times[place] = history.transactions[transaction_of(view.codes[place])].ending - 0.5


def end_inside(history: History, chance: random.Random) -> None:
    """Let the watcher be notified of an end of the visible records between two of one transaction."""
    found = []
    for view in history.views:
        spans: dict[int, list[int]] = {}
        for offset, code in zip(view.offsets, view.codes, strict=True):
            spans.setdefault(transaction_of(code), []).append(offset)
        if view.committed:
            found += [(view, each[-1]) for each in spans.values() if len(each) > 1]
    assume(found)
    view, end = chance.choice(found)
    view.stable_ends.append(end)


def repeat_read(history: History, chance: random.Random) -> None:
    view = committed_view(history, chance)
    place = chance.randrange(len(view.codes))
    view.see(view.offsets[place], view.codes[place], 1e6)


def move_acknowledged(history: History, chance: random.Random) -> None:
    partition, place, code = stored(history, chance, Outcome.COMMITTED)
    transaction = history.transactions[transaction_of(code)]
    index = code & 0xFFFFF
    transaction.appends[index] = Append(partition, history.logs[partition].offsets[place] + 1, 0.0)


def swap_records(history: History, chance: random.Random) -> None:
    """Exchange two records of one producer in a log, and in what was acknowledged and read of it."""
    found = []
    for partition, log in enumerate(history.logs):
        by_producer: dict[int, list[int]] = {}
        for place, code in enumerate(log.codes):
            by_producer.setdefault(history.transactions[transaction_of(code)].producer, []).append(place)
        found += [(partition, places) for places in by_producer.values() if len(places) > 1]
    assume(found)
    partition, places = chance.choice(found)
    one, other = sorted(chance.sample(places, 2))
    log = history.logs[partition]
    log.codes[one], log.codes[other] = log.codes[other], log.codes[one]


def process_twice(history: History, chance: random.Random) -> None:
    found = [each for each in history.transactions if each.inputs and each.outcome is Outcome.COMMITTED]
    assume(len(found) > 1)
    one, other = chance.sample(found, 2)
    other.inputs.append(one.inputs[0])


def processors(history: History) -> list[int]:
    """Return the committed transactions of the group."""
    found = [number for number, each in enumerate(history.transactions)
             if each.inputs and each.outcome is Outcome.COMMITTED]
    assume(found)
    return found


def forget_processing(history: History, chance: random.Random) -> None:
    history.transactions[chance.choice(processors(history))].inputs = []


def forget_offset(history: History, chance: random.Random) -> None:
    """Let the last offset of the group be that before the last commit."""
    partition = history.transactions[processors(history)[-1]].inputs[0].partition
    history.offset_reads = [each for each in history.offset_reads if each.partition != partition]
    history.offset_reads.append(OffsetRead(GROUP, partition, -1, 0.0, 1.0))


def read_old_offset(history: History, chance: random.Random) -> None:
    partition = history.transactions[processors(history)[-1]].inputs[0].partition
    history.offset_reads.append(OffsetRead(GROUP, partition, -1, 1e6, 1e6))


def read_aborted_offset(history: History, chance: random.Random) -> None:
    number = next((number for number, each in enumerate(history.transactions)
                   if each.outcome is Outcome.ABORTED), -1)
    assume(number >= 0)
    partition = chance.randrange(INPUTS)
    history.transactions[number].commits.append(OffsetCommit(GROUP, partition, 1 << 30))
    history.offset_reads.append(OffsetRead(GROUP, partition, 1 << 30, 1e6, 1e6))


def hang(history: History, chance: random.Random) -> None:
    history.open_spans.append(OpenSpan(0, 0, 0.0, TIMEOUT + 5.1, TIMEOUT))


def hang_at_the_end(history: History, chance: random.Random) -> None:
    log = chance.choice(history.logs)
    assume(log.end)
    log.stable_end = log.end - 1


def future(history: History, chance: random.Random) -> None:
    """Let a transaction that ended consume a record of one that began afterwards."""
    ended = [(each.ended, number) for number, each in enumerate(history.transactions)
             if each.outcome is Outcome.COMMITTED and each.inputs]
    assume(ended)
    time, number = min(ended)
    found = [(place, code, partition) for partition, log in enumerate(history.logs)
             for place, code in zip(log.offsets, log.codes, strict=True)
             if history.transactions[transaction_of(code)].began > time
             and history.transactions[transaction_of(code)].outcome is Outcome.COMMITTED]
    assume(found)
    offset, code, partition = chance.choice(found)
    history.transactions[number].inputs.append(
        history.transactions[number].inputs[0]._replace(partition=partition, offset=offset, code=code))


FAULTS: dict[Callable[[History, random.Random], None], tuple[str, ...]] = {
    show_aborted: ("G1a",),
    lose_committed: ("lost-write",),
    hide_a_part: ("torn",),
    hide_all: ("lost-write",),
    store_twice: ("duplicate-write",),
    store_foreign: ("phantom",),
    read_early: ("open-read",),
    end_inside: ("G1b",),
    repeat_read: ("internal",),
    move_acknowledged: ("inconsistent-offsets",),
    swap_records: ("producer-order",),
    process_twice: ("processed-twice",),
    forget_processing: ("offset-without-output",),
    forget_offset: ("output-without-offset",),
    read_old_offset: ("offset-back",),
    read_aborted_offset: ("G1a",),
    hang: ("open-too-long",),
    hang_at_the_end: ("open-too-long",),
    future: ("G1c-realtime",),
}


@given(seed=SEEDS)
def test_a_history_without_a_fault_has_no_anomaly(seed: int) -> None:
    assert judge(random_history(seed)).anomalies == []


@pytest.mark.parametrize("fault", FAULTS, ids=lambda each: each.__name__)
@given(seed=SEEDS)
def test_every_fault_is_found(fault: Callable[[History, random.Random], None], seed: int) -> None:
    history = random_history(seed)
    fault(history, random.Random(seed))
    found = kinds(history)
    assert any(each in found for each in FAULTS[fault]), found
