"""The real metadata machine on the simulated log: the controller of a node while it leads."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from kraft.controller.commit import QuorumState
from kraft.controller.machine import CommittedRecord, MetadataMachine
from kraft.metadata.image import MetadataImage
from kraft.metadata.replay import Replayer
from kraft.metadata.snapshot import image_records
from kraft.protocol.message import Message
from kraft.protocol.record_frames import decode_record
from kraft.raft.ready import Leadership
from kraft.raft.transitions import Role
from kraft.raft.types import OffsetAndEpoch
from kraft.testing.sim.batches import Batch, Payloads

if TYPE_CHECKING:
    from kraft.testing.brokers.node import BrokerNode


class MetadataPayloads(Payloads):
    """Metadata records in one batch, and the time of their append."""

    def __init__(self, payloads: Sequence[bytes], timestamp_ms: int) -> None:
        super().__init__(len(payloads), sum(map(len, payloads)))
        self._payloads = payloads
        self.timestamp_ms = timestamp_ms

    @cached_property
    def messages(self) -> tuple[Message, ...]:
        return tuple(decode_record(payload)[0] for payload in self._payloads)


def committed_records(batch: Batch) -> Iterator[CommittedRecord]:
    """Yield the records of a batch of the metadata log, as the state machine gets them."""
    content = batch.content
    if isinstance(content, MetadataPayloads):
        for offset, message in enumerate(content.messages, batch.base_offset):
            yield CommittedRecord(offset, batch.epoch, content.timestamp_ms, message, offset == batch.end_offset - 1)
    else:
        yield CommittedRecord(batch.end_offset - 1, batch.epoch, 0, None, ends_batch=True)


def image_of_snapshot(image: MetadataImage, snapshot: OffsetAndEpoch) -> MetadataImage:
    """Return the image that a node gets when it loads the snapshot: the image's records are replayed."""
    replayer = Replayer()
    for offset, record in enumerate(image_records(image)):
        replayer.replay(record.message, offset, snapshot.epoch, 0)
    replayer.take()
    return replace(replayer.image, offset=snapshot.offset - 1, epoch=snapshot.epoch)


class SimMachine(MetadataMachine):
    def __init__(self, node: "BrokerNode", image: MetadataImage | None) -> None:
        self._node = node
        super().__init__(node.settings, node.rules, node.new_id, lambda: node.now_ms, image)

    def leadership_changed(self, leadership: Leadership) -> None:
        self.led(leadership.epoch, leadership.epoch_start, leads=leadership.role is Role.LEADER)

    def read(self, offset: int, end_offset: int) -> Iterator[CommittedRecord]:
        start_offset = self._node.log.start_offset
        assert start_offset <= offset, f"the log starts at {start_offset}, records are read from {offset}"
        for batch in self._node.log.between(offset, end_offset):
            for record in committed_records(batch):
                if record.offset >= offset:
                    yield record

    @property
    def end_offset(self) -> int:
        return self._node.log.end.offset

    def append(self, payloads: Sequence[bytes], now_ms: int) -> int:
        return self._node.append(MetadataPayloads(payloads, now_ms), self.leader_epoch) - 1

    def describe_quorum(self, now_ms: int) -> QuorumState:  # noqa: ARG002 - the core has a clock of its own
        """Return the leader, epoch and high watermark; the simulator needs no more."""
        replica = self._node.raft.replica
        return QuorumState(replica.leader_id, replica.epoch, replica.high_watermark, ())
