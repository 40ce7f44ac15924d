"""The log of an explored node: that of `kraft.testing.memory_log`, with the view that invariants need. Each record is a
batch."""

from collections.abc import Callable, Sequence
from typing import cast

from kraft.raft.ports import AppendedControl
from kraft.raft.types import OffsetAndEpoch
from kraft.testing.explore.frozen import Chain, Chains
from kraft.testing.memory_log import MemoryLog, Record
from kraft.testing.sim.batches import Batch, Content, Value

PORTS = ("chains", "watch")


class ExploredLog(MemoryLog):
    """Log of an explored node. `watch` receives every batch that enters the log while the node runs."""

    chains: Chains
    watch: Callable[[Batch], None]

    @classmethod
    def opened(cls, chains: Chains, records: Sequence[Record]) -> "ExploredLog":
        """Create a log that has these records on its disk."""
        log = cls()
        log.chains = chains
        for record in records:
            log._add(record)
        log._durable_end = len(records)
        return log

    def append(self, records: object, epoch: int, now_ms: int) -> int:
        end_offset = self.end.offset
        super().append(records, epoch, now_ms)
        self._set_start(end_offset)
        return self.end.offset

    def append_fetched(self, records: object, epoch: int) -> tuple[AppendedControl, ...]:
        end_offset = self.end.offset
        controls = super().append_fetched(records, epoch)
        self._set_start(end_offset)
        return controls

    def _set_start(self, start_offset: int) -> None:
        for batch in self.between(start_offset, self.end.offset):
            self.watch(batch)

    # --- LogView, for the invariants

    @property
    def batches(self) -> list[Batch]:
        return self.between(0, self.end.offset)

    def chain_at(self, end_offset: int) -> Chain:
        return self.chains.of(self.records[:end_offset])

    def id_at(self, end_offset: int) -> tuple[OffsetAndEpoch, Chain] | None:
        """Return the id of the record end at `end_offset` and the chain up to it, or None when no record ends there."""
        if not 0 <= end_offset <= self.end.offset:
            return None
        epoch = self.record_at(end_offset - 1).epoch if end_offset else 0
        return OffsetAndEpoch(end_offset, epoch), self.chain_at(end_offset)

    def between(self, start_offset: int, end_offset: int) -> list[Batch]:
        """Return the batches from `start_offset` to `end_offset` (exclusive)."""
        batches = []
        for offset in range(start_offset, min(end_offset, self.end.offset)):
            epoch, value = self.record_at(offset)
            content = cast(Content, value if isinstance(value, Value) else (value,))
            batches.append(Batch(offset, offset + 1, epoch, content, b"", self.chain_at(offset + 1)))
        return batches

    @property
    def durable_offset(self) -> int:
        """End of the prefix of this log that is on the disk."""
        durable, records = self.durable.records, self.records
        count = 0
        while count < min(len(durable), len(records)) and durable[count] == records[count]:
            count += 1
        return count

    @property
    def unflushed(self) -> int:
        """Number of the last records that a loss of power may keep or lose."""
        return 0 if self._overwritten is not None else self.end.offset - self._durable_end
