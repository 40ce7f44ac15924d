"""A restore that ends before its backup: transactions that span partitions are in it wholly or not at all."""

import hashlib
import random
from pathlib import Path
from typing import Final
from uuid import UUID

import pytest

from kraft import Log, LogConfig
from kraft.backups.decisions import ABORT, COMMIT, AsOf, Decisions, Epochs, Scan, combine, decide, with_aborts
from kraft.backups.manifest import Commit, PartitionCopy, Segment
from kraft.backups.restored_log import Ending, restore_log
from kraft.backups.store import Directory, write
from kraft_native.batch.batch import walk
from kraft_native.batch.control import control_records, marker
from kraft_native.batch.records import BatchBuilder, records

CREATED_MS: Final = 9_000
Event = tuple[str, int, int, int]
"""Kind (`records`, a type of marker, or `plain`), producer id, epoch, and time."""


@pytest.fixture
def store(tmp_path: Path) -> Directory:
    with Directory(tmp_path / "store") as made:
        return made


def events_as_batches(events: list[Event]) -> list[bytes]:
    """Batches of one partition. A marker has the epoch of its event itself."""
    sequences: dict[tuple[int, int], int] = {}
    found = []
    for offset, (kind, producer_id, epoch, time_ms) in enumerate(events):
        if kind in (COMMIT, ABORT):
            found.append(marker(commit=kind == COMMIT, producer_id=producer_id, producer_epoch=epoch,
                                coordinator_epoch=1, timestamp_ms=time_ms, base_offset=offset, leader_epoch=3))
            continue
        builder = BatchBuilder(transactional=kind == "records")
        builder.append(b"%d %d" % (producer_id, epoch), None, time_ms)
        if kind == "records":
            sequence = sequences[producer_id, epoch] = sequences.get((producer_id, epoch), -1) + 1
            found.append(builder.build(offset, leader_epoch=3, producer_id=producer_id, producer_epoch=epoch,
                                       base_sequence=sequence))
        else:
            found.append(builder.build(offset, leader_epoch=3))
    return found


def stored(store: Directory, topic: str, events: list[Event]) -> PartitionCopy:
    """Store a partition in files of some batches each."""
    copy = PartitionCopy(topic, UUID(int=sum(topic.encode())), 0, 0, len(events), 5, ())
    batches, segments = events_as_batches(events), []
    for at in range(0, len(batches), 4):
        part = batches[at:at + 4]
        data = b"".join(part)
        segments.append(Segment(at, at + len(part), 3, len(data), hashlib.sha256(data).hexdigest()))
        write(store, copy.file(segments[-1]), data)
    return copy._replace(segments=tuple(segments))


def decided(store: Directory, as_of: AsOf, *partitions: list[Event], pending: tuple[Commit, ...] = ()) -> Decisions:
    copies = [stored(store, "abcd"[number], events) for number, events in enumerate(partitions)]
    return decide(store, [(copy, as_of) for copy in copies], pending, CREATED_MS)


RECORDS: Final = ("records", 7, 2, 1000)


def test_a_commit_that_one_partition_has_before_its_end(store: Directory) -> None:
    """The other one has it later: it is added there."""
    found = decided(store, AsOf(time_ms=1005), [RECORDS, (COMMIT, 7, 3, 1004), ("plain", 0, 0, 1010)],
                    [RECORDS, ("plain", 0, 0, 1003), ("plain", 0, 0, 1006), (COMMIT, 7, 3, 1006)])
    assert found == Decisions({("a", 0): 2, ("b", 0): 2}, (Commit("b", 0, 7, 3),), {})


def test_a_commit_after_the_time(store: Directory) -> None:
    """Both have the marker before their end, because no record came after it."""
    found = decided(store, AsOf(time_ms=1005), [RECORDS, (COMMIT, 7, 3, 1006)], [RECORDS, (COMMIT, 7, 3, 1008)])
    assert found == Decisions({("a", 0): 2, ("b", 0): 2}, (), {7: 2})
    found = decided(store, AsOf(time_ms=1006), [RECORDS, (COMMIT, 7, 3, 1006)], [RECORDS, (COMMIT, 7, 3, 1008)])
    assert found.limits == {}, "the first marker decides"


