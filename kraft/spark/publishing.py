"""How staged batches become part of their topics exactly once: in a transaction where the cluster has them, else by the
producer's sequence numbers. A query keeps to what it began with."""

from __future__ import annotations

import uuid
from typing import Any

from kraft.client.transactions import has_transactions
from kraft.spark.library_transaction import LibraryTransaction
from kraft.spark.produce import BatchProducer
from kraft.spark.sequenced import SequencedPublisher
from kraft.spark.staging import StagedFile, Staging
from kraft.spark.transactional import ClusterTransaction, TransactionalPublisher
from kraft.spark.write_options import WriteOptions


def publish(options: WriteOptions, query_id: str, batch_id: int, files: list[StagedFile]) -> None:
    """In the driver: makes a batch of a query part of its topics, once, whatever happened before.

    When it raises, some, all or nothing of the batch is there; the next call, by whichever driver, with this batch or
    its repetition, sees to the rest.
    """
    staging = Staging(options, query_id)
    identity = _identity(staging, options)
    if "transactional_id" in identity:
        kind = ClusterTransaction if options.plain else LibraryTransaction
        TransactionalPublisher(staging, kind(options, identity["transactional_id"])).publish(batch_id, files)
    else:
        publisher = SequencedPublisher(options, staging, identity["producer_id"], identity["producer_epoch"])
        publisher.publish(batch_id, files)
    # Those of a batch that was published before are dropped here, too.
    staging.clear()


def _identity(staging: Staging, options: WriteOptions) -> dict[str, Any]:
    """Who the query is to the cluster: decided once, and kept."""
    identity = staging.identity()
    if identity is None:
        producer = BatchProducer(options)
        try:
            identity = _new_identity(producer, options)
        finally:
            producer.close()
        staging.identify(identity)
    return identity


def _new_identity(producer: BatchProducer, options: WriteOptions) -> dict[str, Any]:
    # With TLS or SASL there is no other way; a cluster without transactions says so itself then.
    if not options.plain or (options.transactions and has_transactions(producer.cluster)):
        return {"transactional_id": f"kraft-sink-{uuid.uuid4()}"}
    producer.identify()
    return {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
