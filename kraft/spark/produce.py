"""Producers of the sink's record batches, with the options of a write."""

from __future__ import annotations

from collections.abc import Callable

from kraft.client import Cluster
from kraft.client.producer import UNIDENTIFIED, Producer
from kraft.client.retries import persist
from kraft.client.security import PLAINTEXT
from kraft.spark.write_options import WriteOptions


def open_producer(options: WriteOptions, producer: tuple[int, int] = UNIDENTIFIED,
                  transactional_id: str | None = None) -> Producer:
    """Return a producer. The caller closes its cluster, which connects on first use. It cannot connect with security
    that only the library has."""
    cluster = Cluster(options.bootstrap, client_id=options.client.get("client.id", "kraft-spark"),
                      timeout=min(options.timeout_ms, options.request_timeout_ms) / 1000,
                      security=options.security or PLAINTEXT)
    return Producer(cluster, producer, acks=options.acks, delivery_seconds=options.timeout_ms / 1000,
                    transactional_id=transactional_id)


def cached_counts(options: WriteOptions, count: Callable[[str], int],
                  reset: Callable[[], None] = lambda: None) -> Callable[[str], int]:
    """Return a function that returns the number of partitions of a topic. It calls `count` until it succeeds, for up to
    `max.block.ms`, and caches the number."""
    known: dict[str, int] = {}

    def cached(topic: str) -> int:
        if topic not in known:
            known[topic] = persist(options.topic_wait_ms / 1000, lambda: count(topic), reset)
        return known[topic]

    return cached


def cluster_counts(options: WriteOptions, cluster: Cluster) -> Callable[[str], int]:
    """Return the same, for topics of a cluster."""
    return cached_counts(options, lambda topic: len(cluster.topic(topic).partitions), cluster.close)
