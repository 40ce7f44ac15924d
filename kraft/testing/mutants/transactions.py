"""Bugs in transactions: ten that other implementations had, and others. They are applied to the real code of the
coordinators and their drivers."""

from dataclasses import replace
from typing import Any, Final

from kraft.broker.apis import write_txn_markers
from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.groups.coordinator import GroupCoordinator
from kraft.broker.groups.shard import GroupShard
from kraft.broker.marker_appends import NOWHERE, Appended
from kraft.broker.transactions import (
    ending,
    expiry,
    init_producer,
    markers,
    partition_requests,
    records,
    requests,
)
from kraft.broker.transactions.markers import MarkerQueue
from kraft.broker.transactions.shard import TransactionShard
from kraft.broker.transactions.state import Identity, Status, Transaction
from kraft.protocol.error_codes import ErrorCode
from kraft.runtime.replicas import marker_sender
from kraft.runtime.replicas.transaction_checks import TransactionChecks
from kraft.testing.mutants.patches import Collection, Patches

TRANSACTIONS = Collection()

EXHAUSTED: Final[dict[str, int | bool]] = {"epochs": 6, "transaction_version": 2, "level_every_ms": 0,
                                           "transaction_every_ms": 5}


@TRANSACTIONS.add(0, "KAFKA-17754, Jepsen: Bufstream", transaction_version=2, level_every_ms=0, repeat_per_mille=300)
def late_end_decides_a_later_transaction(patches: Patches) -> None:
    """EndTxn is accepted with any epoch of the producer, so a delayed one ends a transaction that began later."""
    def around(original: Any) -> Any:
        def end(transaction: Any, request: Any, now_ms: int, new_producer_id: int | None) -> Any:
            if (transaction is not None and transaction.status is Status.ONGOING
                    and request.identity.producer_id == transaction.client.producer_id):
                request = request._replace(identity=transaction.client)
            return original(transaction, request, now_ms, new_producer_id)

        return end

    patches.put(requests, "end", around(ending.end))


@TRANSACTIONS.add(0, "KAFKA-18957, franz-go #928", transaction_version=2, level_every_ms=0)
def confirmed_partition_is_not_added(patches: Patches) -> None:
    """The coordinator confirms a partition to its leader and does not add it, if the transaction has others already.
    The partition gets no marker."""
    def around(original: Any) -> Any:
        def add(transaction: Any, identity: Any, partitions: Any, client_version: int, now_ms: int) -> Any:
            added = original(transaction, identity, partitions, client_version, now_ms)
            return None if transaction.status is Status.ONGOING and client_version >= 2 else added

        return add

    patches.wrap(partition_requests, "add", around)


@TRANSACTIONS.add(0, "KAFKA-19999", coordinate_every_ms=200, transaction_version=2, level_every_ms=0, transactions=4,
                  transaction_every_ms=5)
def repeated_marker_is_refused(patches: Patches) -> None:
    """A partition refuses a marker that it has already, so the coordinator repeats it indefinitely."""
    written: dict[tuple[object, ...], None] = {}

    def around(original: Any) -> Any:
        def append(broker: Any, end: Any, topic: str, index: int, now_ms: int) -> Any:
            place = broker.epoch, broker.node_id, topic, index, end.producer_id, end.producer_epoch
            if end.transaction_version >= 2 and place in written:
                return Appended(None, NOWHERE, ErrorCode.INVALID_PRODUCER_EPOCH)
            appended = original(broker, end, topic, index, now_ms)
            if not appended.error:
                written[place] = None
            return appended

        return append

    for module in (write_txn_markers, marker_sender):
        patches.wrap(module, "append_marker", around)
    patches.put(markers, "DONE", (ErrorCode.NONE,))


@TRANSACTIONS.add(0, "KAFKA-19367", abandon_per_mille=400, **EXHAUSTED)
def abort_bumps_the_epoch_twice(patches: Patches) -> None:
    """An abort by a new client raises the epoch by two, past the last one that a client may get."""
    def around(original: Any) -> Any:
        def abort(transaction: Any, transaction_version: int, now_ms: int, new_producer_id: int | None) -> Any:
            aborted = original(transaction, transaction_version, now_ms, new_producer_id)
            return replace(aborted, producer_epoch=aborted.producer_epoch + 1)

        return abort

    patches.wrap(init_producer, "abort_by_coordinator", around)


