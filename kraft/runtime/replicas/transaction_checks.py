"""Driver of the checks of transactions: to the coordinator on this node, or over one connection to each other broker.

`kraft.broker.transaction_checks` decides what a request holds. A check that is not answered in `request.timeout.ms`
ends with an error that clients retry.
"""

import asyncio
import logging
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from kraft.broker.broker import Broker
from kraft.broker.coordinator.hashing import partition_of
from kraft.broker.groups.ports import Transaction
from kraft.broker.internal_topics import OFFSETS_TOPIC, TRANSACTION_TOPIC
from kraft.broker.transaction_checks import CheckQueue, TransactionCheck, errors_of, request_of
from kraft.broker.transactions.events import OnEvent, VerificationRefused, ignore
from kraft.broker.transactions.ports import Query
from kraft.broker.transactions.state import EPOCH_PER_TRANSACTION, Identity
from kraft.metadata.image import NO_LEADER
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from kraft.raft.types import Endpoint
from kraft.runtime.net.controller_channel import KeptLine, Line
from kraft.runtime.net.dialer import Dialer
from kraft.runtime.replicas.leader_queries import address_of
from kraft_native.base.errors import KraftError, UnsupportedVersionError
from kraft_native.partition.table import PartitionTable
from kraft_native.request.times import BUCKET_ENDS_NS

log = logging.getLogger(__name__)

BROKER_VERSION_MIN: Final = 4
"""First version of AddPartitionsToTxn that is a broker's request."""

ERRORS: Final = {int(each): each for each in ErrorCode}
ENABLED: Final = "transaction.partition.verification.enable"

LocalCoordinator = Callable[[Query, Callable[[Sequence[int]], None]], None]


class TransactionChecks:
    """Checks of transactions for one broker. Loop thread only. `on_failure` is called with a fault of our own.

    `local` is the coordinator on this node; until it is set, transactions that this node coordinates are refused.
    """

    def __init__(self, broker: Broker, dialer: Dialer, on_failure: Callable[[BaseException], object]) -> None:
        self.broker = broker
        self.dialer = dialer
        self.local: LocalCoordinator | None = None
        self.total = 0
        """Partitions checked since the start."""
        self.refused_total = 0
        """Partitions whose check failed."""
        self.time_counts = [0] * (len(BUCKET_ENDS_NS) + 1)
        """Checks by their time, in the buckets of request times."""
        self.time_sum_ns = 0
        self.on_event: OnEvent = ignore
        self._on_failure = on_failure
        self._loop = asyncio.get_running_loop()
        self._senders: dict[int, _Sender] = {}
        self._timers: dict[asyncio.TimerHandle, None] = {}
        self._closed = False

    @property
    def are_due(self) -> bool:
        """True unless transactions begin unchecked (transaction.partition.verification.enable)."""
        return bool(self.broker.setting(ENABLED))

    def verify(self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: list[tuple[str, int]],
               adds: bool, callback: Callable[[Sequence[int]], None]) -> None:
        """Have the coordinator confirm that the partitions are in the producer's transaction, or add them. `callback`
        gets an error per partition, and is not called before this returns."""
        now = self._loop.time()
        self._loop.call_soon(self._submit, TransactionCheck(
            transactional_id, producer_id, producer_epoch, tuple(partitions), adds, callback, now,
            now + self.timeout_seconds))

    @property
    def timeout_seconds(self) -> float:
        return self.broker.integer("request.timeout.ms") / 1000

    def close(self) -> None:
        """Answer nothing further."""
        self._closed = True
        for timer in self._timers:
            timer.cancel()
        for sender in self._senders.values():
            sender.close()

    def _submit(self, check: TransactionCheck) -> None:
        if self._closed:
            return
        topic = self.broker.image.topic(TRANSACTION_TOPIC)
        leader = NO_LEADER if topic is None else topic.partitions[
            partition_of(check.transactional_id, len(topic.partitions))].leader
        if leader == self.broker.node_id and self.local is not None:
            identity = Identity(check.producer_id, check.producer_epoch)
            query = Query(check.transactional_id, identity, check.partitions, check.adds, EPOCH_PER_TRANSACTION)
            self.local(query, partial(self._conclude, check))
        elif leader in (NO_LEADER, self.broker.node_id) or address_of(self.broker, leader) is None:
            self.refuse([check], ErrorCode.COORDINATOR_NOT_AVAILABLE)
        else:
            sender = self._senders.get(leader)
            if sender is None:
                sender = self._senders[leader] = _Sender(leader, self)
            sender.add(check)

    def answer(self, checks: Sequence[TransactionCheck], response: AddPartitionsToTxnResponse) -> None:
        """Pass the coordinator's answer on. A partition that the coordinator cannot add yet, because it is still ending
        the previous transaction, is tried again for a short time: the client would do the same."""
        for check, errors in zip(checks, errors_of(checks, response), strict=True):
            self._conclude(check, errors)

    def _conclude(self, check: TransactionCheck, errors: Sequence[int]) -> None:
        if check.adds and ErrorCode.CONCURRENT_TRANSACTIONS in errors and self._may_retry(check):
            self._later(check)
        else:
            self._done(check, errors)

    def refuse(self, checks: Sequence[TransactionCheck], code: ErrorCode) -> None:
        """End checks with an error of this node's own."""
        for check in checks:
            self._done(check, [code] * len(check.partitions))

    def _may_retry(self, check: TransactionCheck) -> bool:
        limit = self.broker.integer("add.partitions.to.txn.retry.backoff.max.ms") / 1000
        return self._loop.time() - check.begun < min(limit, self.timeout_seconds)

    def _later(self, check: TransactionCheck) -> None:
        def due() -> None:
            del self._timers[timer]
            self._submit(check)

        timer = self._loop.call_later(self.broker.integer("add.partitions.to.txn.retry.backoff.ms") / 1000, due)
        self._timers[timer] = None

    def _done(self, check: TransactionCheck, errors: Sequence[int]) -> None:
        if self._closed:
            return
        time_ns = int((self._loop.time() - check.begun) * 1e9)
        self.time_counts[bisect_left(BUCKET_ENDS_NS, time_ns)] += 1
        self.time_sum_ns += time_ns
        self.total += len(errors)
        for (topic, partition), error in zip(check.partitions, errors, strict=True):
            if error != ErrorCode.NONE:
                self.refused_total += 1
                self.on_event(VerificationRefused(check.transactional_id, check.producer_id, check.producer_epoch,
                                                  topic, partition, error))
        try:
            check.done(errors)
        except Exception as error:  # noqa: BLE001 - a Produce that is never answered would be worse
            self._on_failure(error)