def test_records_beyond_the_end_of_one_partition(store: Directory) -> None:
    """A record of another producer ends that partition, and the transaction is excluded everywhere."""
    found = decided(store, AsOf(time_ms=1005), [RECORDS, (COMMIT, 7, 3, 1004), ("records", 7, 3, 1004)],
                    [("plain", 0, 0, 2000), RECORDS, (COMMIT, 7, 3, 1004)])
    assert found == Decisions({("a", 0): 3, ("b", 0): 0}, (), {7: 2})


def test_an_aborted_transaction_excludes_nothing(store: Directory) -> None:
    found = decided(store, AsOf(time_ms=1005), [RECORDS, (ABORT, 7, 3, 1004), ("records", 7, 3, 1005),
                                                (COMMIT, 7, 4, 1005)])
    assert found == Decisions({("a", 0): 4}, (), {})


def test_a_producer_whose_epoch_is_that_of_all_its_transactions(store: Directory) -> None:
    """Its markers have the epoch of the records: each partition ends by itself."""
    found = decided(store, AsOf(offset=1), [RECORDS, (COMMIT, 7, 2, 1004), RECORDS], [RECORDS, RECORDS])
    assert found.commits == ()
    kept = events_as_batches([RECORDS, (COMMIT, 7, 2, 1004)])
    assert with_aborts(b"".join(kept), found.limits) == b"".join(kept)


def test_commits_that_were_decided_without_a_marker(store: Directory) -> None:
    """They belong to a restore that moves no end of their partitions, and to no earlier time than the backup's."""
    pending = (Commit("a", 0, 7, 3), Commit("b", 0, 7, 3), Commit("elsewhere", 0, 7, 3))
    for as_of, is_committed in ((AsOf(time_ms=CREATED_MS), True), (AsOf(time_ms=CREATED_MS - 1), False),
                                (AsOf(offset=50), True), (AsOf(offset=0), False)):
        found = decided(store, as_of, [RECORDS], [RECORDS, ("plain", 0, 0, 1000)], pending=pending)
        expected = (Commit("a", 0, 7, 3), Commit("b", 0, 7, 3)) if is_committed else ()
        assert (found.commits, found.limits) == (expected, {} if is_committed else {7: 2}), as_of


def test_sets_of_epochs() -> None:
    one, other = Epochs(), Epochs()
    one.add(7, 0)
    one.add(7, 300)
    other.add(7, 32_766)
    other.add(8, 9)
    one.add_all(other)
    assert [one.has(*each) for each in ((7, 0), (7, 1), (7, 300), (7, 32_766), (7, 32_767), (8, 9), (9, 0))] == [
        True, False, True, True, False, True, False]


def test_nothing_to_decide() -> None:
    assert combine([]) == Decisions({}, (), {})
    copy = PartitionCopy("a", UUID(int=1), 0, 0, 5, 5, ())
    assert combine([Scan(copy, 5)]) == Decisions({("a", 0): 5}, (), {})