@TRANSACTIONS.add(0, "KAFKA-18660", **EXHAUSTED)
def exhausted_epoch_returns_the_old_id(patches: Patches) -> None:
    """EndTxn returns the old producer id with the first epoch of the next one when the epochs are exhausted."""
    def around(original: Any) -> Any:
        def end(transaction: Any, request: Any, now_ms: int, new_producer_id: int | None) -> Any:
            ended = original(transaction, request, now_ms, new_producer_id)
            return ended._replace(identity=Identity(request.identity.producer_id, ended.identity.epoch))

        return end

    patches.put(requests, "end", around(ending.end))


@TRANSACTIONS.add(0, "KAFKA-20090", abandon_per_mille=300, **EXHAUSTED)
def exhausted_transaction_does_not_time_out(patches: Patches) -> None:
    """A transaction in the last epoch of its producer id cannot be aborted by the coordinator."""
    def around(original: Any) -> Any:
        def abort(transaction: Any, transaction_version: int, now_ms: int, new_producer_id: int | None) -> Any:
            if transaction.client.is_exhausted:
                raise RefusedError(ErrorCode.CONCURRENT_TRANSACTIONS)
            return original(transaction, transaction_version, now_ms, new_producer_id)

        return abort

    patches.wrap(init_producer, "abort_by_coordinator", around)
    patches.wrap(expiry, "abort_by_coordinator", around)


@TRANSACTIONS.add(0, "KAFKA-20310, KAFKA-20357", abandon_per_mille=300, coordinate_every_ms=300, repeat_per_mille=0,
                  id_expiration_ms=604_800_000, request_ms=300)
def last_epoch_is_not_written(patches: Patches) -> None:
    """The epoch before the present one is not written, so a repeated InitProducerId is fenced."""
    patches.put(records, "_last_epoch", lambda _value: -1)


@TRANSACTIONS.add(0, "KAFKA-9666", voters=1, observers=2, combined=True, brokers=3, replication=3, min_insync=3,
                  transactions=4, transaction_every_ms=5, transaction_version=2, level_every_ms=0, fault_seconds=6,
                  kill_every_ms=700, down_ms=800, session_ms=400, lag_ms=300)
def epoch_of_a_failed_append_is_used(patches: Patches) -> None:
    """The state of a transaction changes although its record could not be appended: too few replicas are in sync."""
    def around(original: Any) -> Any:
        def put(shard: Any, transaction: Any, *reason: Any) -> None:
            try:
                original(shard, transaction, *reason)
            except RefusedError:
                shard.transactions[transaction.transactional_id] = transaction
                raise

        return put

    patches.wrap(TransactionShard, "put", around)


@TRANSACTIONS.add(0, "KAFKA-14053, before KIP-890", transaction_version=1, level_every_ms=0, repeat_per_mille=0,
                  stuck_per_mille=200)
def transactions_begin_unverified(patches: Patches) -> None:
    """A leader appends the first batch of a transaction without a question to the coordinator. A batch that was stuck
    on its way begins a transaction that nothing ends."""
    def verify(_checks: Any, _transactional_id: str, _producer_id: int, _producer_epoch: int, partitions: Any,
               _adds: bool, callback: Any) -> None:
        callback([0] * len(partitions))

    patches.put(TransactionChecks, "verify", verify)


# Nothing but the answers to checks is late, so that many transactions end while one is on its way.
@TRANSACTIONS.compiled(0, "KAFKA-14053", transaction_version=1, level_every_ms=0, repeat_per_mille=0, voters=1,
                       observers=3, combined=False, brokers=3, replication=1, min_insync=1, partitions=2, topics=0,
                       readers=1, phases=1, quiet_seconds=0, fault_seconds=15, stuck_per_mille=500, checks_every_ms=400,
                       hold_ms=300, transactions=4, transaction_ms=10_000, request_ms=700, transaction_every_ms=5,
                       abort_per_mille=0, abandon_per_mille=0, epochs=0, coordinate_every_ms=0, session_ms=3000,
                       delay_ms=1, jitter_ms=3, late_per_mille=0, drop_per_mille=0, turn_us=0, step_us=0,
                       kill_every_ms=0, power_every_ms=0, blackout_every_ms=0, pause_every_ms=0, shutdown_every_ms=0,
                       isolate_every_ms=0, part_every_ms=0, cut_every_ms=0, shuffle_every_ms=0, reboot_every_ms=0,
                       zombie_every_ms=0, directory_every_ms=0, move_every_ms=0, elect_every_ms=0, resign_every_ms=0,
                       reset_every_ms=0, refusal_every_ms=0, stall_every_ms=0)
