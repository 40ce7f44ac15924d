"""Replication between brokers: fetch from the leaders that this broker follows, keep the in-sync replicas of what it
leads.

`kraft.broker.isr` makes the decisions and `kraft_native.replica.replica_fetch` is the data path. This module has the
connections, the timers and the rare cases.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

from kraft.broker.broker import Broker
from kraft.broker.isr import IsrKeeper, Key
from kraft.broker.replica_events import (
    FetchFailed,
    LeaderConnected,
    LeaderLost,
    LeaderUnreachable,
    LeaderUnresponsive,
    LogCut,
    ReplicaEvent,
)
from kraft.broker.replica_roles import key_of
from kraft.config.effective import Source, broker_value
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.error_names import name_of
from kraft.protocol.message import Message
from kraft.protocol.messages.alter_partition_request import AlterPartitionRequest
from kraft.protocol.messages.alter_partition_response import AlterPartitionResponse
from kraft.raft.types import Endpoint
from kraft.runtime.base.alarm import Alarm
from kraft.runtime.base.time_slices import WorkQueue
from kraft.runtime.net.dialer import Backoff, Dialer
from kraft.runtime.replicas.leader_queries import address_of, log_bounds
from kraft.runtime.replicas.recorder import ReplicaRecorder
from kraft_native.base.errors import KraftError
from kraft_native.partition.partition import Partition
from kraft_native.partition.purgatory import now_ms as monotonic_ms
from kraft_native.replica.replica_fetch import ReplicaFetcher

log = logging.getLogger(__name__)

ALTER_PARTITION_VERSION: Final = 3
PAUSE_SECONDS: Final = 0.02
CHECKS_PER_TIMEOUT: Final = 4
"""Checks for unresponsive leaders within one time-out."""

FAULTS_RECORDED_MAX: Final = 20

EXPECTED: Final = frozenset((
    ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
))
"""Errors that occur while one broker knows of a change and the other does not yet."""


class _Leader:
    """The connection to one leader. A broken one is replaced at once, then after a pause that grows."""

    def __init__(self, node_id: int, replication: "Replication") -> None:
        self._node_id = node_id
        self._replication = replication
        self._followed: dict[Key, Partition] = {}
        self._fetcher: ReplicaFetcher | None = None
        self._opening: ReplicaFetcher | None = None
        """The fetcher whose connection is being opened, until it is lost."""
        self._task: asyncio.Task[None] | None = None
        self._backoff = Backoff(PAUSE_SECONDS, replication.backoff_seconds)
        self._address: Endpoint | None = None

    def follow(self, key: Key, partition: Partition) -> None:
        self._followed[key] = partition
        if self._fetcher is not None and self._replication.address_of(self._node_id) == self._address:
            self._fetcher.follow(partition)
        else:
            self.connect()

    def unfollow(self, key: Key) -> None:
        partition = self._followed.pop(key, None)
        if partition is not None and self._fetcher is not None:
            self._fetcher.unfollow(partition)

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
        if self._fetcher is not None:
            self._fetcher.close()
            self._fetcher = None

    def connect(self) -> None:
        """Open the connection, to the leader's current address."""
        if self._task is None:
            if self._fetcher is not None:
                self._fetcher.close()
                self._fetcher = None
            self._task = asyncio.get_running_loop().create_task(self._reconnect())

    @property
    def silent_ms(self) -> int | None:
        """Time since the leader owes an answer; None without a connection."""
        return None if self._fetcher is None else self._fetcher.silent_ms

    def look(self, timeout_ms: int) -> None:
        """Open another connection when the leader has owed an answer for `timeout_ms`: its machine, or a device
        between, may have lost the current one without a reset."""
        if self._fetcher is not None and self._fetcher.silent_ms >= timeout_ms:
            log.warning("broker %d has not answered a Fetch for %d ms: requests go to another connection",
                        self._node_id, timeout_ms)
            self._record(LeaderUnresponsive(timeout_ms))
            self.connect()

    def renew(self) -> None:
        """Open another connection, even while one is being opened."""
        self.close()
        self._backoff.reset()
        if self._followed:
            self.connect()

    async def _reconnect(self) -> None:
        try:
            await self._connect()
        except Exception as error:  # noqa: BLE001 - replicas that stay behind unnoticed would be worse
            self._replication.on_failure(error)

    async def _connect(self) -> None:
        while True:
            self._backoff.max_seconds = self._replication.backoff_seconds
            await self._backoff.wait()
            address = self._replication.address_of(self._node_id)
            if address is None:
                self._record(LeaderUnreachable())
                self._backoff.failed()
                continue
            self._opening = fetcher = self._replication.new_fetcher(self._lost)
            try:
                transport = await self._replication.dialer.connect(
                    address, partial(cast, asyncio.BufferedProtocol, fetcher),
                    seconds=self._replication.connect_seconds(self._backoff.failures))
                self._replication.size_buffer(transport.get_extra_info("socket"))
            except OSError as error:
                log.debug("broker %d at %s:%d cannot be reached: %r", self._node_id, address.host, address.port, error)
                self._record(LeaderUnreachable(f"{address.host}:{address.port}", error))
                self._backoff.failed()
                continue
            if self._opening is fetcher:
                break
            self._record(LeaderLost())     # before this task ran again: nothing else would report it
            self._backoff.failed()
        self._task = self._opening = None
        self._fetcher, self._address = fetcher, address
        self._record(LeaderConnected(f"{address.host}:{address.port}"))
        for partition in self._followed.values():
            fetcher.follow(partition)

    def _lost(self, fetcher: ReplicaFetcher) -> None:
        if fetcher is self._opening:
            self._opening = None
        elif fetcher is self._fetcher:
            self._fetcher = None
            self._record(LeaderLost())
            if fetcher.responses_total:
                self._backoff.reset()  # the address was right: the leader may only be restarting
            else:
                self._backoff.failed()
            if self._followed:
                self.connect()

    def _record(self, event: ReplicaEvent) -> None:
        self._replication.recorder.connection(self._node_id, event)


