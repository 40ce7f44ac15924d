"""The simulator's partition, log and fetcher beside the compiled ones: both undergo the same steps, and must then be in
the same state. What is found with the models is worth as much as they are alike.

Of two replicas one leads; a third one exists only by its fetches.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kraft.protocol.messages.fetch_request import FetchPartition, ReplicaState
from kraft.testing.brokers.fetcher import Fetcher, Followed
from kraft.testing.brokers.log import ReplicaLog
from kraft.testing.brokers.messages import CONSUMER, FetchedPart, FetchPart, Produce
from kraft.testing.brokers.partition import PAGE_CACHE, PENDING, Partition
from kraft_native.base.errors import KraftError
from kraft_native.batch.batch import walk
from kraft_native.partition.partition import Partition as Compiled
from kraft_native.replica.replica_fetch import ReplicaFetcher
from tests.native.logs import batch
from tests.native.replica.test_replica_fetch import Line
from tests.native.serving import Node, fetched, topic_id_of

IDS = 1, 2
OUTSIDER = 3
REPLICAS = (*IDS, OUTSIDER)
KEY = UUID(bytes=topic_id_of("t")), 0
BROKER_EPOCH = 7
OTHERS = 1000
"""Producers from this id on send one batch, of any size: a model numbers batches, not records."""

epochs = st.integers(0, 9)
isrs = st.sampled_from(((), (OUTSIDER,), (0,), (0, OUTSIDER)))         # 0: the other one of the two
STEPS = st.lists(st.one_of(
    st.tuples(st.just("append"), st.integers(1, 4)),
    st.tuples(st.just("produce"), st.integers(1, 2), st.integers(0, 1), st.integers(0, 6)),
    st.tuples(st.just("replicate")),
    st.tuples(st.just("replicate")),
    st.tuples(st.just("fetch"), st.integers(-2, 12), st.integers(-1, 9), st.integers(-1, 1), st.integers(6, 8)),
    st.tuples(st.just("consume"), st.booleans(), st.integers(-2, 12), st.sampled_from((0, 0, 0, -1, 1))),
    st.tuples(st.just("consume"), st.booleans(), st.integers(1, 6), st.just(0)),
    st.tuples(st.just("set_isr"), isrs, isrs),
    st.tuples(st.just("lead"), st.sampled_from(IDS), st.integers(0, 2), isrs, isrs),
    st.tuples(st.just("delete"), st.integers(0, 12)),
    st.tuples(st.just("cut"), epochs, st.integers(0, 20)),
), max_size=30)


class Home:
    """The broker of a model."""

    durability = PAGE_CACHE
    fetch_batches_max = 1 << 30
    now_ms = 0

    def __init__(self, node_id: int) -> None:
        self.id = node_id
        self.has_news = False
        self.judge = cast(Any, SimpleNamespace(**dict.fromkeys(("leads", "cut", "exposed"), lambda _one: None),
                                               appended=lambda _one, _batch: None))

    def written(self) -> None: ...

    def news(self, _partition: Partition) -> None:
        self.has_news = True


class Follower:
    """The broker of a model's fetcher. Its requests go nowhere; the test answers."""

    epoch = BROKER_EPOCH

    def __init__(self, node_id: int) -> None:
        self.id = node_id
        self.following: dict[Any, Any] = {}

    def send_to_peer(self, *_question: object) -> None: ...
    def later(self, *_what: object) -> None: ...
    def count(self, _name: str) -> None: ...


