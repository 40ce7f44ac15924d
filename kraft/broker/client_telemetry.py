"""Clients that offer their metrics (KIP-714), on a broker without a receiver of metrics.

Kafka announces these requests only with a receiver. A client that sends them anyway is subscribed to no metrics. It may
push at the push interval, and its metrics are discarded.
"""

import struct
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from uuid import UUID

from kraft.protocol.error_codes import ErrorCode
from kraft_native.base.crc import checksum

if TYPE_CHECKING:
    from kraft.protocol.messages.push_telemetry_request import PushTelemetryRequest

PUSH_INTERVAL_MS: Final = 300_000
COMPRESSION_TYPES: Final = (4, 3, 1, 2)
"""Zstd, lz4, gzip, snappy, in Kafka's order of preference. No compression (0) is accepted, too."""
CLIENTS_MAX: Final = 16_384
_RESUBSCRIBE: Final = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
_RESERVED_IDS: Final = (UUID(int=0), UUID(int=1))
_SUBSCRIPTION_CRC: Final = checksum(b"[]%d" % PUSH_INTERVAL_MS)


class _Client:
    """State of a client instance: its last request, its last push, the last answer, and whether it announced its
    end."""

    __slots__ = ("code", "pushed_ms", "requested_ms", "terminating")

    def __init__(self) -> None:
        self.requested_ms = self.pushed_ms = 0
        self.code = ErrorCode.NONE
        self.terminating = False


class ClientTelemetry:
    """Client instances that sent a request or a push; the latest `CLIENTS_MAX` are remembered. `new_id` creates ids for
    instances without one."""

    def __init__(self, new_id: Callable[[], UUID]) -> None:
        self.new_id = new_id
        self._clients: OrderedDict[UUID, _Client] = OrderedDict()

    def subscribe(self, client_id: UUID, now_ms: int) -> ErrorCode:
        """Decide whether a client gets its subscription now: once per interval, or after certain errors of its push."""
        client = self._client(client_id)
        if now_ms - max(client.requested_ms, client.pushed_ms) >= PUSH_INTERVAL_MS:
            client.requested_ms = now_ms
        elif client.code not in _RESUBSCRIBE:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        client.code = ErrorCode.NONE
        return ErrorCode.NONE

    def push(self, request: "PushTelemetryRequest", bytes_max: int, now_ms: int) -> ErrorCode:
        """Decide whether a client's push is accepted."""
        if request.client_instance_id in _RESERVED_IDS:
            return ErrorCode.INVALID_REQUEST
        client = self._client(request.client_instance_id)
        client.code = self._check(client, request, bytes_max, now_ms)
        return client.code

    @staticmethod
    def _check(client: _Client, request: "PushTelemetryRequest", bytes_max: int, now_ms: int) -> ErrorCode:
        had_ended, client.terminating = client.terminating, request.terminating
        if had_ended:
            return ErrorCode.INVALID_REQUEST
        if client.requested_ms > client.pushed_ms or now_ms - client.pushed_ms >= PUSH_INTERVAL_MS:
            client.pushed_ms = now_ms
        elif not request.terminating:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if request.subscription_id != subscription_id(request.client_instance_id):
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if request.compression_type not in (0, *COMPRESSION_TYPES):
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        return ErrorCode.TELEMETRY_TOO_LARGE if len(request.metrics) > bytes_max else ErrorCode.NONE

    def _client(self, client_id: UUID) -> _Client:
        client = self._clients.setdefault(client_id, _Client())
        self._clients.move_to_end(client_id)
        if len(self._clients) > CLIENTS_MAX:
            self._clients.popitem(last=False)
        return client


def subscription_id(client_id: UUID) -> int:
    """Return Kafka's id: the checksum of the subscription, which is empty, mixed with the hash of the client's id."""
    mixed = _SUBSCRIPTION_CRC
    for word in struct.unpack(">4I", client_id.bytes):
        mixed ^= word
    return mixed - (mixed >> 31 << 32)
