"""Runs of `kafka-transactions` against a cluster with transactions that ended, that are open, and that hang."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kraft.client import Cluster
from kraft.client.producer import Producer
from kraft.client.refusals import RefusedError
from kraft.client.transactional_producer import TransactionalProducer
from kraft.protocol.messages.list_transactions_request import ListTransactionsRequest
from kraft.protocol.messages.list_transactions_response import ListTransactionsResponse
from kraft_native.batch.records import BatchBuilder
from tests.integration.admin import wait_until
from tests.peer.kafka import ENDING

TOOL: Final = "kafka-transactions"
TOPIC: Final = "orders"
PARTITION: Final = 3
"""It has no other records."""
COMMITTED, ABORTED, OPEN = "billing-1", "billing-2", "shipping"
OPEN_OFFSET: Final = 4
HANGING_OFFSET: Final = 6
HANGING_PRODUCER: Final = (12_345_678, 7)
WHERE: Final = f"--topic {TOPIC} --partition {PARTITION}"
VERIFICATION: Final = "transaction.partition.verification.enable"

OF_OPEN: Final = (
    "list",
    "list --transactional-id-pattern billing-.*",
    "list --transactional-id-pattern bill[",
    "list --duration-filter 0",
    "list --duration-filter 3600000",
    f"describe --transactional-id {COMMITTED}",
    f"describe --transactional-id {ABORTED}",
    f"describe --transactional-id {OPEN}",
    f"describe-producers {WHERE}",
    f"describe-producers {WHERE} --broker-id 2",
    f"find-hanging --topic {TOPIC} --max-transaction-timeout 0",
    f"abort {WHERE} --start-offset 1",
    f"forceTerminateTransaction --transactionalId {OPEN}",
)
DIFFERS: Final = {"list --duration-filter 0": "transactions that ended do not run any more"}
OF_TERMINATED: Final = (
    f"describe --transactional-id {OPEN}",
    f"describe-producers {WHERE}",
)
OF_HANGING: Final = (
    f"find-hanging {WHERE} --max-transaction-timeout 0",
    "find-hanging --broker-id 2 --max-transaction-timeout 0",
    f"find-hanging --topic {TOPIC}",
    f"abort {WHERE} --start-offset {HANGING_OFFSET}",
)
OF_ABORTED: Final = (
    f"find-hanging --topic {TOPIC} --max-transaction-timeout 0",
    f"describe-producers {WHERE}",
    f"abort {WHERE} --producer-id {HANGING_PRODUCER[0]} --producer-epoch {HANGING_PRODUCER[1]} --coordinator-epoch 0",
)


def settle(cluster: Cluster) -> None:
    """Wait until every ended transaction has its markers."""
    listing = ListTransactionsRequest(state_filters=ENDING)
    nodes = [each.node_id for each in cluster.metadata([]).brokers]
    wait_until(lambda: not any(cluster.node(node).send(listing, ListTransactionsResponse).transaction_states
                               for node in nodes), "all markers are written")


@contextmanager
def open_transaction(bootstrap: str) -> Iterator[Cluster]:
    """A committed, an aborted and an open transaction of one record each."""
    with Cluster(bootstrap) as cluster:
        for transactional_id in (COMMITTED, ABORTED, OPEN):
            producer = TransactionalProducer(cluster, transactional_id)
            producer.send(TOPIC, PARTITION, [(None, transactional_id.encode())])
            if transactional_id == COMMITTED:
                producer.commit()
            elif transactional_id == ABORTED:
                producer.abort()
            settle(cluster)
        yield cluster


def hang(cluster: Cluster) -> None:
    """Append a transaction that no coordinator knows, once the brokers verify nothing any more."""
    builder = BatchBuilder("none", transactional=True)
    builder.append(b"lost")
    producer = Producer(cluster, HANGING_PRODUCER, transactional_id="lost", delivery_seconds=1.0)

    def is_appended() -> bool:
        try:
            offset = producer.send({(TOPIC, PARTITION): builder.build()})[TOPIC, PARTITION]
        except RefusedError:
            return False
        assert offset == HANGING_OFFSET
        return True

    wait_until(is_appended, "the brokers verify nothing")


BROKER: Final = re.compile(r"(?<=sent to )broker \d")
"""The first broker of several that refused a request."""
CHANGING: Final = ("Coordinator", "CoordinatorId", "ProducerId", "LatestCoordinatorEpoch", "CoordinatorEpoch",
                   "LastTimestamp", "CurrentTransactionStartTimeMs", "TransactionDurationMs", "Duration(min)")
"""Columns whose values are a cluster's or a moment's own."""


def without_changing(text: str) -> str:
    """Return the table with the numbers of such columns as N, and its rows in order."""
    text = BROKER.sub("broker N", text)
    head, *rows = [[cell.strip() for cell in line.split("\t")] for line in text.splitlines()] or [[]]
    if len(head) == 1:
        return text
    own = [name in CHANGING for name in head]
    found = [["N" if is_own and cell.isdigit() else cell for is_own, cell in zip(own, row, strict=True)]
             for row in rows if len(row) == len(head)]
    others = [row for row in rows if len(row) != len(head)]
    return "\n".join("\t".join(row) for row in [head, *sorted(found), *others])
