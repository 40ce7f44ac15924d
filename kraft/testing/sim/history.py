"""Observations of clients, and the check that a log agrees with them. The classes are those of Jepsen's checker for
Kafka."""

from bisect import bisect_right
from dataclasses import dataclass

from kraft.testing.sim.batches import Value
from kraft.testing.sim.ledger import Ledger
from kraft.testing.sim.violation import ViolationError


@dataclass(slots=True)
class Operation:
    """One proposed value. `end_offset`: that of its batch, -1 when it was refused. `acknowledged_us`: -1 when no node
    reported its commit; then it may be committed or not."""

    value: Value
    invoked_us: int
    end_offset: int = -1
    epoch: int = -1
    acknowledged_us: int = -1


@dataclass(slots=True)
class _Waiting:
    life: int
    operation: Operation


class History:
    """History of a run; `operations` are in the order in which they were invoked."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self._waiting: dict[int, list[_Waiting]] = {}

    def invoked(self, value: Value, now_us: int) -> Operation:
        operation = Operation(value, now_us)
        self.operations.append(operation)
        return operation

    def accepted(self, operation: Operation, node_id: int, life: int, end_offset: int, epoch: int) -> None:
        """Record that a leader has appended the value and waits for its commit."""
        operation.end_offset, operation.epoch = end_offset, epoch
        self._waiting.setdefault(node_id, []).append(_Waiting(life, operation))

    def committed(self, node_id: int, life: int, leads_epoch: int, high_watermark: int, now_us: int) -> int:
        """Acknowledge the values below a high watermark that a node exposes: those that it appended in the epoch that
        it still leads. Return their number."""
        waiting, kept, count = self._waiting.get(node_id, []), [], 0
        for each in waiting:
            operation = each.operation
            if each.life != life or operation.epoch != leads_epoch:
                continue
            if operation.end_offset <= high_watermark:
                operation.acknowledged_us = now_us
                count += 1
            else:
                kept.append(each)
        self._waiting[node_id] = kept
        return count

    @property
    def acknowledged(self) -> int:
        return sum(1 for each in self.operations if each.acknowledged_us >= 0)


def check(history: History, ledger: Ledger) -> None:
    """Check the history against the ledger. Raises a `ViolationError` named after the class."""
    places = _places(ledger)
    for operation in history.operations:
        place = places.get(operation.value)
        if operation.acknowledged_us >= 0:
            if place is None:
                raise ViolationError("lost-write", f"{operation.value} was acknowledged at {operation.end_offset}, and "
                                                   f"is missing")
            if place != operation.end_offset:
                raise ViolationError("inconsistent-offsets",
                                     f"{operation.value} was acknowledged at {operation.end_offset} and is at {place}")
        elif operation.end_offset < 0 and place is not None:
            raise ViolationError("G1a", f"{operation.value} was refused, and is at {place}")
    _check_real_time(history)


def _places(ledger: Ledger) -> dict[Value, int]:
    """Return the end offset of each value. Raises `duplicate` when a value is at two offsets."""
    places: dict[Value, int] = {}
    for batch in ledger.contents():
        if isinstance(batch.content, Value):
            if batch.content in places:
                raise ViolationError("duplicate", f"{batch.content} is at {places[batch.content]} and "
                                                  f"{batch.end_offset}")
            places[batch.content] = batch.end_offset
    return places


def _check_real_time(history: History) -> None:
    """nonmonotonic-send: check that a value proposed after the acknowledgement of another one is behind it in the
    log."""
    done = sorted((each for each in history.operations if each.acknowledged_us >= 0),
                  key=lambda each: each.acknowledged_us)
    times = [each.acknowledged_us for each in done]
    highest: list[int] = []
    for operation in done:
        highest.append(max(operation.end_offset, highest[-1] if highest else 0))
    for operation in done:
        before = bisect_right(times, operation.invoked_us - 1)
        if before and highest[before - 1] >= operation.end_offset:
            raise ViolationError(
                "nonmonotonic-send", f"{operation.value} is at {operation.end_offset}, and was proposed after "
                                     f"something at {highest[before - 1]} was acknowledged")
