"""Connections to other replicas, over which the consensus core sends one request at a time to each.

A connection is opened when there is a request for it, and opened again after it broke: at once the first time, then
after a pause that grows. The core itself decides when it has waited long enough. A request for a node that has not
answered the previous one closes that connection: answers come in order, and a parked one would delay the new one.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import lru_cache
from struct import Struct
from typing import Final, cast

from kraft._version import __version__
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.headers import decode_response_header, encode_request_header
from kraft.protocol.message import Message as WireMessage
from kraft.protocol.messages.api_versions_request import ApiVersionsRequest
from kraft.protocol.messages.api_versions_response import ApiVersionsResponse
from kraft.raft.messages import (
    FetchRequest,
    FetchResponse,
    Loss,
    Lost,
    Message,
    VersionsRequest,
    VersionsResponse,
)
from kraft.raft.ready import FollowLease, OutgoingRequest
from kraft.raft.types import Endpoint
from kraft.raft.voters import NO_RECONFIGURATION, VersionRange
from kraft.raft.wire import FETCH_CODEC
from kraft.raft.wire_changes import CODECS
from kraft.raft.wire_templates import INT64, FetchTemplates, template_of
from kraft.runtime.net.dialer import (
    CONNECT_SECONDS_MAX,
    RESOLVE_SECONDS_MAX,
    Backoff,
    Dialer,
    backoff_seconds,
    duplicate_socket,
)
from kraft.structs import immutable
from kraft_native.base.errors import MalformedMessageError, UnsupportedVersionError
from kraft_native.replica.answers import AnswerReceiver
from kraft_native.replica.leased_follower import LeasedFollower
from kraft_native.replica.template import Template

log = logging.getLogger(__name__)

NO_TAGS: Final = 0
INT32: Final = Struct(">i")
CORRELATION_AT: Final = 4
"""Offset in the header of a request, behind the API's key and version."""
RESPONSE_BYTES_MAX: Final = 256 << 20
RECEIVE_BYTES: Final = 64 << 10
RECEIVE_BYTES_KEPT: Final = 2 << 20
"""Receive buffer that a connection may keep while no request is in flight."""
PAUSE_SECONDS: Final = 0.02
PAUSE_SECONDS_MAX: Final = 0.25
"""Longest pause; below `RaftConfig.patience_ms` of the default election time-out."""
KRAFT_VERSION: Final = "kraft.version"


def pause_seconds(failures: int) -> float:
    """Pause before the same address is tried again, after so many failures in a row. The simulator's peers wait as
    long."""
    return backoff_seconds(failures, PAUSE_SECONDS, PAUSE_SECONDS_MAX)


@immutable
class PeerVersions:
    """Versions that a peer reported."""

    apis: dict[int, tuple[int, int]]
    kraft: VersionRange
    _best: dict[int, int] = field(default_factory=dict, compare=False)

    def best(self, key: int) -> int:
        """Newest version of an API that both sides support. Raises `UnsupportedVersionError` when none exists."""
        best = self._best.get(key)
        if best is None:
            best = self._best[key] = self._find_best(key)
        return best

    def _find_best(self, key: int) -> int:
        api = API_BY_KEY[key]
        low, high = self.apis.get(key, (0, -1))
        best = min(high, api.versions.stop - 1, api.latest_stable)
        if best < max(low, api.versions.start):
            raise UnsupportedVersionError(f"{api.name}: the peer has versions {low} to {high}")
        return best