def marker_leaves_the_verification() -> None:
    """A marker does not end the verifications of its producer. A batch that was confirmed before it is appended after
    it, and begins a transaction that nothing ends."""


@TRANSACTIONS.add(0, "FLINK-39218", voters=1, observers=2, combined=True, brokers=3, replication=3, transactions=4,
                  transaction_ms=5000, transaction_every_ms=5, abandon_per_mille=800, fault_seconds=4,
                  kill_every_ms=600, down_ms=3000, session_ms=400)
def lingering_transactions_are_not_ended(patches: Patches) -> None:
    """A coordinator does not know the time-outs of transactions that were open when it took over."""
    def around(original: Any) -> Any:
        def loaded(shard: Any) -> None:
            everything = shard.transactions
            shard.transactions = {name: each for name, each in everything.items() if each.status is not Status.ONGOING}
            original(shard)
            shard.transactions = everything

        return loaded

    patches.wrap(TransactionShard, "loaded", around)


@TRANSACTIONS.add(0, "markers are repeated until they are written")
def failed_marker_counts_as_written(patches: Patches) -> None:
    """A marker whose broker does not answer is not sent again."""
    def around(original: Any) -> Any:
        def settle(queue: Any, marker: Any, code: int, now_ms: int) -> None:
            original(queue, marker, ErrorCode.NONE if code == ErrorCode.REQUEST_TIMED_OUT else code, now_ms)

        return settle

    patches.wrap(MarkerQueue, "_settle", around)


@TRANSACTIONS.add(0, "the group coordinator applies markers", transactions=3, partitions=2)
def group_misses_the_marker(patches: Patches) -> None:
    """Offsets of a transaction stay pending after its marker, until another coordinator loads them."""
    def marker_appended(_groups: Any, _partition: int, _producer_id: int, _committed: bool, _end_offset: int,
                        _now_ms: int) -> None:
        """Apply nothing."""

    patches.put(GroupCoordinator, "marker_appended", marker_appended)


@TRANSACTIONS.add(0, "offsets are pending until the marker", transactions=3, partitions=2, abort_per_mille=400)
def offsets_count_before_the_marker(patches: Patches) -> None:
    """Offsets of a transaction are committed as soon as they are in the log, also if it is aborted."""
    def around(original: Any) -> Any:
        def replay(shard: Any, record: Any) -> None:
            original(shard, record._replace(producer_id=-1))

        return replay

    patches.wrap(GroupShard, "replay", around)


@TRANSACTIONS.add(0, "a new client fences the others", abandon_per_mille=400, transaction_version=1, level_every_ms=0)
def new_client_does_not_fence(patches: Patches) -> None:
    """InitProducerId returns the present epoch, so an earlier client of the transactional id continues too."""
    def around(original: Any) -> Any:
        def renewed(transaction: Any, request: Any, now_ms: int, new_producer_id: int | None) -> Any:
            found = original(transaction, request, now_ms, new_producer_id)
            client = transaction.client
            return replace(found, producer_id=client.producer_id, producer_epoch=client.epoch)

        return renewed

    def unbumped(original: Any) -> Any:
        def abort(transaction: Any, transaction_version: int, now_ms: int, new_producer_id: int | None) -> Any:
            aborted = original(transaction, transaction_version, now_ms, new_producer_id)
            return replace(aborted, producer_epoch=transaction.producer_epoch)

        return abort

    patches.wrap(init_producer, "_renewed", around)
    patches.wrap(init_producer, "abort_by_coordinator", unbumped)


@TRANSACTIONS.add(0, "a decision is final", transaction_ms=400, coordinate_every_ms=100, request_ms=300)
def time_out_overrules_a_commit(patches: Patches) -> None:
    """A transaction whose commit is decided times out like an open one while its markers are on their way."""
    def deadline_ms(transaction: Any) -> int | None:
        if transaction.status not in (Status.ONGOING, Status.PREPARE_COMMIT):
            return None
        deadline: int = transaction.start_ms + transaction.timeout_ms
        return deadline

    patches.put(Transaction, "deadline_ms", property(deadline_ms))
