"""Delivery to share groups: the handlers of ShareFetch and ShareAcknowledge, and the way to the stored state.

Created when the first of these requests comes. Compiled code serves the requests (`kraft_native.share`). Python runs
once to load a share partition, and once in an iteration of the loop for all that is to be written.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from kraft.broker.broker import Broker
from kraft.broker.share_partitions.requests import (
    FENCED,
    PASSING,
    UNINITIALIZED,
    Stored,
    Write,
    error_for_clients,
    outcomes,
    read_request,
    stored_state,
    write_request,
)
from kraft.broker.share_partitions.settings import offset_reset, share_settings
from kraft.broker.share_partitions.start import start_offset, time_of
from kraft.metadata.image import GROUP_RESOURCE, Resource
from kraft.metadata.versions import SHARE_VERSION
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages.read_share_group_state_response import ReadShareGroupStateResponse
from kraft.protocol.messages.write_share_group_state_response import WriteShareGroupStateResponse
from kraft.runtime.base.alarm import Alarm
from kraft.runtime.net.server import Server
from kraft_native.base.errors import KraftError, OffsetNotAvailableError
from kraft_native.partition.purgatory import Purgatory
from kraft_native.partition.purgatory import now_ms as monotonic_ms
from kraft_native.request.client_quotas import ClientQuotas
from kraft_native.request.reply import ReplySink
from kraft_native.share.partitions import SharePartition, SharePartitions, ShareSettings
from kraft_native.share.request import ShareHandler
from kraft_native.share.sessions import ShareSessions

log = logging.getLogger(__name__)

PAUSE_MS: Final = 500
"""Time until a state that cannot be read for now is requested again."""
WRITES_PER_REQUEST: Final = 200
BATCHES_AT_ONCE_MAX: Final = 2_000
"""State batches that are written in one iteration of the loop, and those of one more share partition."""


class ShareDelivery:
    """Delivery to share groups by one broker. Loop thread only. `clock` returns milliseconds since 1970."""

    def __init__(self, broker: Broker, purgatory: Purgatory, server: Server, quotas: ClientQuotas,
                 clock: Callable[[], int], on_failure: Callable[[BaseException], object]) -> None:
        self._broker = broker
        self._server = server
        self._clock = clock
        self._on_failure = on_failure
        self._alarm = Alarm(monotonic_ms, self._expire)
        self._due: deque[SharePartition] = deque()
        self.partitions = SharePartitions(purgatory, load=self._load, write=self._write,
                                          settings_of=self._settings_of, arm=self._alarm.set)
        self.sessions = ShareSessions(broker.integer("group.share.max.share.sessions"), on_connection=self._watch)
        self.fetch, self.acknowledge = (
            ShareHandler(broker.table, self.partitions, self.sessions, broker.cold_reader,
                         bytes_max=broker.integer("fetch.max.bytes"), quotas=quotas) for _ in range(2))
        if broker.authorizer is not None:
            self.fetch.permissions = self.acknowledge.permissions = broker.authorizer.permissions
        self.reconfigure()

    def reconfigure(self) -> None:
        """Apply changed features and settings."""
        enabled = self._broker.image.features.get(SHARE_VERSION, 0) > 0
        self.fetch.enabled = self.acknowledge.enabled = enabled
        self.sessions.limit(self._broker.integer("group.share.max.share.sessions"))
        self.partitions.settings_changed()

    def close(self) -> None:
        """End the clock."""
        self._alarm.cancel()

    def _own(self, group: bytes) -> Mapping[str, str]:
        return self._broker.image.config(Resource(GROUP_RESOURCE, group.decode()))

    def _settings_of(self, group: bytes) -> ShareSettings:
        return share_settings(self._own(group), self._broker.layers())

    def _watch(self, connection: ReplySink) -> None:
        """End the sessions of a connection when it closes."""
        self._server.watch(connection, partial(self.fetch.left, connection))

    def _expire(self) -> None:
        try:
            if (deadline_ms := self.partitions.expire(monotonic_ms())) >= 0:
                self._alarm.set(deadline_ms)
        except Exception as error:  # noqa: BLE001 - locks that never end would be worse
            self._on_failure(error)

    # --- loading

    def _load(self, share: SharePartition) -> None:
        persister = self._broker.share_persister
        if persister is None:
            share.paused(PAUSE_MS)
            return
        request = read_request(share.group, share.partition.topic_id, share.partition.index, share.leader_epoch)
        persister.send(request, partial(self._guarded, self._read, share))

    def _guarded(self, then: Callable[..., None], subject: object, response: Message) -> None:
        try:
            then(subject, response)
        except Exception as error:  # noqa: BLE001 - requests that are never answered would be worse
            self._on_failure(error)

    def _read(self, share: SharePartition, response: Message) -> None:
        assert isinstance(response, ReadShareGroupStateResponse)
        stored = stored_state(response)
        if stored.error in PASSING:
            share.paused(PAUSE_MS)
        elif stored.error != ErrorCode.NONE:
            share.failed(error_for_clients(stored.error))
        elif stored.start_offset != UNINITIALIZED:
            self._begin(share, stored)
        else:
            reset = offset_reset(self._own(share.group), self._broker.layers())
            begin = partial(self._begin_new, share, stored, reset)
            since_ms = time_of(reset, self._clock())
            if since_ms is None or not self._broker.cold_reader.warm_time(share.partition.log, since_ms, begin):
                begin()

    def _begin_new(self, share: SharePartition, stored: Stored, reset: str) -> None:
        """Begin where the group's setting says."""
        try:
            start = start_offset(share.partition, reset, self._clock())
        except OffsetNotAvailableError:
            share.paused(PAUSE_MS)
        except KraftError as error:
            share.failed(error.code)
        else:
            self._begin(share, stored._replace(start_offset=start))

    def _begin(self, share: SharePartition, stored: Stored) -> None:
        try:
            share.loaded(stored.state_epoch, stored.start_offset, stored.batches)
        except KraftError as error:
            log.warning("%r: its stored state cannot be used: %s", share, error)
            share.failed(ErrorCode.UNKNOWN_SERVER_ERROR)

    # --- writing

    def _write(self) -> None:
        """Write what has changed, in requests of one group each. What has very many batches is written in several
        iterations of the loop."""
        groups: dict[bytes, list[tuple[SharePartition, Write]]] = {}
        self._due += self.partitions.take_due()
        batches_left = BATCHES_AT_ONCE_MAX
        while self._due and batches_left > 0:
            share = self._due.popleft()
            taken = share.take_write()
            if taken is not None:
                start, finished, batches = taken
                batches_left -= 1 + len(batches)
                groups.setdefault(share.group, []).append((share, Write(
                    share.partition.topic_id, share.partition.index, share.state_epoch, share.leader_epoch, start,
                    finished, batches)))
        if self._due:
            asyncio.get_running_loop().call_soon(self._write)
        for group, writes in groups.items():
            for at in range(0, len(writes), WRITES_PER_REQUEST):
                self._send(group, writes[at:at + WRITES_PER_REQUEST])

    def _send(self, group: bytes, writes: Sequence[tuple[SharePartition, Write]]) -> None:
        shares = {(each.topic_id, each.partition): share for share, each in writes}
        persister = self._broker.share_persister
        if persister is None:
            for share in shares.values():
                share.written(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        persister.send(write_request(group, (each for _, each in writes)),
                       partial(self._guarded, self._written, shares))

    def _written(self, shares: dict[tuple[bytes, int], SharePartition], response: Message) -> None:
        assert isinstance(response, WriteShareGroupStateResponse)
        for topic_id, index, code in outcomes(response):
            share = shares.pop((topic_id, index), None)
            if share is not None:
                self._conclude(share, code)
        for share in shares.values():
            self._conclude(share, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _conclude(self, share: SharePartition, code: int) -> None:
        if code == ErrorCode.NONE:
            share.written(ErrorCode.NONE)
        elif code in FENCED:
            log.info("%r: another leader or state of it is known", share)
            share.failed(error_for_clients(code))
        else:
            share.written(error_for_clients(code))