class PeerConnection(AnswerReceiver, asyncio.BufferedProtocol):
    """One connection to a peer. It calls back:

    - `on_ready(versions)` when the peer has reported its versions.
    - `on_answer(body)` with each answer. `body` is valid during the call only: the next answer overwrites it.
    - `on_lost()` once, unless `abandon` was called.
    - `end_lease()` when an answer came that the leased follower has not accepted.
    """

    waiting: tuple[int, int] | None

    def __init__(self, client_id: str, on_ready: Callable[[PeerVersions], None],
                 on_answer: Callable[[memoryview], None], on_lost: Callable[[], None],
                 end_lease: Callable[[], None] = lambda: None) -> None:
        super().__init__(RECEIVE_BYTES, RECEIVE_BYTES_KEPT, RESPONSE_BYTES_MAX)
        self._client_id = client_id
        self._end_lease = end_lease
        self._on_ready = on_ready
        self._on_answer = on_answer
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._has_versions = False
        self._socket = -1
        """A duplicate descriptor, open for as long as native code may send on it; -1: only the transport sends."""
        self._framed: tuple[int, FetchRequest, Template | None] | None = None
        """Version, request and frames of the last Fetch that was followed."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self.is_abandoned:
            self._transport.abort()
        else:
            self._socket = duplicate_socket(transport)
            self._request_versions(API_BY_KEY[ApiKey.API_VERSIONS].latest_stable)

    def abandon(self) -> None:
        """Close the connection; no callback is called from here on."""
        self.is_abandoned = True
        self._close_socket()
        if self._transport is not None:
            self._transport.abort()

    def _close_socket(self) -> None:
        if self._socket >= 0:
            os.close(self._socket)
            self._socket = -1

    def send(self, message: WireMessage, version: int) -> None:
        """Send a message. Raises `UnsupportedVersionError`, and sends nothing, when the version cannot carry it."""
        self.send_body(message.API_KEY, version, message.encode(version))

    def send_body(self, key: int, version: int, body: bytes) -> None:
        assert self._transport is not None
        frame = self._frame(key, version, body, self.next_correlation)
        self.request_left((key, version))
        self._transport.write(frame)

    def _frame(self, key: int, version: int, body: bytes, correlation: int) -> bytes:
        before, behind = _header_parts(key, version, self._client_id)
        size = len(before) + 4 + len(behind) + len(body)
        return b"".join((size.to_bytes(4, "big"), before, INT32.pack(correlation), behind, body))

    def begin(self, follower: LeasedFollower, lease: FollowLease, form: tuple[Template, bytes] | None,
              version: int) -> bool:
        """Let the follower begin. It gets the answers of this form; None: of no form. Return False, and do nothing,
        when that is not possible: while bytes are unsent, on an encrypted connection, and without any use."""
        assert self._transport is not None
        request = lease.fetch.request
        assert isinstance(request, FetchRequest)
        frames = self._frames_of(request, version)
        if (frames is None or (form is None and lease.is_sent) or self.is_abandoned or self._socket < 0
                or self._transport.get_write_buffer_size()):
            return False
        fetch = frames.write(self.next_correlation, request.fetch_offset, request.high_watermark)
        if not follower.begin(lease.from_offset, None if lease.is_sent else (self._socket, fetch)):
            return False
        if form is not None:
            self.follow(follower, *form, frames, self._socket)
        return True

    def _frames_of(self, request: FetchRequest, version: int) -> Template | None:
        """Return the frames of Fetches that differ from this one only in log end and high watermark."""
        alike = replace(request, fetch_offset=0, high_watermark=0)
        if self._framed is None or self._framed[:2] != (version, alike):
            self._framed = version, alike, self._make_frames(alike, version)
        return self._framed[2]

    def _make_frames(self, request: FetchRequest, version: int) -> Template | None:
        def make(values: Mapping[str, int]) -> bytes:
            following = replace(request, fetch_offset=values["fetch_offset"], high_watermark=values["high_watermark"])
            body = FETCH_CODEC.encode_request(following, version).encode(version)
            return self._frame(FETCH_CODEC.key, version, body, values["correlation"])

        return template_of({"correlation": INT32, "fetch_offset": INT64, "high_watermark": INT64}, make)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - whatever it was, it is lost
        if not self.is_abandoned:
            self.is_abandoned = True
            self._on_lost()
            self._close_socket()

    def refuse_frame(self, why: str) -> None:
        log.warning("a peer's answer cannot be read, the connection is closed: %s", why)
        assert self._transport is not None
        self._transport.abort()

    def take_frame(self, frame: memoryview) -> None:
        if self.is_following or self.waiting is None:
            self._end_lease()
        if self.waiting is None:
            raise MalformedMessageError("an answer to nothing")
        (key, version), self.waiting = self.waiting, None
        correlation, = INT32.unpack_from(frame)
        if correlation != self.correlation:
            raise MalformedMessageError(f"an answer to request {correlation}, not {self.correlation}")
        if API_BY_KEY[key].response_header_version(version) == 1 and len(frame) > 4 and frame[4] == NO_TAGS:
            body = frame[5:]
        else:
            _, body = decode_response_header(frame, API_BY_KEY[key], version)
        if self._has_versions:
            self._on_answer(body)
        else:
            self._take_versions(body, version)

    def _request_versions(self, version: int) -> None:
        self.send(ApiVersionsRequest(client_software_name="kraft", client_software_version=__version__), version)

    def _take_versions(self, body: memoryview, version: int) -> None:
        if version and int.from_bytes(body[:2], "big") == ErrorCode.UNSUPPORTED_VERSION:
            self._request_versions(0)
            return
        answer = ApiVersionsResponse.decode(body, version)
        kraft = next((VersionRange(each.min_version, each.max_version) for each in answer.supported_features
                      if each.name == KRAFT_VERSION), NO_RECONFIGURATION)
        self._has_versions = True
        self._on_ready(PeerVersions(
            {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}, kraft))


@lru_cache(maxsize=64)
def _header_parts(key: int, version: int, client_id: str) -> tuple[bytes, bytes]:
    """Parts of a request header before and behind the correlation id."""
    header = encode_request_header(API_BY_KEY[key], version, 0, client_id)
    return header[:CORRELATION_AT], header[CORRELATION_AT + 4:]


class Peer:
    """One node, under the id that the core uses for it."""

    def __init__(self, node_id: int, peers: "Peers") -> None:
        self._node_id = node_id
        self._peers = peers
        self._templates = peers.templates
        self._client_id = peers.client_id
        self._deliver = peers.deliver
        self._address: Endpoint | None = None
        self._connection: PeerConnection | None = None
        self._versions: PeerVersions | None = None
        self._pending: OutgoingRequest | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._backoff = Backoff(PAUSE_SECONDS, PAUSE_SECONDS_MAX)
        self._loop = asyncio.get_running_loop()
        self._began = 0.0

    def send(self, outgoing: OutgoingRequest) -> None:
        """Send a request once the connection is open. A request that still waits for its answer is given up."""
        address = outgoing.address or self._address
        if address is None:
            self._lose(outgoing, Loss.DISCONNECTED)
            return
        if self._connecting is None:
            is_stuck = self._pending is not None
        else:
            is_stuck = self._loop.time() - self._began > RESOLVE_SECONDS_MAX + CONNECT_SECONDS_MAX
        if is_stuck or address != self._address:
            self.close()
        if address != self._address:
            self._backoff.reset()
        self._pending = outgoing
        self._address = address
        if self._versions is not None:
            self._send(outgoing, self._versions)
        elif self._connecting is None:
            self._began = self._loop.time()
            self._connecting = self._loop.create_task(self._connect(address))

    def follow(self, lease: FollowLease, follower: LeasedFollower) -> bool:
        """See `PeerSender`."""
        pending = None if self._pending is None else self._pending.correlation
        if (self._versions is None or self._connection is None or lease.fetch.address not in (None, self._address)
                or pending != (lease.fetch.correlation if lease.is_sent else None)):
            return False
        try:
            version = self._versions.best(FETCH_CODEC.key)
        except UnsupportedVersionError:
            return False
        form = self._templates.last_form(version, lease.epoch, lease.leader_id)
        return self._connection.begin(follower, lease, form, version)

    def unfollow(self, outstanding: OutgoingRequest | None) -> None:
        """See `PeerSender`."""
        if self._connection is None:
            return
        self._connection.unfollow()
        self._pending = outstanding
        if outstanding is not None and self._connection.waiting is None:
            assert self._versions is not None
            self._connection.request_left((FETCH_CODEC.key, self._versions.best(FETCH_CODEC.key)))

    def close(self) -> None:
        """Give up the connection and its request, without a callback."""
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
        if self._connection is not None:
            self._connection.abandon()
        self._connection = self._versions = self._pending = None

    async def _connect(self, address: Endpoint) -> None:
        await self._backoff.wait()
        connection = PeerConnection(self._client_id, self._ready, self._answered, self._lost, self._peers.end_lease)
        self._connection = connection
        try:
            await self._peers.dialer.connect(address, lambda: connection)
        except OSError:
            connection.abandon()
            self._lost()

    def _ready(self, versions: PeerVersions) -> None:
        self._versions = versions
        self._connecting = None
        self._backoff.reset()
        if self._pending is not None:
            self._send(self._pending, versions)

    def _send(self, outgoing: OutgoingRequest, versions: PeerVersions) -> None:
        assert self._connection is not None
        if isinstance(outgoing.request, VersionsRequest):
            self._pending = None
            versions_response = VersionsResponse(kraft_versions=versions.kraft)
            self._loop.call_soon(self._deliver, self._node_id, outgoing.correlation, versions_response)
            return
        codec = CODECS[type(outgoing.request)]
        try:
            version = versions.best(codec.key)
            if isinstance(outgoing.request, FetchRequest):
                body = self._templates.request_bytes(outgoing.request, version)
            else:
                body = codec.encode_request(outgoing.request, version).encode(version)
            self._connection.send_body(codec.key, version, body)
        except UnsupportedVersionError:
            self._pending = None
            self._lose(outgoing, Loss.UNSUPPORTED)

    def _lose(self, outgoing: OutgoingRequest, reason: Loss) -> None:
        self._loop.call_soon(self._deliver, self._node_id, outgoing.correlation, Lost(reason))

    def _answered(self, body: memoryview) -> None:
        outgoing = self._pending
        assert outgoing is not None
        assert self._versions is not None
        codec = CODECS[type(outgoing.request)]
        version = self._versions.best(codec.key)
        if codec is FETCH_CODEC:
            response = self._templates.response_of(body, version)
        else:
            response = codec.decode_response(codec.answer.decode(body, version))
        self._pending = None
        self._deliver(self._node_id, outgoing.correlation, response)
        if isinstance(response, FetchResponse) and isinstance(response.records, memoryview):
            response.records.release()   # a later access raises an error instead of returning other bytes

    def _lost(self) -> None:
        self._peers.end_lease()
        outgoing, self._pending = self._pending, None
        self._connection = self._versions = self._connecting = None
        self._backoff.failed()
        if outgoing is not None:
            self._deliver(self._node_id, outgoing.correlation, Lost(Loss.DISCONNECTED))


class Peers:
    """All nodes to which the core sends requests: the driver's `PeerSender`.

    - `deliver(node id, correlation, message)` receives each answer, or a `Lost`. It is never called from inside `send`.
      The records of an answer are valid during that call only.
    - `end_lease()` calls `unfollow`, if a leader is followed under a lease.
    """

    def __init__(self, client_id: str, deliver: Callable[[int, int, Message], None], dialer: Dialer) -> None:
        self.client_id = client_id
        self.deliver = deliver
        self.dialer = dialer
        self.end_lease: Callable[[], None] = lambda: None
        self.templates = FetchTemplates()
        self._peers: dict[int, Peer] = {}

    def send(self, outgoing: OutgoingRequest) -> None:
        peer = self._peers.get(outgoing.node_id)
        if peer is None:
            peer = self._peers[outgoing.node_id] = Peer(outgoing.node_id, self)
        peer.send(outgoing)

    def follow(self, lease: FollowLease, follower: LeasedFollower) -> bool:
        peer = self._peers.get(lease.leader_id)
        return peer is not None and peer.follow(lease, follower)

    def unfollow(self, lease: FollowLease, outstanding: OutgoingRequest | None) -> None:
        self._peers[lease.leader_id].unfollow(outstanding)

    def close(self) -> None:
        """Close every connection; nothing is delivered from here on."""
        for peer in self._peers.values():
            peer.close()