class Replication:
    """The broker's side of replication. Loop thread only.

    `clock` is the wall clock in milliseconds; `on_failure` is called with a fault of our own.
    """

    def __init__(self, broker: Broker, dialer: Dialer, clock: Callable[[], int],
                 on_failure: Callable[[BaseException], object]) -> None:
        self.broker = broker
        self.dialer = dialer
        self.recorder = ReplicaRecorder(broker.node_id, clock, self._recorded_state)
        self.keeper = IsrKeeper(broker.node_id, self._send_request, self._epoch_of, self._trace)
        self._clock = clock
        self.on_failure = on_failure
        self._leaders: dict[int, _Leader] = {}
        self._following: dict[Key, tuple[int, Partition]] = {}
        """The fetched replicas, each with its leader's id."""
        self._pauses: dict[Key, Backoff] = {}
        self._retries: dict[Key, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._alarm = Alarm(monotonic_ms, self._tick)
        self._checks = WorkQueue(on_failure)
        self._lag_timer: asyncio.TimerHandle | None = None
        self._unresponsive_timer: asyncio.TimerHandle | None = None
        self._closed = False

    def start(self) -> None:
        """Start the periodic checks for followers that lag and for leaders that do not respond."""
        self._check_lag_later()
        self._check_unresponsive_later()

    def close(self) -> None:
        """Follow nothing from here on. May be called again."""
        self._closed = True
        self._alarm.cancel()
        self._checks.close()
        for timer in (self._lag_timer, self._unresponsive_timer, *self._retries.values()):
            if timer is not None:
                timer.cancel()
        self._retries.clear()
        for task in self._tasks:
            task.cancel()
        for leader in self._leaders.values():
            leader.close()
        self._leaders.clear()
        self._following.clear()

    # --- roles (`Fetchers`)

    def begin(self, leader_id: int, key: Key, partition: Partition) -> None:
        """Follow that leader over its connection."""
        if not self._closed:
            self._following[key] = leader_id, partition
            try:
                cut_at_loss(partition, self._cut)
            except KraftError as error:
                self._failed(partition, error.code, error)
                return
            self._leader(leader_id).follow(key, partition)

    def end(self, leader_id: int, key: Key) -> None:
        """Stop following that leader."""
        self._following.pop(key, None)
        self._pauses.pop(key, None)
        if (timer := self._retries.pop(key, None)) is not None:
            timer.cancel()
        self._leader(leader_id).unfollow(key)

    def watch(self, partition: Partition) -> None:
        """Have the keeper notified of each follower that catches up; this broker leads the partition."""
        partition.watch_followers(self._caught_up)

    def renew(self) -> None:
        """Connect again, because this broker has another epoch. A connection announces the epoch with its first Fetch,
        and a leader never counts a follower of an earlier epoch as in sync."""
        for leader in self._leaders.values():
            leader.renew()

    def _leader(self, node_id: int) -> _Leader:
        leader = self._leaders.get(node_id)
        if leader is None:
            leader = self._leaders[node_id] = _Leader(node_id, self)
        return leader

    # --- settings of the connections to leaders

    @property
    def backoff_seconds(self) -> float:
        return self.broker.integer("replica.fetch.backoff.ms") / 1000

    def connect_seconds(self, failures: int) -> float:
        """Time that the next connection may take to open, after `failures` attempts in a row that failed."""
        number = self.broker.integer
        return min(number("socket.connection.setup.timeout.ms") << min(failures, 16),
                   number("socket.connection.setup.timeout.max.ms")) / 1000

    def size_buffer(self, connection: socket.socket) -> None:
        """Set the receive buffer only when the setting is set, as for `socket.receive.buffer.bytes`; else the system
        chooses."""
        found = broker_value("replica.socket.receive.buffer.bytes", self.broker.layers())
        if found.source != Source.DEFAULT and isinstance(found.value, int) and found.value > 0:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, found.value)

    def address_of(self, node_id: int) -> Endpoint | None:
        return address_of(self.broker, node_id)

    def new_fetcher(self, on_lost: Callable[[ReplicaFetcher], object]) -> ReplicaFetcher:
        number = self.broker.integer
        return ReplicaFetcher(
            node_id=self.broker.node_id, broker_epoch=self.broker.epoch,
            client_id=f"broker-{self.broker.node_id}-fetcher-0", on_error=self._failed, on_lost=on_lost,
            on_cut=self._cut,
            max_wait_ms=number("replica.fetch.wait.max.ms"), min_bytes=number("replica.fetch.min.bytes"),
            bytes_max=number("replica.fetch.response.max.bytes"), partition_bytes_max=number("replica.fetch.max.bytes"))

    def _failed(self, partition: Partition | None, code: int, cause: BaseException | None) -> None:
        """Handle a partition whose fetch stopped: it is fetched again after a pause."""
        if partition is None:
            log.warning("a leader's answer cannot be read: %s", cause)
            return
        key = key_of(partition)
        if key not in self._following:
            return
        self.recorder.partition(partition.topic, partition.index, FetchFailed(self._following[key][0], code, cause))
        if cause is not None or code not in EXPECTED:
            log.warning("%s-%d is not fetched for now: %s", partition.topic, partition.index,
                        cause or name_of(code))
        if partition.log.failure is not None:
            return                     # its disk failed: nothing more can be appended
        backoff = self._pauses.setdefault(key, Backoff(PAUSE_SECONDS, self.backoff_seconds))
        backoff.max_seconds = self.backoff_seconds
        self._retries[key] = asyncio.get_running_loop().call_later(backoff.failed(), self._retry, key, code)

    def _retry(self, key: Key, code: int) -> None:
        self._retries.pop(key, None)
        known = self._following.get(key)
        if known is None:
            return
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            task = asyncio.get_running_loop().create_task(self._find_place(key, *known))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            self._leader(known[0]).follow(key, known[1])

    async def _find_place(self, key: Key, leader_id: int, partition: Partition) -> None:
        """Move a log end that the leader's log does not contain. Past the leader's log end, the rest is dropped; before
        its log start, the log restarts there.

        Nothing is done when the partition was fetched meanwhile, in another leader epoch or over another connection.
        The answer may be older than what was fetched, which the leader counts already."""
        before_query = _state(partition)

        def is_outdated() -> bool:
            return self._following.get(key) != (leader_id, partition) or _state(partition) != before_query

        address = self.address_of(leader_id)
        try:
            bounds = None if address is None else await log_bounds(
                self.dialer, address, self.broker.node_id, partition, self.broker.integer("request.timeout.ms") / 1000)
            if is_outdated():
                return
            if bounds is not None:
                start, end = bounds
                if end < partition.log.log_end_offset:
                    log.warning("%s-%d: its leader's log ends at %d, what is here from there on is dropped",
                                partition.topic, partition.index, end)
                    before = partition.log.log_end_offset
                    partition.log.truncate_to(end)
                    self._cut(partition, before, f"the log of its leader, broker {leader_id}, ends at {end}")
                elif start > partition.log.log_end_offset:
                    log.warning("%s-%d: its leader's log starts at %d, past the end of this one: it restarts there",
                                partition.topic, partition.index, start)
                    before = partition.log.log_end_offset
                    partition.log.truncate_fully_and_start_at(start)
                    self._cut(partition, before, f"the log of its leader, broker {leader_id}, starts at {start}")
                partition.log_changed()
            self._leader(leader_id).follow(key, partition)
        except KraftError as error:
            self._failed(partition, error.code, error)
        except (OSError, TimeoutError):
            if not is_outdated():
                self._failed(partition, ErrorCode.OFFSET_OUT_OF_RANGE, None)
        except Exception as error:  # noqa: BLE001 - a replica that stays behind unnoticed would be worse
            self.on_failure(error)

    # --- in-sync replicas

    def _caught_up(self, partition: Partition, node_id: int) -> bool:
        return self.keeper.caught_up(key_of(partition), node_id)

    def _epoch_of(self, broker_id: int) -> int | None:
        if broker_id == self.broker.node_id:
            return self.broker.epoch       # not the epoch of another process with this id
        registration = self.broker.image.brokers.get(broker_id)
        return registration.epoch if registration is not None and registration.active else None

    def _send_request(self, request: AlterPartitionRequest) -> None:
        self.broker.submit(request, ALTER_PARTITION_VERSION, self._clock(), self._answered)

    def _answered(self, response: Message) -> None:
        assert isinstance(response, AlterPartitionResponse)
        if not self._closed:
            self.keeper.answered(response, monotonic_ms())
            self._alarm.set(self.keeper.deadline_ms)

    # --- the flight recorder

    def _trace(self, key: Key, event: ReplicaEvent) -> None:
        topic = self.broker.image.topics.get(key[0])
        self.recorder.partition("" if topic is None else topic.name, key[1], event)

    def _cut(self, partition: Partition, before: int, because: str) -> None:
        """Record that a log which ended at `before` was cut."""
        self.recorder.partition(partition.topic, partition.index,
                                LogCut(before, partition.log.log_end_offset, because))

    def _recorded_state(self) -> dict[str, Any]:
        return {"broker_epoch": self.broker.epoch, "follows": len(self._following), "leads": len(self.keeper),
                "faults": self.broker.faults.texts()[:FAULTS_RECORDED_MAX], "fault_count": len(self.broker.faults),
                "wait_ms": self.broker.integer("replica.fetch.wait.max.ms"),
                "leaders": [{"leader": node_id, "silent_ms": leader.silent_ms}
                            for node_id, leader in self._leaders.items()]}

    # --- timers

    def _check_lag(self) -> None:
        if not self._checks:
            self._checks.add(self.keeper.drop_lagging_steps(self.broker.integer("replica.lag.time.max.ms")))
        self._check_lag_later()

    def _check_lag_later(self) -> None:
        half = self.broker.integer("replica.lag.time.max.ms") / 2000
        self._lag_timer = asyncio.get_running_loop().call_later(half, self._check_lag)

    def _check_unresponsive(self) -> None:
        for leader in self._leaders.values():
            leader.look(self._answer_ms)
        self._check_unresponsive_later()

    def _check_unresponsive_later(self) -> None:
        pause = self._answer_ms / 1000 / CHECKS_PER_TIMEOUT
        self._unresponsive_timer = asyncio.get_running_loop().call_later(pause, self._check_unresponsive)

    @property
    def _answer_ms(self) -> int:
        """Time after which a leader counts as unresponsive; longer than it may legitimately hold a Fetch back."""
        number = self.broker.integer
        return max(number("replica.socket.timeout.ms"), 2 * number("replica.fetch.wait.max.ms"), 1)

    def _tick(self) -> None:
        self.keeper.tick(monotonic_ms())
        self._alarm.set(self.keeper.deadline_ms)


def _state(partition: Partition) -> tuple[int, ...]:
    """Return what changes when a replica has another leader epoch, or its log other records."""
    if partition.log.closed:
        return ()
    return partition.leader_epoch, partition.log.log_end_offset, partition.log.truncation_generation


def cut_at_loss(partition: Partition, on_cut: Callable[[Partition, int, str], object]) -> None:
    """Cut a follower's log where records were lost or damaged, so that its leader sends them again. Otherwise the
    follower would come in sync with a hole in its log. Raises what `Log.truncate_to` raises."""
    offset = partition.log.first_lost_offset
    if offset is not None and partition.log.failure is None:
        log.warning("%s-%d: records were lost from offset %d on; all behind that is fetched again", partition.topic,
                    partition.index, offset)
        before = partition.log.log_end_offset
        partition.log.truncate_to(offset)
        on_cut(partition, before, f"records were lost here from {offset} on")
        partition.log_changed()