class History:
    """Transactions of some producers over three partitions, whose markers come at different times and places."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.now = 1_000
        self.logs: list[list[Event]] = [[], [], []]
        self.epochs = {7: 0, 8: 0, 9: 0}
        self.where: dict[tuple[int, int], set[int]] = {}
        """Partitions with records of each transaction."""
        self.ending: list[tuple[str, int, int, int]] = []
        """Markers that are still to be written: kind, producer id, epoch of the marker, partition."""
        for _ in range(120):
            self.now += self.chance.randrange(3)
            self.step()

    def step(self) -> None:
        producer_id = self.chance.choice(list(self.epochs))
        key, is_ending = (producer_id, self.epochs[producer_id]), any(each[1] == producer_id for each in self.ending)
        if self.ending and self.chance.random() < 0.4:
            kind, ended, epoch, at = self.ending.pop(self.chance.randrange(len(self.ending)))
            self.logs[at].append((kind, ended, epoch, self.now + self.chance.randrange(-2, 3)))
        elif self.chance.random() < 0.2:
            self.logs[self.chance.randrange(3)].append(("plain", 0, 0, self.now + self.chance.randrange(-4, 5)))
        elif is_ending:
            return
        elif key in self.where and self.chance.random() < 0.4:
            kind = self.chance.choice((COMMIT, COMMIT, ABORT))
            self.ending += [(kind, producer_id, key[1] + 1, at) for at in sorted(self.where[key])]
            self.epochs[producer_id] += 1
        else:
            at = self.chance.randrange(3)
            self.where.setdefault(key, set()).add(at)
            self.logs[at].append(("records", *key, self.now + self.chance.randrange(-2, 3)))

    def committed(self, as_of: AsOf) -> set[tuple[int, int]]:
        """Return the transactions that belong to the restore, by a plain search."""
        counted: set[tuple[int, int, int]] = set()
        excluded: set[tuple[int, int, int]] = set()
        for at, events in enumerate(self.logs):
            end = next((offset for offset, each in enumerate(events) if self.is_beyond(offset, each, as_of)),
                       len(events))
            opened: dict[tuple[int, int], bool] = {}
            for kind, producer, epoch, time_ms in events[:end]:
                if kind == "records":
                    opened[producer, epoch] = True
                elif kind in (COMMIT, ABORT):
                    opened.pop((producer, epoch - 1), None)
                    is_late = as_of.time_ms is not None and time_ms > as_of.time_ms
                    if kind == COMMIT:
                        (excluded if is_late else counted).add((producer, epoch - 1, at if is_late else -1))
            excluded |= {(*key, at) for key in opened}
            excluded |= {(producer, epoch, -1) for kind, producer, epoch, _ in events[end:] if kind == "records"}
        known = {key[:2] for key in counted}
        first = {producer: min((epoch for other, epoch, at in excluded if other == producer
                                and (at < 0 or (other, epoch) not in known)), default=1 << 20)
                 for producer in self.epochs}
        return {(producer, epoch) for producer, epoch in known if epoch < first[producer]}

    @staticmethod
    def is_beyond(offset: int, event: Event, as_of: AsOf) -> bool:
        if as_of.offset is not None:
            return offset > as_of.offset
        return event[0] not in (COMMIT, ABORT) and as_of.time_ms is not None and event[3] > as_of.time_ms


@pytest.mark.parametrize("seed", range(6))
def test_every_transaction_is_whole_or_absent(store: Directory, tmp_path: Path, seed: int) -> None:
    history = History(seed)
    copies = [stored(store, name, events) for name, events in zip("abc", history.logs, strict=True)]
    points = [AsOf(time_ms=time) for time in range(1_000, history.now, 29)] + [AsOf(offset=at) for at in (3, 11, 20)]
    for number, as_of in enumerate(points):
        found = decide(store, [(copy, as_of) for copy in copies], (), CREATED_MS)
        place = tmp_path / str(number)
        seen: dict[tuple[int, int], set[int]] = {}
        place.mkdir()
        for at, copy in enumerate(copies):
            restore_log(store, copy, place, Ending(AsOf(offset=found.ends[copy.topic, 0] - 1), found.commits,
                                                   True, CREATED_MS, found.limits))
            with Log(place / copy.name, LogConfig()) as log:
                assert log.last_stable_offset == log.log_end_offset, "all of them have ended"
                for each in log.records(isolation="read_committed"):
                    producer, epoch = map(int, (each.value or b"").split())
                    if producer:
                        seen.setdefault((producer, epoch), set()).add(at)
        assert {key: history.where[key] for key in seen} == seen, as_of
        assert set(seen) == history.committed(as_of), as_of


def test_markers_that_become_aborts_keep_all_else() -> None:
    data = b"".join(events_as_batches([RECORDS, (COMMIT, 7, 3, 1004), ("plain", 0, 0, 1005)]))
    assert with_aborts(data, {8: 0}) == data
    changed = with_aborts(data, {7: 2})
    before, after = list(walk(data)), list(walk(changed))
    assert [bytes(each) for each in after][::2] == [bytes(each) for each in before][::2]
    one, other = control_records(bytes(before[1])), control_records(bytes(after[1]))
    assert (one[0].type_name, other[0].type_name) == (COMMIT, ABORT)
    for name in ("offset", "timestamp_ms", "producer_id", "producer_epoch", "leader_epoch", "coordinator_epoch"):
        assert getattr(one[0], name) == getattr(other[0], name), name
    assert [each.offset for each in records(changed)] == [0, 2]