class World:
    """`models` and `compiled` by node id; `reported` are the followers that their leader reported as caught up."""

    def __init__(self, directory: Path, min_insync_replicas: int) -> None:
        self.nodes = {}
        self.models: dict[int, Partition] = {}
        self.compiled: dict[int, Compiled] = {}
        self.reported_by_model: list[int] = []
        self.reported: list[int] = []
        self.waiting: list[tuple[Partition, int, int]] = []
        self.acknowledged: list[tuple[int, int]] = []
        self.acknowledged_by_model: list[tuple[int, int]] = []
        self.leader = 1
        self.epoch = 0
        self.value = 0
        for node_id in IDS:
            (directory / str(node_id)).mkdir(exist_ok=True)
            node = self.nodes[node_id] = Node(directory / str(node_id))
            self.compiled[node_id] = node.partition(
                leader=False, high_watermark="manual", min_insync_replicas=min_insync_replicas)
            self.models[node_id] = Partition(
                cast(Any, Home(node_id)), "t", KEY, ReplicaLog(KEY[0]), min_insync_replicas)
            self.compiled[node_id].watch_followers(lambda _one, follower: self.reported.append(follower) is None)
            self.models[node_id].watch_followers(lambda _one, follower: self.reported_by_model.append(follower) is None)
        self.lead(1, 0, (0,), (0,))

    def close(self) -> None:
        for node in self.nodes.values():
            node.close()
        vars(self).clear()

    @property
    def follower(self) -> int:
        return 3 - self.leader

    def _named(self, isr: tuple[int, ...]) -> tuple[int, ...]:
        return (self.leader, *(each or self.follower for each in isr))

    # --- steps -------------------------------------------------------------------------------------------------------

    def lead(self, leader: int, epochs_on: int, isr: tuple[int, ...], more: tuple[int, ...]) -> None:
        """Name the leader by the metadata, in a later epoch or, with the same leader, again in this one."""
        self.epoch += epochs_on if leader == self.leader else max(1, epochs_on)
        self.leader = leader
        named = self._named(isr)
        maximal = tuple(dict.fromkeys((*named, *self._named(more))))
        for side in (self.models, self.compiled):
            cast(Any, side)[leader].become_leader(
                self.epoch, node_id=leader, replicas=REPLICAS, isr=named, maximal=maximal)
            side[self.follower].become_follower(self.epoch, leader)

    def set_isr(self, isr: tuple[int, ...], more: tuple[int, ...]) -> None:
        named = self._named(isr)
        maximal = tuple(dict.fromkeys((*named, *self._named(more))))
        self.models[self.leader].set_isr(named, maximal)
        self.compiled[self.leader].set_isr(named, maximal)

    def append(self, count: int) -> None:
        """Append a batch of a new producer, so that it is never known."""
        self.value += 1
        self._append(count, OTHERS + self.value, 0, 0)

    def produce(self, producer: int, producer_epoch: int, sequence: int) -> None:
        """Produce one record, so that both count sequences alike."""
        self.value += 1
        self._append(1, producer, producer_epoch, sequence)

    def _append(self, count: int, producer: int, producer_epoch: int, sequence: int) -> None:
        code, end = self.models[self.leader].produce(
            Produce(KEY, producer, producer_epoch, sequence, self.value, count))
        try:
            info = self.compiled[self.leader].append(
                batch(count, producer_id=producer, producer_epoch=producer_epoch, base_sequence=sequence))
        except KraftError as refusal:
            assert (refusal.code, -1) == (code, end)
            return
        assert (0, info.last_offset + 1) == (code, end)
        epoch = self.epoch
        self.waiting.append((self.models[self.leader], end, epoch))
        self.compiled[self.leader].call_when_committed(
            end, lambda state: self.acknowledged.append((end, state)), timeout_ms=1 << 40)

    def replicate(self) -> None:
        """Let the follower fetch once."""
        model = self.models[self.follower]
        fetcher = Fetcher(cast(Any, Follower(self.follower)), self.leader)
        followed = fetcher.followed[KEY] = Followed(model)
        part = fetcher.part_of(KEY, followed)
        answer = self.models[self.leader].read(part, self.follower, BROKER_EPOCH)
        fetcher.take_part(answer, followed)

        line = Line(self.nodes[self.leader], self.nodes[self.follower], max_wait_ms=0)
        line.fetcher = compiled = ReplicaFetcher(
            node_id=self.follower, broker_epoch=BROKER_EPOCH, client_id="follower", max_wait_ms=0,
            on_error=lambda _one, code, _cause: line.errors.append((None, code)), on_lost=line.lost.append)
        compiled.follow(self.compiled[self.follower])
        line.connect()
        [topic] = line.next_request().topics
        [fetch_partition] = topic.partitions
        assert (fetch_partition.fetch_offset, fetch_partition.last_fetched_epoch,
                fetch_partition.current_leader_epoch) == (
            part.fetch_offset, part.last_epoch, part.leader_epoch)
        line.round()
        compiled.close()
        vars(line).pop("fetcher")
        assert [code for _, code in line.errors] == ([answer.error] if answer.error else [])

    def fetch(self, from_end: int, last_epoch: int, epoch_from: int, broker_epoch: int) -> None:
        """Let a replica without a log in this test fetch, from any position and in any epoch."""
        model = self.models[self.leader]
        offset = max(0, model.log.end_offset - from_end)
        answer = model.read(FetchPart(KEY, self.epoch + epoch_from, offset, last_epoch), OUTSIDER, broker_epoch)
        [reported] = fetched(self.nodes[self.leader].fetch(("t", FetchPartition(
            partition=0, current_leader_epoch=self.epoch + epoch_from, fetch_offset=offset,
            last_fetched_epoch=last_epoch, partition_max_bytes=1 << 20)), version=17,
            replica_state=ReplicaState(replica_id=OUTSIDER, replica_epoch=broker_epoch)))
        self._compare_answers(answer, reported)

    def consume(self, at_leader: bool, from_end: int, epoch_from: int) -> None:
        """Let a consumer fetch, from any replica."""
        node_id = self.leader if at_leader else self.follower
        model = self.models[node_id]
        offset = max(0, model.log.end_offset - from_end)
        answer = model.read(FetchPart(KEY, self.epoch + epoch_from, offset, -1), CONSUMER, -1)
        [reported] = fetched(self.nodes[node_id].fetch(("t", FetchPartition(
            partition=0, current_leader_epoch=self.epoch + epoch_from, fetch_offset=offset,
            partition_max_bytes=1 << 20)), version=17))
        self._compare_answers(answer, reported)

    def _compare_answers(self, answer: FetchedPart, reported: Any) -> None:
        assert reported.error_code == answer.error
        if not answer.error:
            assert self._diverging(reported) == answer.diverging
            assert [seen.last_offset + 1 for seen in walk(reported.records or b"")] == [
                each.end_offset for each in answer.batches]
            if answer.diverging is None:
                assert (reported.high_watermark, reported.log_start_offset) == (answer.high_watermark, answer.log_start)

    @staticmethod
    def _diverging(reported: Any) -> tuple[int, int] | None:
        epoch, end = reported.diverging_epoch.epoch, reported.diverging_epoch.end_offset
        return None if epoch < 0 else (epoch, end)

    def delete(self, below: int) -> None:
        """Delete up to the end of a committed batch: the model has no half batches."""
        model = self.models[self.leader]
        ends = [model.log.start_offset, *(each.end_offset for each in model.log.batches
                                          if each.end_offset <= model.high_watermark)]
        offset = ends[below % len(ends)]
        model.log.delete_before(offset)
        model.home.news(model)
        self.compiled[self.leader].delete_records(offset)

    def cut(self, epoch: int, end_offset: int) -> None:
        """Report to the follower where its log diverges from the leader's, which is not below its own log's start."""
        end_offset += self.models[self.follower].log.start_offset
        self.models[self.follower].cut_to_epoch(epoch, end_offset)
        self.compiled[self.follower].cut_to_epoch(epoch, end_offset)

    # --- comparison --------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Check the waiting requests after news."""
        for node in self.nodes.values():
            node.purgatory.drain()
        waiting, self.waiting = self.waiting, []
        for model, end, epoch in waiting:
            state = model.commit_state(end, epoch) if cast(Home, model.home).has_news else PENDING
            if state == PENDING:
                self.waiting.append((model, end, epoch))
            else:
                self.acknowledged_by_model.append((end, int(state)))
        for model in self.models.values():
            cast(Home, model.home).has_news = False

    def compare(self) -> None:
        for node_id in IDS:
            assert state_of_model(self.models[node_id]) == state_of(self.compiled[node_id]), f"node {node_id}"
        assert self.reported_by_model == self.reported
        self.settle()
        assert sorted(self.acknowledged_by_model) == sorted(self.acknowledged)


