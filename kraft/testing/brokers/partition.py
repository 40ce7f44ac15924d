"""A replica in its role: the model of `kraft_native.partition.partition`, `.watermark` and of
`kraft_native.serve.fetch_entry`, rule by rule, with a given clock and a log in memory. Names and order of the rules are
those of the compiled modules, so that the two can be read side by side."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from kraft.broker.isr import Key
from kraft.protocol.error_codes import ErrorCode
from kraft.testing.brokers.log import NO_STATE, Batch, ReplicaLog, made_batch
from kraft.testing.brokers.messages import CONSUMER, FetchedPart, FetchPart, Produce

PENDING: Final = -2
PAGE_CACHE: Final = 0
GROUP_COMMIT: Final = 1
PER_APPEND: Final = 2


class Judge(Protocol):
    """An observer that is called while replicas act."""

    def leads(self, partition: "Partition") -> None: ...
    def appended(self, partition: "Partition", batch: Batch) -> None: ...
    def cut(self, partition: "Partition") -> None: ...
    def exposed(self, partition: "Partition") -> None: ...


class Home(Protocol):
    """The broker that has the replica."""

    @property
    def id(self) -> int: ...
    @property
    def now_ms(self) -> int: ...
    @property
    def durability(self) -> int: ...
    @property
    def fetch_batches_max(self) -> int: ...
    @property
    def judge(self) -> Judge: ...

    def written(self) -> None:
        """Note that a log has records to flush."""

    def news(self, partition: "Partition") -> None:
        """Wake the requests that wait for the partition."""


@dataclass(slots=True)
class Progress:
    """The leader's knowledge about one follower."""

    node_id: int
    leader_end: int
    log_end: int = -1
    caught_up_ms: int = -1
    fetch_ms: int = -1
    broker_epoch: int = -1
    in_sync: bool = False
    reported: bool = False