class _Sender:
    """The checks for one broker, over one connection that is opened when there is something to send."""

    def __init__(self, node_id: int, checks: TransactionChecks) -> None:
        self._node_id = node_id
        self._checks = checks
        self._queue = CheckQueue()
        self._kept = KeptLine(f"broker-{checks.broker.node_id}-transactions", checks.dialer)
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        """Opens the connection, while that is necessary."""
        self._is_busy = False
        self._is_closed = False

    def add(self, check: TransactionCheck) -> None:
        self._queue.add(check)
        if not self._is_busy:
            self._is_busy = True
            self._loop.call_soon(self._next)       # with those that come in the same iteration

    def close(self) -> None:
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
        self._kept.close()

    def _next(self) -> None:
        """Send the next request, if checks wait."""
        if self._is_closed:
            return
        checks = self._queue.take(self._loop.time())
        self._is_busy = bool(checks)
        if not checks:
            return
        address = address_of(self._checks.broker, self._node_id)
        line = None if address is None else self._kept.opened(address)
        if line is not None:
            self._request(checks, line)
        else:
            self._task = self._loop.create_task(self._open(checks, address))

    async def _open(self, checks: Sequence[TransactionCheck], address: Endpoint | None) -> None:
        """Send the first request of a connection, once it is open."""
        try:
            if address is None:
                raise ConnectionError(f"broker {self._node_id} is not registered")
            line = await self._kept.to(address)
        except (OSError, KraftError) as error:
            self._task = None
            self._refuse(checks, error)
        else:
            self._task = None
            self._request(checks, line)

    def _request(self, checks: Sequence[TransactionCheck], line: Line) -> None:
        try:
            version = line.versions.best(ApiKey.ADD_PARTITIONS_TO_TXN)
            if version < BROKER_VERSION_MIN:
                raise UnsupportedVersionError(
                    f"it has AddPartitionsToTxn {version}, {BROKER_VERSION_MIN} is needed")
            line.call(request_of(checks), version, self._checks.timeout_seconds,
                      partial(self._received, checks, version))
        except KraftError as error:
            self._refuse(checks, error)

    def _received(self, checks: Sequence[TransactionCheck], version: int, body: memoryview | None) -> None:
        if self._is_closed:
            return
        try:
            if body is None:
                raise ConnectionError("it did not answer")
            response = AddPartitionsToTxnResponse.decode(body, version)
        except (OSError, KraftError) as error:
            self._refuse(checks, error)
        else:
            self._checks.answer(checks, response)
            self._next()

    def _refuse(self, checks: Sequence[TransactionCheck], error: Exception) -> None:
        """End checks whose request failed, and send the next one."""
        code = ErrorCode.NETWORK_EXCEPTION
        if isinstance(error, UnsupportedVersionError):
            log.warning("broker %d coordinates transactions, but cannot verify them: %s", self._node_id, error)
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        else:
            self._kept.close()
            if isinstance(error, KraftError):
                log.warning("broker %d answers with what cannot be read: %s", self._node_id, error)
            else:
                log.debug("broker %d does not verify transactions: %r", self._node_id, error)
        self._checks.refuse(checks, code)
        self._loop.call_soon(self._next)


class OffsetsTransactions:
    """The group coordinator's port to the checks. `answered` is called after an answer, because deadlines may have
    moved. `checks` is set once they exist: the broker of theirs has the coordinator."""

    def __init__(self, table: PartitionTable, clock: Callable[[], int], answered: Callable[[], None]) -> None:
        self._table = table
        self._clock = clock
        self._on_answered = answered
        self.checks: TransactionChecks | None = None

    def verify(self, partition: int, transaction: Transaction, *, adds: bool, knows_abortable: bool,
               done: Callable[[ErrorCode, int], None]) -> None:
        """See `TransactionPort`."""
        def answered(errors: Sequence[int]) -> None:
            done(_offsets_error(errors[0], knows_abortable), self._clock())
            self._on_answered()

        assert self.checks is not None
        target = self._table.get(OFFSETS_TOPIC, partition)
        producer = transaction.producer
        if (not self.checks.are_due and not adds) or (
                target is not None and target.has_open_transaction(producer.producer_id, producer.epoch)):
            done(ErrorCode.NONE, self._clock())
        else:
            self.checks.verify(transaction.transactional_id, producer.producer_id, producer.epoch,
                               [(OFFSETS_TOPIC, partition)], adds, answered)


def _offsets_error(code: int, knows_abortable: bool) -> ErrorCode:
    error = ERRORS.get(code, ErrorCode.UNKNOWN_SERVER_ERROR)
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return error