def state_of_model(model: Partition) -> dict[str, Any]:
    log = model.log
    return {
        "role": (model.leader_epoch, model.leader_id, model.is_leader, model.epoch_start if model.is_leader else None),
        "log": (log.start_offset, log.end_offset), "high watermark": model.high_watermark, "epochs": log.epochs,
        "batches": [(each.base_offset, each.end_offset, each.epoch, each.producer) for each in log.batches],
        "ends": [log.end_offset_for(epoch) for epoch in range(-1, 12)],
        "in sync": model.in_sync_count if model.is_leader else None,
        "seen": [model.broker_epoch_of(each) for each in REPLICAS] if model.is_leader else None,
        "producers": {number: (state.epoch, state.batches[-1][0]) for number, state in sorted(log.producers.items())
                      if number < OTHERS},
    }


def state_of(partition: Compiled) -> dict[str, Any]:
    log, leads = partition.log, partition.is_leader
    records = b"" if log.log_start_offset == log.log_end_offset else bytes(
        log.read(log.log_start_offset, 1 << 20, "log_end"))
    return {
        "role": (partition.leader_epoch, partition.leader_id, leads, partition.epoch_start if leads else None),
        "log": (log.log_start_offset, log.log_end_offset), "high watermark": partition.high_watermark,
        "epochs": log.epochs.entries(),
        "batches": [(each.base_offset, each.last_offset + 1, each.leader_epoch, each.producer_id)
                    for each in walk(records)],
        "ends": [log.end_offset_for_epoch(epoch) for epoch in range(-1, 12)],
        "in sync": partition.progress.in_sync_count if leads else None,
        "seen": [partition.broker_epoch_of(each) for each in REPLICAS] if leads else None,
        "producers": {each.producer_id: (each.producer_epoch, each.last_sequence)
                      for each in sorted(log.producers.describe(), key=lambda state: state.producer_id)
                      if each.producer_id < OTHERS},
    }


@settings(max_examples=100, deadline=None, derandomize=True, database=None,
          suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(min_insync_replicas=st.integers(1, 3), steps=STEPS)
def test_models_and_compiled_partitions_are_alike(
        tmp_path_factory: pytest.TempPathFactory, min_insync_replicas: int, steps: list[tuple[Any, ...]]) -> None:
    world = World(tmp_path_factory.mktemp("twins"), min_insync_replicas)
    try:
        for what, *arguments in steps:
            getattr(world, what)(*arguments)
            world.compare()
    finally:
        world.close()