class Partition:
    """A replica of one partition. `shown` is the high watermark that it last had as a leader when the run was
    checked."""

    def __init__(self, home: Home, topic: str, key: Key, log: ReplicaLog, min_insync_replicas: int) -> None:
        self.home = home
        self.topic = topic
        self.key = key
        self.log = log
        self.min_insync_replicas = min_insync_replicas
        self.leader_epoch = self.leader_id = self.epoch_start = -1
        self.is_leader = False
        self.is_removed = False
        self.progress: dict[int, Progress] = {}
        self.in_sync_count = 1
        self.shown = 0
        self._on_caught_up: Callable[[Partition, int], bool] | None = None

    def __str__(self) -> str:
        return f"{self.topic}-{self.index} on broker {self.home.id} in epoch {self.leader_epoch}"

    @property
    def topic_id(self) -> bytes:
        return self.key[0].bytes

    @property
    def index(self) -> int:
        return self.key[1]

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

    # --- roles --------------------------------------------------------------------------------------------------------

    def become_leader(self, leader_epoch: int, *, node_id: int, replicas: tuple[int, ...],
                      isr: tuple[int, ...], maximal: tuple[int, ...]) -> None:
        assert leader_epoch >= self.leader_epoch, f"{self}: to lead in epoch {leader_epoch}"
        is_new_epoch = leader_epoch > self.leader_epoch or not self.is_leader
        self._reset(replicas, maximal, is_new_epoch=is_new_epoch)
        self.in_sync_count = len(dict.fromkeys(isr))
        if is_new_epoch:
            self.log.begin_epoch(leader_epoch)
            self.epoch_start = self.log.end_offset
        self.leader_epoch, self.leader_id, self.is_leader = leader_epoch, node_id, True
        if is_new_epoch:
            self.home.judge.leads(self)
        self.advance()
        self.home.news(self)

    def become_follower(self, leader_epoch: int, leader_id: int) -> None:
        assert leader_epoch >= self.leader_epoch, f"{self}: to follow {leader_id} in epoch {leader_epoch}"
        self.leader_epoch, self.leader_id, self.is_leader = leader_epoch, leader_id, False
        self.home.news(self)

    def set_isr(self, isr: tuple[int, ...], maximal: tuple[int, ...] | None = None) -> None:
        assert self.is_leader
        self._reset((self.leader_id, *self.progress), isr if maximal is None else maximal, is_new_epoch=False)
        self.in_sync_count = len(dict.fromkeys(isr))
        self.advance()
        self.home.news(self)

    def _reset(self, node_ids: tuple[int, ...], in_sync: tuple[int, ...], *, is_new_epoch: bool) -> None:
        known, self.progress = {} if is_new_epoch else self.progress, {}
        for node_id in node_ids:
            if node_id == self.home.id:
                continue
            replica = known.get(node_id) or Progress(node_id, self.log.end_offset)
            if node_id not in in_sync:
                replica.in_sync = False
            elif not replica.in_sync:
                replica.in_sync = True
                replica.caught_up_ms = max(replica.caught_up_ms, self.home.now_ms)
            replica.reported = False
            self.progress[node_id] = replica

    def watch_followers(self, on_caught_up: "Callable[[Partition, int], bool]") -> None:
        self._on_caught_up = on_caught_up

    def lagging(self, lag_max_ms: int) -> list[int]:
        since = self.home.now_ms - lag_max_ms
        if not self.is_leader:
            return []
        return [each.node_id for each in self.progress.values()
                if each.in_sync and each.caught_up_ms < since and each.log_end != self.log.end_offset]

    def broker_epoch_of(self, node_id: int) -> int:
        replica = self.progress.get(node_id)
        return -1 if replica is None else replica.broker_epoch

    @property
    def maximal(self) -> list[int]:
        """Replicas that the high watermark waits for."""
        return [self.home.id, *(each.node_id for each in self.progress.values() if each.in_sync)]

    def fence(self, current_leader_epoch: int, *, need_leader: bool = True) -> ErrorCode:
        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:
            is_old = current_leader_epoch < self.leader_epoch
            return ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if need_leader and not self.is_leader else ErrorCode.NONE

    # --- appending ----------------------------------------------------------------------------------------------------

    def produce(self, request: Produce) -> tuple[ErrorCode, int]:
        """Append a batch; return the error and the end offset of the batch.

        A batch of a known producer is either the next one, or a duplicate, or out of order. The end offset of a
        duplicate is that of its first append.
        """
        state = self.log.producers.get(request.producer, NO_STATE)
        if request.producer_epoch < state.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH, -1
        known = state.batches if request.producer_epoch == state.epoch else ()
        for sequence, end_offset in known:
            if sequence == request.sequence:
                return ErrorCode.NONE, end_offset
        if (known and request.sequence != known[-1][0] + 1) or (not known and state.epoch >= 0 and request.sequence):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        before = self.log.chain
        assert before is not None, f"{self}: leads, and does not know what it has"
        batch = made_batch(self.log.end_offset, request.records, self.leader_epoch, request.producer,
                           request.producer_epoch, request.sequence, request.value, before)
        self.log.append(batch)
        self.home.judge.appended(self, batch)
        self._appended()
        return ErrorCode.NONE, batch.end_offset

    def _appended(self) -> None:
        self.home.written()
        if self.home.durability != GROUP_COMMIT:
            self.advance()
        self.home.news(self)

    def own_end(self) -> int:
        return self.log.durable_end if self.home.durability == GROUP_COMMIT else self.log.end_offset

    @property
    def minimum_in_sync(self) -> int:
        return min(self.min_insync_replicas, len(self.progress) + 1)

    @property
    def has_minimum(self) -> bool:
        return self.in_sync_count >= self.minimum_in_sync

    def minimum(self) -> int:
        """Smallest log end among the replicas that the high watermark waits for."""
        return min([self.own_end(), *(each.log_end for each in self.progress.values() if each.in_sync)])

    def advance(self) -> None:
        if self.is_leader and self.has_minimum:
            end = self.minimum()
            if end > self.log.high_watermark:
                self.log.high_watermark = end
                self.home.judge.exposed(self)

    def flushed(self) -> None:
        self.advance()
        self.home.news(self)

    def commit_state(self, end_offset: int, leader_epoch: int) -> int:
        """Return 0 when everything below is committed, PENDING while that is open, else the error."""
        if self.is_removed or not self.is_leader or leader_epoch != self.leader_epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if not self.has_minimum and self.minimum() >= end_offset:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE if self.log.high_watermark >= end_offset else PENDING

    # --- being fetched ------------------------------------------------------------------------------------------------

    def read(self, part: FetchPart, replica_id: int, broker_epoch: int) -> FetchedPart:
        is_consumer = replica_id == CONSUMER
        error = self.fence(part.leader_epoch, need_leader=not is_consumer)
        if error == ErrorCode.NONE and not is_consumer and replica_id not in self.progress:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if error != ErrorCode.NONE:
            return FetchedPart(part.key, error)
        answer = self.read_records(part, self.visible_limit(replica_id))
        if answer.error == ErrorCode.NONE and answer.diverging is None and not is_consumer:
            self.note_replica(replica_id, part.fetch_offset, broker_epoch)
            answer = answer._replace(high_watermark=self.log.high_watermark)      # the fetch may have just raised it
        return answer

    def visible_limit(self, replica_id: int) -> int:
        return self.log.high_watermark if replica_id == CONSUMER else self.log.end_offset

    def read_records(self, part: FetchPart, limit: int) -> FetchedPart:
        log, offset = self.log, part.fetch_offset
        diverging = self.disagreement(part) if part.last_epoch >= 0 else None
        if diverging is not None:
            return diverging
        if not log.start_offset <= offset <= log.end_offset:
            return FetchedPart(part.key, ErrorCode.OFFSET_OUT_OF_RANGE)
        return FetchedPart(part.key, ErrorCode.NONE, log.high_watermark, log.start_offset,
                           log.read(offset, limit, self.home.fetch_batches_max))

    def disagreement(self, part: FetchPart) -> FetchedPart | None:
        """Return the answer for a follower whose log differs from this one; None when they agree."""
        epoch, end = self.log.end_offset_for(part.last_epoch)
        # A follower whose offset is deleted must restart its log, whatever the epochs say (KAFKA-12996).
        if epoch < 0 or end < 0 or part.fetch_offset < self.log.start_offset:
            return FetchedPart(part.key, ErrorCode.OFFSET_OUT_OF_RANGE)
        if epoch < part.last_epoch or end < part.fetch_offset:
            return FetchedPart(part.key, ErrorCode.NONE, self.log.high_watermark, self.log.start_offset, (),
                               (epoch, end))
        return None

    def note_replica(self, node_id: int, fetch_offset: int, broker_epoch: int) -> None:
        replica, now_ms, log_end = self.progress[node_id], self.home.now_ms, self.log.end_offset
        if self.is_overtaken(replica, broker_epoch):
            return
        # A follower is caught up if it now has what the leader had at its last fetch. While records keep coming it
        # never has everything.
        if fetch_offset >= log_end:
            replica.caught_up_ms = max(replica.caught_up_ms, now_ms)
        elif replica.fetch_ms >= 0 and fetch_offset >= replica.leader_end:
            replica.caught_up_ms = max(replica.caught_up_ms, replica.fetch_ms)
        replica.log_end, replica.leader_end = fetch_offset, log_end
        replica.broker_epoch, replica.fetch_ms = broker_epoch, now_ms
        before = self.log.high_watermark
        if replica.in_sync:
            self.advance()
            if self.log.high_watermark > before:
                self.home.news(self)
        elif (self._on_caught_up is not None and not replica.reported and fetch_offset >= before
              and fetch_offset >= self.epoch_start):
            # The callback may replace the replicas. They are unchanged only when it answers "not now".
            replica.reported = True
            if not self._on_caught_up(self, node_id):
                self.progress[node_id].reported = False

    @staticmethod
    def is_overtaken(replica: Progress, broker_epoch: int) -> bool:
        """Return whether the Fetch is from an earlier process of the broker. It says nothing about the current process,
        which may have lost records (KIP-903)."""
        return 0 <= broker_epoch < replica.broker_epoch

    # --- following ----------------------------------------------------------------------------------------------------

    @property
    def last_epoch(self) -> int:
        """Leader epoch of the last record; -1 when there is none."""
        return self.log.epoch_at(self.log.end_offset - 1) if self.log.end_offset > 0 else -1

    def replicate(self, batches: tuple[Batch, ...]) -> bool:
        """Append the batches past the log end; return whether there were any."""
        log = self.log
        fresh = [batch for batch in batches if batch.end_offset > log.end_offset]
        for batch in fresh:
            if log.start_chain is None and log.end_offset == log.start_offset:
                log.start_chain = batch.before
            log.append(batch)
            self.home.judge.appended(self, batch)
        if fresh:
            self.home.written()
        return bool(fresh)

    def follow_marks(self, high_watermark: int, log_start: int) -> None:
        mark = min(high_watermark, self.log.end_offset)
        if mark > self.log.high_watermark:
            self.log.high_watermark = mark
            self.home.judge.exposed(self)
        # Records that the leader deleted are deleted here too, as far as they are known to be committed.
        if log_start > self.log.start_offset and self.log.high_watermark > self.log.start_offset:
            self.log.delete_before(min(log_start, self.log.high_watermark))

    def cut_to_epoch(self, epoch: int, end_offset: int) -> None:
        """Drop the records that differ: the leader's log has nothing of `epoch` from `end_offset` on."""
        own_end = self.log.end_offset_for(epoch)[1]
        self.cut_to(max(end_offset if own_end < 0 else min(own_end, end_offset), 0))

    def cut_to(self, offset: int) -> None:
        self.log.truncate_to(offset)
        self.home.judge.cut(self)
        self.home.news(self)

    def restart_at(self, offset: int, start_chain: int | None) -> None:
        """Restart the log at `offset`: the leader has none of its records any more."""
        self.log.restart_at(offset)
        self.log.start_chain = start_chain
        self.home.judge.cut(self)
        self.home.news(self)
