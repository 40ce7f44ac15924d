"""Kafka's own `__transaction_state`, replayed, and its records encoded again."""

import json
from typing import Any

import pytest

from kraft.broker.coordinator.loading import load_batches
from kraft.broker.coordinator.shard import StoredRecord
from kraft.broker.transactions.records import as_stored, decode, record_of, tombstone_of
from kraft.broker.transactions.state import NO_TIMEOUT_MS, Identity, Status, Transaction
from kraft_native.base.errors import KraftError
from kraft_native.batch.batch import walk
from kraft_native.batch.records import records
from tests.broker.transactions.txn_node import PARTITIONS, TxnNode
from tests.golden import golden, load_json, needs_golden


def log_bytes(partition: int) -> bytes:
    directory = golden("log", "data", f"__transaction_state-{partition}")
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


def stored_records(partition: int) -> list[StoredRecord]:
    return [StoredRecord(record.offset, record.key, record.value)
            for batch in walk(log_bytes(partition)) if not batch.is_control for record in records(batch)
            if record.key is not None]


def golden_node() -> TxnNode:
    """A node that has loaded the logs that Kafka wrote. No marker is written."""
    node = TxnNode()
    node.answers_markers = False
    node.coordinator = node._new_coordinator()
    for partition in range(PARTITIONS):
        assert node.coordinator.shards.start_load(partition, 8)
        end_offset = max(load_batches(node.coordinator.shards, partition, log_bytes(partition)), default=0)
        node.coordinator.shards.finish_load(partition, end_offset, end_offset, node.now_ms)
    return node


@needs_golden
def test_the_transactions_are_those_that_kafka_showed() -> None:
    node = golden_node()
    expected = load_json(golden("log", "expected", "cluster.json"))["transactions"]
    for name, shown in expected.items():
        transaction = node.transaction(name)
        assert transaction.status.label == shown["state"]
        assert transaction.client == (shown["producer_id"], shown["producer_epoch"])
        assert transaction.timeout_ms == shown["timeout_ms"]
        assert transaction.partitions == ((("txn-open", 0),) if name == "tx-open" else ())
    assert sum(len(state.transactions) for _, state in node.coordinator.shards.active(0)) == len(expected)


@needs_golden
def test_a_transaction_that_kafka_left_open_ends_by_its_time() -> None:
    node = golden_node()
    deadline_ms = node.transaction("tx-open").deadline_ms
    assert deadline_ms is not None
    node.logs.records = [[] for _ in range(PARTITIONS)]     # appended records are counted from the loaded end
    node.logs.append = lambda partition, _records, _producer=None: 10**6  # type: ignore[method-assign]
    node.coordinator.tick(deadline_ms - 1)
    assert node.status("tx-open") is Status.ONGOING
    node.coordinator.tick(deadline_ms)
    assert node.status("tx-open") is Status.PREPARE_ABORT


@needs_golden
@pytest.mark.parametrize("partition", range(PARTITIONS))
def test_records_encode_to_the_bytes_that_kafka_wrote(partition: int) -> None:
    found = stored_records(partition)
    for record in found:
        replayed = decode(record)
        assert replayed is not None
        assert replayed.transaction is not None
        again = record_of(replayed.transaction, 2, 0)
        assert (again.key, again.value) == (record.key, record.value)
    assert found or partition == 1


@needs_golden
def test_fields_are_those_that_kafka_decoded() -> None:
    decoded: dict[str, list[dict[str, Any]]] = {}
    for line in golden("log", "expected", "internal-topics-decoded.jsonl").read_text().splitlines():
        each = json.loads(line)
        decoded.setdefault(each["partition"], []).append(each)
    for partition in range(PARTITIONS):
        for record, expected in zip(stored_records(partition), decoded.get(f"__transaction_state-{partition}", ()),
                                    strict=True):
            replayed, value = decode(record), expected["payload"]["data"]
            assert replayed is not None
            assert (transaction := replayed.transaction) is not None
            assert replayed.transactional_id == expected["key"]["data"]["transactionalId"]
            assert transaction.status == value["transactionStatus"]
            assert transaction.start_ms == value["transactionStartTimestampMs"]
            assert transaction.client_version == value.get("clientTransactionVersion", 0)
            assert list(transaction.partitions) == [
                (topic["topic"], index) for topic in value["transactionPartitions"] or ()
                for index in topic["partitionIds"]]


FULL = Transaction("t", 7, 3, NO_TIMEOUT_MS, Status.ONGOING, (("a", 1), ("b", 0), ("a", 0)), 5, 6, 8, 9, 2, 1, 2)


def replayed(transaction: Transaction, version: int) -> Transaction:
    record = record_of(transaction, version, 0)
    found = decode(StoredRecord(0, record.key, record.value))
    assert found is not None
    assert found.transaction is not None
    return found.transaction


def test_a_record_keeps_all_fields_and_groups_the_partitions() -> None:
    again = replayed(FULL, 1)
    assert again.partitions == (("a", 1), ("a", 0), ("b", 0))
    assert {name: getattr(again, name) for name in FULL.__dataclass_fields__ if name != "partitions"} == {
        name: getattr(FULL, name) for name in FULL.__dataclass_fields__ if name != "partitions"}
    assert again.client == Identity(9, 2)


def test_below_transaction_version_1_the_record_has_the_old_format() -> None:
    plain = Transaction("t", 7, 3, 1000, Status.ONGOING, (("a", 1),), 5, 6, previous_producer_id=7, client_version=0)
    assert (record_of(plain, 0, 0).value or b"")[:2] == b"\0\0"
    assert replayed(plain, 0).previous_producer_id == -1
    assert replayed(FULL, 0).client == Identity(9, 2)       # a second producer id is never lost


def test_a_tombstone_deletes() -> None:
    record = tombstone_of("t", 0)
    found = decode(StoredRecord(0, record.key, record.value))
    assert found == ("t", None)


@pytest.mark.parametrize(("key", "value"), [
    (b"\0", b""), (b"\0\0", b""), (b"\0\0\0\1t", b"\0\7"), (b"\0\0\0\1t", b"\0\0\0"),
    (record_of(FULL, 2, 0).key, (record_of(FULL, 2, 0).value or b"")[:16] + b"\x09"
     + (record_of(FULL, 2, 0).value or b"")[17:])])
def test_malformed_records_are_refused(key: bytes, value: bytes) -> None:
    with pytest.raises(KraftError):
        decode(StoredRecord(0, key, value))


def test_other_key_types_are_skipped() -> None:
    assert decode(StoredRecord(0, b"\0\7rest", b"")) is None


FORMS = [
    Transaction("t", 7, 3, 60_000, update_ms=1, previous_producer_id=7),
    Transaction("t", 7, 3, 60_000, Status.EMPTY, (("left over", 1),), update_ms=1),
    Transaction("t", 7, 3, 60_000, Status.ONGOING, (("b", 2), ("a", 1), ("b", 0)), 5, 6, 7, client_version=2),
    Transaction("t", 7, 3, 60_000, Status.PREPARE_COMMIT, (("b", 2),), 5, 6, 7, 8, 0, 2, 2),
    Transaction("t", 7, 3, NO_TIMEOUT_MS, Status.COMPLETE_ABORT, (), 5, 6, 7, last_producer_epoch=2, client_version=1)]


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("transaction", FORMS)
def test_the_state_after_a_write_is_that_of_its_replay(transaction: Transaction, version: int) -> None:
    record = record_of(transaction, version, 0)
    replayed = decode(StoredRecord(0, record.key, record.value))
    assert replayed is not None
    assert as_stored(transaction, version) == replayed.transaction
