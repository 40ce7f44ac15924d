"""Publishing of staged batches, exactly once: in a transaction if the cluster supports them, else by the producer's
sequence numbers. A query keeps the method that it began with, and refuses an option that requires the other one."""

from __future__ import annotations

import uuid
from typing import Any, Final

from kraft.client.producer import Producer
from kraft.client.transactions import has_transactions
from kraft.spark.library_transaction import LibraryTransaction
from kraft.spark.produce import open_producer
from kraft.spark.sequenced import SequencedPublisher
from kraft.spark.staging import StagedFile, Staging
from kraft.spark.transactional import ClusterTransaction, TransactionalPublisher
from kraft.spark.write_options import WriteOptions
from kraft_native.base.errors import InvalidArgumentError, UnsupportedVersionError

TRANSACTIONAL_ID: Final = "transactional_id"


def publish(options: WriteOptions, query_id: str, batch_id: int, files: list[StagedFile]) -> None:
    """Publish a batch of a query, in the driver, exactly once, whatever happened before.

    When it raises, the topics have some, all or nothing of the batch. The next call, by any driver, with this batch or
    its repetition, completes it.
    """
    staging = Staging(options, query_id)
    identity = _identity(staging, options)
    if TRANSACTIONAL_ID in identity:
        kind = LibraryTransaction if options.security is None else ClusterTransaction
        TransactionalPublisher(staging, kind(options, identity[TRANSACTIONAL_ID])).publish(batch_id, files)
    else:
        publisher = SequencedPublisher(options, staging, identity["producer_id"], identity["producer_epoch"])
        publisher.publish(batch_id, files)
    # Staged files of a repeated batch that was already published are dropped here too.
    staging.clear()


def _identity(staging: Staging, options: WriteOptions) -> dict[str, Any]:
    """Return the identity of the query for the cluster. It is decided once, and kept.

    Raise `InvalidArgumentError` for an option that contradicts it: a driver that was replaced may still publish by the
    other method, whose records this one would not recognize.
    """
    identity = staging.identity()
    if identity is None:
        producer = open_producer(options)
        with producer.cluster:
            identity = _new_identity(producer, options)
        staging.identify(identity)
    elif options.transactions not in (None, TRANSACTIONAL_ID in identity):
        way = "in transactions" if TRANSACTIONAL_ID in identity else "by sequence numbers"
        raise InvalidArgumentError(f"option transactions: {str(options.transactions).lower()} is not possible, because "
                                   f"the query began to publish {way}; leave it, or begin another query")
    return identity


def _new_identity(producer: Producer, options: WriteOptions) -> dict[str, Any]:
    # The library has no other way. A cluster without transactions reports its own error then.
    if options.security is None or (options.transactions is not False and has_transactions(producer.cluster)):
        return {TRANSACTIONAL_ID: f"kraft-sink-{uuid.uuid4()}"}
    if options.transactions:
        raise UnsupportedVersionError(f"option transactions: true is not possible, because {options.bootstrap} has no "
                                      "transactions; auto publishes by sequence numbers there")
    producer.identify()
    return {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
