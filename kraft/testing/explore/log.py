"""The log of an explored node: that of `kraft.testing.memory_log`, as invariants look at it. A record is a batch."""

from collections.abc import Callable, Sequence
from typing import cast

from kraft.raft.ports import AppendedControl
from kraft.raft.types import OffsetAndEpoch
from kraft.testing.explore.frozen import Chain, Chains
from kraft.testing.memory_log import MemoryLog, Record
from kraft.testing.sim.batches import Batch, Content, Value

PORTS = ("chains", "watch")


class ExploredLog(MemoryLog):
    """`watch` is told every batch that comes into the log while the node runs."""

    chains: Chains
    watch: Callable[[Batch], None]

    @classmethod
    def opened(cls, chains: Chains, records: Sequence[Record]) -> "ExploredLog":
        """A log on whose disk these records are."""
        log = cls()
        log.chains = chains
        for record in records:
            log._add(record)
        log._durable_end = len(records)
        return log

    def append(self, records: object, epoch: int, now_ms: int) -> int:
        end_offset = self.end.offset
        super().append(records, epoch, now_ms)
        self._tell(end_offset)
        return self.end.offset

    def append_fetched(self, records: object, epoch: int) -> tuple[AppendedControl, ...]:
        end_offset = self.end.offset
        controls = super().append_fetched(records, epoch)
        self._tell(end_offset)
        return controls

    def _tell(self, start_offset: int) -> None:
        for batch in self.between(start_offset, self.end.offset):
            self.watch(batch)

    # --- as the invariants look at it

    @property
    def batches(self) -> list[Batch]:
        return self.between(0, self.end.offset)

    def chain_at(self, end_offset: int) -> Chain:
        return self.chains.of(self.records[:end_offset])

    def id_at(self, end_offset: int) -> tuple[OffsetAndEpoch, Chain] | None:
        """The end of the record that ends there, and the chain up to it; None when none does."""
        if not 0 <= end_offset <= self.end.offset:
            return None
        epoch = self.record_at(end_offset - 1).epoch if end_offset else 0
        return OffsetAndEpoch(end_offset, epoch), self.chain_at(end_offset)

    def between(self, start_offset: int, end_offset: int) -> list[Batch]:
        """The batches of the offsets from `start_offset` up to, not including, `end_offset`."""
        batches = []
        for offset in range(start_offset, min(end_offset, self.end.offset)):
            epoch, value = self.record_at(offset)
            content = cast(Content, value if isinstance(value, Value) else (value,))
            batches.append(Batch(offset, offset + 1, epoch, content, b"", self.chain_at(offset + 1)))
        return batches

    @property
    def durable_offset(self) -> int:
        """Where the part ends that is on the disk as it is here."""
        durable, records = self.durable.records, self.records
        count = 0
        while count < min(len(durable), len(records)) and durable[count] == records[count]:
            count += 1
        return count

    @property
    def unflushed(self) -> int:
        """How many of the last records a loss of power may leave or take."""
        return 0 if self._overwritten is not None else self.end.offset - self._durable_end
