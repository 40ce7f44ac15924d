"""Transaction coordinator: receives requests, sends answers, with one shard per partition of `__transaction_state`.

The driver does the following:

- It reports the partitions: `partition_count`, `shards.start_load` ... `finish_load`, `resign`.
- It passes every request to `handle`.
- It reports commits with `committed`.
- It calls `tick` no later than `deadline_ms`.
- It sends the requests of `markers.take` to brokers and reports to `markers.answered`. It appends the markers of
  `markers.take_own` and reports to `markers.settled`.

Everything runs on one thread, with the time as an argument: milliseconds since 1970, which never decrease. An answer is
passed to the `respond` of its request, during one of these calls.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Final

from kraft.broker.coordinator.answer import RequestContext
from kraft.broker.coordinator.coordinator import Coordinator, Handlers
from kraft.broker.coordinator.shard import AppendPort, Shard
from kraft.broker.coordinator.shards import STEPS_PER_TICK, Shards
from kraft.broker.transactions.config import TransactionCoordinatorConfig
from kraft.broker.transactions.events import OnEvent
from kraft.broker.transactions.markers import MarkerQueue
from kraft.broker.transactions.ports import ClusterView, Environment, ProducerIdSource, Query
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest

if TYPE_CHECKING:
    from kraft.broker.transactions.shard import TransactionShard

OWN_CONTEXT: Final = RequestContext(AddPartitionsToTxnRequest.VERSIONS[-1])


class TransactionCoordinator(Coordinator["TransactionShard"]):
    """Coordinator that serves InitProducerId (with a transactional id), AddPartitionsToTxn, AddOffsetsToTxn, EndTxn,
    DescribeTransactions and ListTransactions in the versions of their schemas. What decides is imported with the first
    request or the first shard."""

    def __init__(self, config: TransactionCoordinatorConfig, port: AppendPort, cluster: ClusterView,
                 producer_ids: ProducerIdSource) -> None:
        shards: Shards[TransactionShard] = Shards(port, self._make_shard, config.commit_timeout_ms)
        self.markers = MarkerQueue(cluster, shards.deadlines)
        self._environment = Environment(config, cluster, producer_ids, self.markers)
        super().__init__(shards)

    def _make_handlers(self) -> Handlers:
        from kraft.broker.transactions.requests import handlers_of
        return handlers_of(self.shards, self._environment)

    def _make_shard(self, shard: Shard) -> TransactionShard:
        from kraft.broker.transactions.shard import TransactionShard
        return TransactionShard(shard, self._environment)

    @property
    def config(self) -> TransactionCoordinatorConfig:
        """Settings; assign new ones to change them at runtime. Running timers are not changed."""
        return self._environment.config

    @config.setter
    def config(self, config: TransactionCoordinatorConfig) -> None:
        self._environment.config = config

    @property
    def on_event(self) -> OnEvent:
        """Function that records an event of a transaction; assign it at the start."""
        return self._environment.on_event

    @on_event.setter
    def on_event(self, on_event: OnEvent) -> None:
        self._environment.on_event = self.markers.on_event = on_event

    def incomplete(self, request: AddPartitionsToTxnRequest, api_version: int
                   ) -> Generator[None, None, dict[str, None]]:
        """See `partition_requests.incomplete`."""
        from kraft.broker.transactions import partition_requests
        return partition_requests.incomplete(self._environment.cluster, request, api_version)

    # ---------------------------------------------------------------- the driver's calls

    def tick(self, now_ms: int) -> None:
        """Run the clocks. When much is due at once, `deadline_ms` stays in the past until all is done."""
        super().tick(now_ms)
        self.markers.tick(now_ms, STEPS_PER_TICK)

    def check(self, query: Query, respond: Callable[[Sequence[ErrorCode]], None],
              now_ms: int) -> None:
        """Decide a query of this node itself, and pass an error per partition to `respond`, now or later."""
        from kraft.broker.transactions import partition_requests
        partition_requests.decide_query(
            self.shards, self._environment.cluster, query, OWN_CONTEXT,
            lambda errors: respond([errors[each] for each in query.partitions]), now_ms, may_wait=True)
