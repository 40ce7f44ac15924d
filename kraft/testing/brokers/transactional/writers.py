"""Clients that write transactions: one after the other, committed, aborted, abandoned, or continued too late.

A client follows the finalized transaction.version that it learns when it begins an epoch:

- Below 2 it adds each partition before its first batch. A request without an answer may arrive later, in the next
  transaction of the same epoch. So the client begins a new epoch after one.
- From 2 on the first batch adds its partition, and each end of a transaction returns the next epoch.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from kraft.broker.transactions import state
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.error_names import name_of
from kraft.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kraft.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from kraft.protocol.messages.end_txn_request import EndTxnRequest
from kraft.protocol.messages.end_txn_response import EndTxnResponse
from kraft.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kraft.protocol.messages.init_producer_id_response import InitProducerIdResponse
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.messages.produce_response import ProduceResponse
from kraft.testing.brokers.log_view import encoded_batch
from kraft.testing.brokers.transactional.clients import TOPIC, TRANSACTION, Around, AsyncClient
from kraft.testing.sim.violation import ViolationError
from kraft.testing.transactions.history import Append, Outcome, Transaction, code_of

IMPLICIT: Final = 2
"""First transaction.version with an epoch for each transaction."""
PATIENCE_SECONDS: Final = 600.0
"""Time for which a client repeats a request that has to be answered at some time. An open transaction may delay the
answer until its time-out in addition."""
RECORDS_MAX: Final = 3
TEMPORARY: Final = (
    ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNSTABLE_OFFSET_COMMIT,
    ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NETWORK_EXCEPTION, ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH,
)


FENCED: Final = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING)


class TransactionFailedError(Exception):
    """The transaction can only be aborted. `is_fenced`: only a new epoch helps."""

    def __init__(self, why: str, *, is_fenced: bool = False) -> None:
        super().__init__(why)
        self.is_fenced = is_fenced


@dataclass(slots=True)
class Session:
    """Identity of a producer, and what it has sent with it. `is_uncertain`: a request had no answer."""

    producer_id: int
    epoch: int
    version: int
    sequences: dict[int, int] = field(default_factory=dict)
    is_uncertain: bool = False

    @property
    def is_implicit(self) -> bool:
        return self.version >= IMPLICIT


def is_permanent(error: int) -> bool:
    return error not in TEMPORARY


class Writer(AsyncClient):
    """A client with one transactional id. `is_on`: whether it begins further transactions. `partitions`: those that it
    writes."""

    def __init__(self, number: int, around: Around, random: Random, partitions: Sequence[int]) -> None:
        super().__init__(number, around, random)
        self.is_on = True
        self.name = f"id-{number}"
        self.partitions = partitions
        self._session: Session | None = None
        self._producer = self._next_producer()
        self._zombies = 0
        self.committed_count = 0
        self._has_rivals = False        # an InitProducerId that may arrive late

    def _next_producer(self) -> int:
        producers = self._around.history.producers
        producers.append(f"{self.name}/{len(producers)}")
        return len(producers) - 1

    @property
    def is_idle(self) -> bool:
        """Return whether nothing of it is under way."""
        return self.is_over and self._zombies == 0

    @property
    def patience_ends(self) -> float:
        """Time at which a request that begins now has to be answered."""
        return self._around.seconds + PATIENCE_SECONDS + self.options.transaction_ms / 1000

    def begin(self) -> None:
        """Begin to write transactions, until `is_on` ends."""
        self.is_over = False
        self.start(self._work())

    async def _work(self) -> None:
        while self.is_on:
            await self._begin_epoch()
            try:
                while (session := self._session) is not None and self.is_on:
                    await self.transaction(session)
                    await self.pause(self.options.transaction_every_ms)
            except TransactionFailedError as error:
                self.count(f"epoch ended: {error}")
                if error.is_fenced:
                    self._session = None
        await self.finish()
        self.is_over = True

    async def finish(self) -> None:
        """Do what is left after the last transaction."""

    async def _begin_epoch(self) -> None:
        """Initialise the producer id: every other producer of the id is fenced, its transaction is aborted."""
        while (version := self.transaction_version()) is None:
            await self.pause()
        before, self._session = self._session, None
        expected = before if self.happens(500) else None
        request = InitProducerIdRequest(
            transactional_id=self.name, transaction_timeout_ms=self.options.transaction_ms,
            producer_id=-1 if expected is None else expected.producer_id,
            producer_epoch=-1 if expected is None else expected.epoch)
        api_version = 5 if version >= IMPLICIT else 4
        target_id = await self.coordinator(self.name, TRANSACTION)
        has_rivals, lost = self.repeat_late(target_id, request, api_version), self.lost_answers
        found = await self.query_coordinator(
            self.name, TRANSACTION, request, api_version, InitProducerIdResponse,
            lambda answer: [answer.error_code], self.patience_ends, is_permanent)
        if expected is None:
            self._has_rivals |= has_rivals or self.lost_answers > lost
        if found is not None and found.error_code == ErrorCode.NONE:
            self.count("producer epochs begun")
            self._session = self._new_session(found.producer_id, found.producer_epoch, version)
        elif found is not None and expected is not None:
            self._judge_fencing(expected, found.error_code, self._around.seconds)

    def _new_session(self, producer_id: int, epoch: int, version: int) -> Session:
        """Check EpochInRange: a client never gets the epoch that only markers have, nor one beyond it."""
        if not 0 <= epoch <= state.LAST_CLIENT_EPOCH:
            raise ViolationError("EpochInRange", f"{self.name} gets epoch {epoch} of producer id {producer_id}")
        return Session(producer_id, epoch, version)

    def _judge_fencing(self, session: Session, error: int, began: float) -> None:
        """Check NoFencingOfTheOwner: with an epoch for each transaction, only another client of the id, or a time-out,
        takes a producer's identity from it. Where clocks go wrong, ids expire or levels change, others may."""
        options = self.options
        is_expected = (
            error not in FENCED or not session.is_implicit or self._has_rivals or options.level_every_ms > 0
            or options.skew_ppm > 0 or options.jump_every_ms > 0 or options.id_expiration_ms < PATIENCE_SECONDS * 1000
            or self._around.seconds - began > options.transaction_ms / 2000)
        if not is_expected:
            raise ViolationError("NoFencingOfTheOwner", f"{self.name} with producer id {session.producer_id} and epoch "
                                                        f"{session.epoch} got {name_of(error)}")

    # --- one transaction ----------------------------------------------------------------------------------------------

    async def transaction(self, session: Session) -> None:
        """Write one transaction, and end it or not. Raise TransactionFailedError when a new epoch is needed."""
        history = self._around.history
        number = len(history.transactions)
        transaction = history.begin(self._producer, self._around.seconds)
        self.count("transactions begun")
        until = self._around.seconds + self.options.transaction_ms / 1000
        try:
            await self.fill(session, number, transaction, until)
        except TransactionFailedError as error:
            self.count(f"transaction failed: {error}")
            transaction.outcome = Outcome.ABORTED
            if error.is_fenced:
                raise
            await self._end(session, transaction, commits=False)
            return
        if self._session is session and self.happens(self.options.abandon_per_mille):
            self._leave(session, transaction)
            raise TransactionFailedError("abandoned")
        await self._end(session, transaction, commits=not self.happens(self.options.abort_per_mille))

    def _leave(self, session: Session, transaction: Transaction) -> None:
        """Abandon the transaction. Often its end is requested nevertheless, after another epoch has begun, perhaps."""
        self.count("transactions abandoned")
        if self._random.random() < 0.5:
            transaction.outcome = Outcome.ABORTED
            return
        self._zombies += 1
        self._producer = self._next_producer()
        self.start(self._end_late(session, transaction))

    async def _end_late(self, session: Session, transaction: Transaction) -> None:
        await self.pause(self.options.transaction_ms)
        try:
            await self._end(session, transaction, commits=True, is_current=False)
        except TransactionFailedError as error:
            self.count(f"zombie: {error}")
        self._zombies -= 1

    async def fill(self, session: Session, number: int, transaction: Transaction, until: float) -> None:
        """Append some batches, at once to different partitions."""
        for _ in range(1 + self._random.randrange(2)):
            chosen = self._random.sample(self.partitions, 1 + self._random.randrange(len(self.partitions)))
            await self.append(session, number, transaction, chosen, until)

    async def append(self, session: Session, number: int, transaction: Transaction, partitions: Sequence[int],
                     until: float) -> None:
        """Append a batch to each of these partitions. Raise TransactionFailedError for any that fails."""
        if not session.is_implicit:
            await self._add(session, partitions, until)
        batches = []
        for partition in partitions:
            first, count = len(transaction.appends), 1 + self._random.randrange(RECORDS_MAX)
            transaction.appends += [Append(partition, sent=self._around.seconds)] * count
            batches.append(self._produce(session, transaction, partition, code_of(number, first), first, count, until))
        for outcome in await asyncio.gather(*batches, return_exceptions=True):
            if outcome is not None:
                raise outcome

    async def _add(self, session: Session, partitions: Sequence[int], until: float) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name, v3_and_below_producer_id=session.producer_id,
            v3_and_below_producer_epoch=session.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=list(partitions))])
        found = await self.query_coordinator(
            self.name, TRANSACTION, request, 3, AddPartitionsToTxnResponse,
            lambda answer: [each.partition_error_code for topic in answer.results_by_topic_v3_and_below
                            for each in topic.results_by_partition], until, is_permanent)
        if found is None:
            session.is_uncertain = True
            raise TransactionFailedError("partitions were not added")
        for each in found.results_by_topic_v3_and_below[0].results_by_partition:
            if each.partition_error_code:
                raise self._refused(each.partition_error_code)

    async def _produce(self, session: Session, transaction: Transaction, partition: int, value: int, first: int,
                       count: int, until: float) -> None:
        sequence = session.sequences.get(partition, 0)
        records = encoded_batch(session.producer_id, session.epoch, sequence, value, count, transactional=True)
        version = (12, 13)[self._random.randrange(2)] if session.is_implicit else 11
        is_repeated = False
        while self._around.seconds < until:
            image, known = self.image(), self.partition(TOPIC, partition)
            if image is not None and known is not None and (topic_id := image.topic_ids.get(TOPIC)) is not None:
                data = [PartitionProduceData(index=partition, records=records)]
                topic = (TopicProduceData(topic_id=topic_id, partition_data=data) if version >= 13
                         else TopicProduceData(name=TOPIC, partition_data=data))
                request = ProduceRequest(transactional_id=self.name, acks=-1, timeout_ms=self.options.request_ms,
                                         topic_data=[topic])
                if self.happens(self.options.stuck_per_mille):
                    self.count("batch stuck on its way")
                    self.send_late(known.leader, request, version)
                    session.is_uncertain = True
                    await self.pause(self.options.request_ms)
                    raise TransactionFailedError("a batch is stuck")
                is_repeated |= self.repeat_late(known.leader, request, version)
                answer = await self.query(known.leader, request, version, ProduceResponse, f"produce {partition}")
                if answer is None:
                    session.is_uncertain = True
                else:
                    [part] = answer.responses[0].partition_responses
                    if part.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                        self._stored(transaction, partition, first, count, part.base_offset)
                        session.sequences[partition] = sequence + count
                        return
                    self.count(f"ProduceResponse: {name_of(part.error_code)}")
                    if is_permanent(part.error_code):
                        # What is refused now may be stored later, by a transaction of the same epoch.
                        session.is_uncertain |= is_repeated
                        self._judge_fencing(session, part.error_code, transaction.began)
                        raise self._refused(part.error_code)
            await self.pause()
        session.is_uncertain = True
        raise TransactionFailedError("a batch was not stored in time")

    @staticmethod
    def _stored(transaction: Transaction, partition: int, first: int, count: int, base_offset: int) -> None:
        for index in range(count):
            if base_offset >= 0:
                transaction.appends[first + index] = Append(
                    partition, base_offset + index, transaction.appends[first + index].sent)

    @staticmethod
    def _refused(error: int) -> TransactionFailedError:
        is_abortable = error in (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE,
                                 ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        return TransactionFailedError(name_of(error), is_fenced=not is_abortable)

    async def _end(self, session: Session, transaction: Transaction, *, commits: bool,
                   is_current: bool = True) -> None:
        """End the transaction, however long that takes. Raise TransactionFailedError when a new epoch is needed."""
        transaction.outcome = Outcome.UNKNOWN if commits else Outcome.ABORTED
        if not commits and session.is_uncertain and not session.is_implicit and self._random.random() < 0.5:
            raise TransactionFailedError("a request may arrive late")
        if commits:
            transaction.ending = self._around.seconds
        request = EndTxnRequest(transactional_id=self.name, producer_id=session.producer_id,
                                producer_epoch=session.epoch, committed=commits)
        version = 5 if session.is_implicit else 4
        if session.is_implicit:
            self.repeat_late(await self.coordinator(self.name, TRANSACTION), request, version)
        lost = self.lost_answers
        found = await self.query_coordinator(
            self.name, TRANSACTION, request, version, EndTxnResponse, lambda answer: [answer.error_code],
            self.patience_ends, is_permanent)
        if found is not None and found.error_code and is_current:
            self._judge_fencing(session, found.error_code, transaction.began)
        if found is None or found.error_code:
            raise TransactionFailedError("no answer to EndTxn" if found is None else name_of(found.error_code),
                                         is_fenced=True)
        transaction.outcome = Outcome.COMMITTED if commits else Outcome.ABORTED
        transaction.ended = self._around.seconds
        self.count("transactions committed" if commits else "transactions aborted")
        if not is_current:
            return
        self.committed_count += commits
        if session.is_implicit:
            self._session = self._new_session(found.producer_id, found.producer_epoch, session.version)
        elif session.is_uncertain or self.lost_answers > lost:
            raise TransactionFailedError("a request may arrive late")
