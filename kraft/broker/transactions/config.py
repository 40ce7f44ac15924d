"""Broker settings of the transaction coordinator, with Kafka's names (except dots and units) and defaults."""

from __future__ import annotations

from kraft.structs import immutable


@immutable
class TransactionCoordinatorConfig:
    """Settings of the transaction coordinator. To change one at runtime, replace the whole."""

    max_timeout_ms: int = 900_000                               # transaction.max.timeout.ms
    id_expiration_ms: int = 7 * 24 * 3_600_000                  # transactional.id.expiration.ms
    abort_retry_ms: int = 10_000            # transaction.abort.timed.out.transaction.cleanup.interval.ms
    expiration_interval_ms: int = 3_600_000     # transaction.remove.expired.transaction.cleanup.interval.ms
    two_phase_commit: bool = False                              # transaction.two.phase.commit.enable
    addition_wait_ms: int = 0               # add.partitions.to.txn.retry.backoff.max.ms; 0: refuse at once
    commit_timeout_ms: int = 5_000          # no setting in Kafka, which uses request.timeout.ms
