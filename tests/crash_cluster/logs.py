"""Files of a cluster at rest: whether replicas of a partition are the same byte for byte, and what they hold."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

from kraft.protocol.messages.partition_change_record import PartitionChangeRecord
from kraft.testing.history import NO_RECORD, Problem, code_of
from kraft_native.batch.batch import walk
from kraft_native.batch.records import Record, records
from tests.crash_cluster.clients import VALUE
from tests.integration.history import log_batches, log_messages

RECOVERING = 1


def log_bytes(directory: Path, topic: str, index: int) -> bytes:
    """Concatenate all segments, without the space reserved past the end of the last one."""
    found = bytearray()
    for path in sorted((directory / f"{topic}-{index}").glob("*.log")):
        data = path.read_bytes()
        written, end = len(data.rstrip(b"\0")), 0
        batches = walk(data)
        while end < written:
            end += next(batches).size_in_bytes
        found += data[:end]
    return bytes(found)


def same_replicas(directories: Sequence[Path], topic: str, index: int) -> tuple[bytes, list[Problem]]:
    """Return the log of the first replica, and how the others differ from it."""
    first, *others = (log_bytes(each, topic, index) for each in directories)
    problems = []
    for directory, other in zip(directories[1:], others, strict=True):
        if first != other:
            at = next((place for place, (one, two) in enumerate(zip(first, other, strict=False)) if one != two),
                      min(len(first), len(other)))
            problems.append(Problem(
                "inconsistent-replicas", f"{topic}-{index}: {directories[0]} has {len(first)} bytes, {directory} "
                                         f"{len(other)}; the first that differs is {at}"))
    return first, problems


def codes_in(log: bytes, index: int) -> list[int]:
    """Return a code for each offset from 0 on: `NO_RECORD` where no record exists or it is not one of the
    campaign's."""
    found: list[int] = []
    for batch in walk(log):
        for record in records(batch):
            found += [NO_RECORD] * (record.offset - len(found))
            found.append(_code_of(record, index))
    return found


def sent_again(log: bytes, index: int) -> set[int]:
    """Return the codes of records that occur again under a later epoch of their producer id: their client sent them
    again. Exclude records that also occur again under an epoch that is not later: those the cluster has to detect."""
    epochs: dict[tuple[int, int], int] = {}
    found, twice = set(), set()
    for batch in walk(log):
        for record in records(batch):
            code = _code_of(record, index)
            before = epochs.get((batch.producer_id, code))
            epochs[batch.producer_id, code] = batch.producer_epoch
            if before is not None:
                (found if batch.producer_epoch > before else twice).add(code)
    return found - twice


def _code_of(record: Record, index: int) -> int:
    value = record.value or b""
    if len(value) < VALUE.size:
        return NO_RECORD
    producer, partition, sequence = VALUE.unpack_from(value)
    return code_of(producer, sequence) if partition == index else NO_RECORD


class Changes:
    """Counts what happened to partitions by the metadata log, which is read a part further each time. Elections of the
    last known leader are counted apart from other unclean elections."""

    def __init__(self) -> None:
        self._end = 0
        self._last_known: dict[tuple[UUID, int], list[int]] = {}

    def read(self, directory: Path, end: int) -> Counter[str]:
        """Count the changes below `end` that were not read yet."""
        counts: Counter[str] = Counter()
        for offset, message in log_messages(log_batches(directory, end)):
            if offset >= self._end and isinstance(message, PartitionChangeRecord):
                self._count(message, counts)
        self._end = end
        return counts

    def _count(self, change: PartitionChangeRecord, counts: Counter[str]) -> None:
        key = change.topic_id, change.partition_id
        if change.leader_recovery_state == RECOVERING:
            known = self._last_known.get(key) == [change.leader]
            counts["elections of the last known leader"] += known
            counts["unclean elections"] += not known
        if change.last_known_elr is not None:
            self._last_known[key] = change.last_known_elr
        counts["changes of leaders"] += change.leader >= 0
        counts["changes of in-sync replicas"] += change.isr is not None
        counts["reassignments begun"] += bool(change.adding_replicas or change.removing_replicas)
        counts["reassignments done"] += change.adding_replicas == [] or change.removing_replicas == []
