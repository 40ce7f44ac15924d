"""Publishing without transactions: one producer per query, whose sequence numbers show which records the log already
has.

1. The decision is written: the batch's files, the next sequence number of the query's producer for each partition, and
the end of the log. From here on these files are the batch, however often Spark repeats it, and in whatever order its
rows come then.

2. The files are sent, one batch at a time, with the producer's id and rising sequence numbers. A repetition is needed
when the driver died or Spark repeats the batch. It reads the log from the noted end on, and continues after the batches
that are already there. A request that is still under way has the same bytes and sequence number as its repetition, so
the leader keeps one of the two.

3. The decision is marked as done. A batch that is repeated after that is dropped.

Readers see records as they are sent, not the batch at once.
"""

from __future__ import annotations

from kraft.client.fetcher import Fetcher
from kraft.client.partitions import LATEST, list_offsets
from kraft.client.producer import SEQUENCES, record_count
from kraft.client.retries import persist
from kraft.log_dir import TopicPartition
from kraft.spark.errors import DataLossError
from kraft.spark.fetch import QueryLosses
from kraft.spark.produce import open_producer
from kraft.spark.staging import Decision, StagedFile, Staging
from kraft.spark.write_options import WriteOptions
from kraft_native.batch.batch import walk


class SequencedPublisher:
    """Publisher of the batches of one query under its producer id. Used by one thread."""

    def __init__(self, options: WriteOptions, staging: Staging, producer_id: int, producer_epoch: int) -> None:
        self.staging = staging
        self.producer = open_producer(options, (producer_id, producer_epoch))

    def publish(self, batch_id: int, files: list[StagedFile]) -> None:
        """Publish the batch, and close the producer."""
        before = self.staging.decision()
        with self.producer.cluster:
            if before is not None and not before.done:
                self._roll_forward(before)
            if before is None or before.batch_id < batch_id:
                self._send(self._decide(batch_id, files, before))

    def _decide(self, batch_id: int, files: list[StagedFile], before: Decision | None) -> Decision:
        places = {TopicPartition(topic, partition) for topic, partition, _ in files}
        cluster = self.producer.cluster
        ends = persist(self.producer.delivery_seconds, lambda: list_offsets(
            cluster, [cluster.topic(topic) for topic in sorted({each.topic for each in places})],
            {(each.topic, each.partition): LATEST for each in places}), cluster.close)
        decision = Decision(batch_id, files, {} if before is None else before.sequences,
                            {TopicPartition(*name).directory_name: end for name, end in ends.items()})
        self.staging.decide(decision)
        return decision

    def _send(self, decision: Decision, skip: dict[str, int] | None = None) -> None:
        """Send the decision's files, except the first `skip` records of each partition."""
        left = dict(skip or {})
        sequences = self.producer.sequences
        for place, batch in self.staging.batches(decision.files):
            name = place.directory_name
            sequences.setdefault(place, decision.sequences.get(name, 0))
            count = record_count(batch)
            if left.get(name, 0) >= count:
                left[name] -= count
                self.producer.skip(place, batch)
            else:
                self.producer.send({place: batch})
        decision.sequences |= {TopicPartition(*place).directory_name: number for place, number in sequences.items()}
        decision.done = True
        self.staging.decide(decision)

    def _roll_forward(self, decision: Decision) -> None:
        """Finish the decision that an earlier driver began."""
        existing = {}
        for place in sorted({TopicPartition(topic, partition) for topic, partition, _ in decision.files}):
            name = place.directory_name
            existing[name] = self._existing_records(place, decision.ends.get(name, 0), decision.sequences.get(name, 0))
        self._send(decision, existing)

    def _existing_records(self, place: TopicPartition, start: int, sequence: int) -> int:
        """Return the number of this batch's records in a partition's log: those from `sequence` on, by this query's
        producer."""
        last = sequence
        ours = self.producer.producer_id, self.producer.producer_epoch
        fetcher = Fetcher(self.producer.cluster, stall_seconds=self.producer.delivery_seconds)
        for fetched in fetcher.fetch_to_end(place.topic, place.partition, start, QueryLosses(fail=True)):
            for batch in walk(fetched.batches):
                if (batch.producer_id, batch.producer_epoch) == ours:
                    if batch.base_sequence != last:
                        raise DataLossError(f"{place.directory_name}: the log has records of this query from sequence "
                                            f"{batch.base_sequence}, where {last} was to come: some of what it wrote "
                                            "is lost")
                    last = (batch.last_sequence + 1) % SEQUENCES
        return (last - sequence) % SEQUENCES
