"""Clients that consume a partition with read_committed, and write outputs and their group's offset in one
transaction."""

from collections.abc import Sequence
from random import Random
from typing import Final

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from kraft.protocol.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from kraft.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kraft.protocol.messages.offset_fetch_response import OffsetFetchResponse
from kraft.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kraft.protocol.messages.txn_offset_commit_response import TxnOffsetCommitResponse
from kraft.testing.brokers.transactional.clients import GROUP, TOPIC, TRANSACTION, Around
from kraft.testing.brokers.transactional.readers import PartitionReader
from kraft.testing.brokers.transactional.writers import (
    Session,
    TransactionFailedError,
    Writer,
    is_permanent,
)
from kraft.testing.transactions.history import Input, OffsetCommit, OffsetRead, Transaction

OFFSET_FETCH_VERSION: Final = 8
INPUTS_MAX: Final = 5
UNKNOWN: Final = -1


class Transformer(Writer):
    """A client that processes partition `source` for a group of its own, and writes to `partitions`."""

    def __init__(self, number: int, around: Around, random: Random, source: int, partitions: Sequence[int],
                 reader: PartitionReader) -> None:
        super().__init__(number, around, random, partitions)
        self.group = f"group-{number}"
        self._source = source
        self._reader = reader
        self._position = UNKNOWN

    async def fill(self, session: Session, number: int, transaction: Transaction, until: float) -> None:
        """Consume some records, and write their outputs with the group's offset. Without records write nothing."""
        before, self._position = self._position, UNKNOWN
        position = await self.read_offset() if before == UNKNOWN else before
        polled = await self._reader.poll(self._source, position)
        inputs = [] if polled is None else polled.records[:INPUTS_MAX]
        if polled is None or not inputs:
            self._position = position if polled is None else polled.position
            await super().fill(session, number, transaction, until)
            return
        end = inputs[-1][0] + 1
        transaction.inputs += [Input(self._source, offset, code) for offset, code in inputs]
        transaction.commits.append(OffsetCommit(self.group, self._source, end))
        steps = [self.append(session, number, transaction, [self._random.choice(self.partitions)], until),
                 self._commit_offset(session, end, until)]
        if self._random.random() < 0.5:
            steps.reverse()
        try:
            for step in steps:
                await step
        finally:
            for step in steps:
                step.close()
        self._position = end

    async def transaction(self, session: Session) -> None:
        committed = self.committed_count
        try:
            await super().transaction(session)
        finally:
            if self.committed_count == committed:
                self._position = UNKNOWN    # its inputs are processed again, unless it was committed nevertheless

    async def finish(self) -> None:
        """Read the offset that the judge takes for the final one. Transactions that are open still end first."""
        await self.read_offset()

    async def read_offset(self) -> int:
        """Read the committed offset of the group, once it is stable. A group without one begins at 0."""
        history = self._around.history
        sent = self._around.seconds
        request = OffsetFetchRequest(require_stable=True, groups=[OffsetFetchRequestGroup(
            group_id=self.group, topics=[OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[self._source])])])
        found = await self.query_coordinator(
            self.group, GROUP, request, OFFSET_FETCH_VERSION, OffsetFetchResponse, _errors_of,
            self.patience_ends, is_permanent)
        assert found is not None, f"{self.group}: its offset is not read"
        assert not any(_errors_of(found)), f"{self.group}: its offset cannot be read"
        offset = found.groups[0].topics[0].partitions[0].committed_offset
        history.offset_reads.append(OffsetRead(self.group, self._source, offset, sent, self._around.seconds))
        return max(0, offset)

    async def _commit_offset(self, session: Session, offset: int, until: float) -> None:
        if not session.is_implicit:
            adding = AddOffsetsToTxnRequest(transactional_id=self.name, producer_id=session.producer_id,
                                            producer_epoch=session.epoch, group_id=self.group)
            added = await self.query_coordinator(
                self.name, TRANSACTION, adding, 3, AddOffsetsToTxnResponse, lambda answer: [answer.error_code], until,
                is_permanent)
            self._check(session, None if added is None else added.error_code, until)
        request = TxnOffsetCommitRequest(
            transactional_id=self.name, producer_id=session.producer_id, producer_epoch=session.epoch,
            group_id=self.group, topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[
                TxnOffsetCommitRequestPartition(partition_index=self._source, committed_offset=offset)])])
        version = 5 if session.is_implicit else 4
        is_repeated = self.repeat_late(await self.coordinator(self.group, GROUP), request, version)
        if not session.is_implicit:
            session.is_uncertain |= is_repeated    # a later transaction of this epoch would commit the late one
        found = await self.query_coordinator(
            self.group, GROUP, request, version, TxnOffsetCommitResponse,
            lambda answer: [each.error_code for topic in answer.topics for each in topic.partitions], until,
            is_permanent)
        self._check(session, None if found is None else found.topics[0].partitions[0].error_code, until)

    def _check(self, session: Session, error: int | None, until: float) -> None:
        if error is None:
            session.is_uncertain = True
            raise TransactionFailedError("an offset was not committed in time")
        if error != ErrorCode.NONE:
            self._judge_fencing(session, error, until - self.options.transaction_ms / 1000)
            raise self._refused(error)


def _errors_of(answer: OffsetFetchResponse) -> list[int]:
    group = answer.groups[0]
    return [group.error_code, *(each.error_code for topic in group.topics for each in topic.partitions)]
