"""The sink in transactions, for nodes of Kafka's and of ours: drivers that die at each step, or return too late."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kraft.client import Cluster, RefusedError
from kraft.client.groups import committed_offsets
from kraft.client.producer import Producer
from kraft.client.transactions import Transactions, has_transactions
from kraft.spark.sink import StreamWriter
from kraft.spark.staging import Staging
from tests.spark.reading import rows
from tests.spark.test_sink import StoppedError, dying, staging, stream_writer, written

STEPS = ((Transactions, "begin", 0), (Transactions, "add", 0), (Producer, "send", 0), (Producer, "send", 4),
         (Transactions, "commit_offset", 0), (Transactions, "end", 0), (Staging, "decide", 0))


class Target(NamedTuple):
    """A topic of a cluster and the query's location. `settle` waits until all ended transactions are marked."""

    bootstrap: str
    settle: Callable[[], None]
    topic: str
    location: Path

    def options(self, **more: str) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.bootstrap, "topic": self.topic,
                "checkpointLocation": str(self.location), "kafka.batch.size": "20000", **more}

    def writer(self, **more: str) -> StreamWriter:
        return stream_writer(self.options(**more))

    def values(self, isolation: str = "read_committed") -> list[int]:
        self.settle()
        return sorted(int(row["value"]) for row in rows({
            "kafka.bootstrap.servers": self.bootstrap, "subscribe": self.topic, "kafka.isolation.level": isolation}))


def a_batch_becomes_visible_at_once(target: Target, stop: pytest.MonkeyPatch) -> None:
    seen = []
    end = Transactions.end

    def watched(self: Transactions, *, commit: bool) -> None:
        seen.append((commit, target.values(), len(target.values("read_uncommitted"))))
        end(self, commit=commit)

    stop.setattr(Transactions, "end", watched)
    writer = target.writer()
    writer.commit(written(writer, range(300), range(300, 600)), 0)
    assert seen == [(True, [], 600)]
    assert target.values() == list(range(600))
    group = staging(writer).identity()
    with Cluster(target.bootstrap) as cluster:
        assert has_transactions(cluster) and group is not None
        found = committed_offsets(cluster, group["transactional_id"])
    assert [(each.offset, each.metadata) for each in found.values()] == [(1, "batch 0")]
    assert list(staging(writer).path.rglob("*.batches")) == []


def a_driver_dies_while_it_publishes(target: Target, stop: pytest.MonkeyPatch, step: tuple[type, str, int], *,
                                     done: bool) -> None:
    """The driver dies at this call of a step: before it does anything, or before the driver learns of its result."""
    target.writer().commit(written(target.writer(), range(100)), 0)
    writer = target.writer()
    messages = written(writer, range(100, 600), range(600, 1_000))
    with stop.context() as patched:
        dying(patched, *step, done=done)
        with pytest.raises(StoppedError):
            writer.commit(messages, 1)
    writer.abort([*messages, None], 1)      # as Spark does then
    # Spark begins again, and the rows come in another order and with other boundaries.
    again = target.writer()
    again.commit(written(again, range(500, 1_000), range(100, 500)), 1)
    assert target.values() == list(range(1_000))
    # The batch is repeated, as the driver died before it noted its end: nothing is written.
    again.commit(written(again, range(100, 1_000)), 1)
    again.commit(written(again, range(1_000, 1_010)), 2)
    assert target.values() == list(range(1_010))


def a_driver_that_comes_back_is_fenced(target: Target, stop: pytest.MonkeyPatch) -> None:
    """The driver paused before its transaction's end; another did its work."""
    late, other = target.writer(), target.writer()
    end, staged = Transactions.end, written(other, range(50, 100), range(50))

    def overtaken(self: Transactions, *, commit: bool) -> None:
        with stop.context() as patched:
            patched.setattr(Transactions, "end", end)
            other.commit(staged, 0)
        end(self, commit=commit)

    stop.setattr(Transactions, "end", overtaken)
    with pytest.raises(RefusedError, match=r"PRODUCER_FENCED|INVALID_PRODUCER_EPOCH"):
        late.commit(written(late, range(100)), 0)
    assert target.values() == list(range(100))


def a_transaction_expires(target: Target, stop: pytest.MonkeyPatch, expire: Callable[[], None]) -> None:
    """`expire` waits until the cluster has aborted the open transaction."""
    writer = target.writer(**{"kafka.transaction.timeout.ms": "1000"})
    commit_offset = Transactions.commit_offset

    def late(self: Transactions, *arguments: Any) -> None:
        expire()
        commit_offset(self, *arguments)

    with stop.context() as patched:
        patched.setattr(Transactions, "commit_offset", late)
        with pytest.raises(RefusedError, match=r"PRODUCER_FENCED|INVALID_PRODUCER_EPOCH|INVALID_TXN_STATE"):
            writer.commit(written(writer, range(200)), 0)
    assert target.values() == []
    writer.commit(written(writer, range(200)), 0)
    assert target.values() == list(range(200))
