"""Clients that offer their metrics (KIP-714): their subscriptions, and when a client may push.

A subscription is a resource of the type client-metrics: prefixes of metrics, an interval, and patterns for the clients
that it applies to. Without a receiver (`series` None), a client is subscribed to nothing, and what it pushes is
discarded.
"""

import re
import struct
from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from kraft.broker.client_series import ClientSeries
from kraft.config.effective import client_metrics_value
from kraft.metadata.image import CLIENT_METRICS_RESOURCE, MetadataImage, Resource
from kraft.protocol.error_codes import ErrorCode
from kraft_native.base.crc import checksum

if TYPE_CHECKING:
    from kraft.protocol.messages.push_telemetry_request import PushTelemetryRequest

PUSH_INTERVAL_MS: Final = 300_000
COMPRESSION_TYPES: Final = (4, 3, 1, 2)
"""Zstd, lz4, gzip, snappy, in Kafka's order of preference. No compression (0) is accepted, too."""
CLIENTS_MAX: Final = 16_384
EVERYTHING: Final = "*"
RESOURCES_AT_ONCE: Final = 1_024
_RESUBSCRIBE: Final = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
_RESERVED_IDS: Final = (UUID(int=0), UUID(int=1))

Facts = Mapping[str, str]
"""Known properties of a client, by the names that patterns select by."""


class Subscription(NamedTuple):
    """Prefixes of the metrics that a client is to push, and how often."""

    metrics: tuple[str, ...] = ()
    interval_ms: int = PUSH_INTERVAL_MS


NOTHING: Final = Subscription()


class _Configured(NamedTuple):
    """One configured subscription, with its patterns by the client's property; a pattern that is no regular expression
    is None and matches nobody."""

    subscription: Subscription
    patterns: tuple[tuple[str, "re.Pattern[str] | None"], ...]

    def applies_to(self, facts: Facts) -> bool:
        return all(pattern is not None and pattern.fullmatch(facts.get(name, "")) is not None
                   for name, pattern in self.patterns)


class _Client:
    """State of a client instance: its subscription, its last request, its last push, the last answer, and whether it
    announced its end."""

    __slots__ = ("code", "pushed_ms", "requested_ms", "subscription", "terminating", "version")

    def __init__(self, subscription: Subscription, version: int) -> None:
        self.requested_ms = self.pushed_ms = 0
        self.code = ErrorCode.NONE
        self.terminating = False
        self.subscription = subscription
        self.version = version


class ClientTelemetry:
    """Client instances that sent a request or a push; the latest `CLIENTS_MAX` are remembered. `new_id` creates ids for
    instances without one. `series` receives what is pushed."""

    def __init__(self, new_id: Callable[[], UUID], series: ClientSeries | None = None) -> None:
        self.new_id = new_id
        self.series = series
        self._clients: OrderedDict[UUID, _Client] = OrderedDict()
        self._configured: tuple[_Configured, ...] = ()
        self._configs: Mapping[Resource, Mapping[str, str]] = {}
        self._version = 0

    def refresh(self, image: MetadataImage) -> Generator[None, None, None]:
        """Read the configured subscriptions again when settings have changed, in steps."""
        configs = image.configs
        if self.series is None or self._configs is configs:
            return
        found = []
        for number, (resource, settings) in enumerate(configs.items()):
            if resource.type == CLIENT_METRICS_RESOURCE:
                found.append((resource.name, _configured(settings)))
            if number % RESOURCES_AT_ONCE == RESOURCES_AT_ONCE - 1:
                yield
        configured = tuple(each for _, each in sorted(found, key=lambda pair: pair[0]))
        self._configs = configs
        if configured != self._configured:
            self._configured = configured
            self._version += 1

    def subscribe(self, client_id: UUID, now_ms: int, facts: Facts | None = None) -> ErrorCode:
        """Decide whether a client gets its subscription now: once per interval, or after certain errors of its push."""
        client = self._client(client_id, facts or {})
        if now_ms - max(client.requested_ms, client.pushed_ms) >= client.subscription.interval_ms:
            client.requested_ms = now_ms
        elif client.code not in _RESUBSCRIBE:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        client.code = ErrorCode.NONE
        return ErrorCode.NONE

    def subscription_of(self, client_id: UUID) -> Subscription:
        """Return the subscription of a client that was decided about."""
        return self._clients[client_id].subscription

    def push(self, request: "PushTelemetryRequest", bytes_max: int, now_ms: int,
             facts: Facts | None = None) -> ErrorCode:
        """Decide whether a client's push is accepted."""
        if request.client_instance_id in _RESERVED_IDS:
            return ErrorCode.INVALID_REQUEST
        client = self._client(request.client_instance_id, facts or {})
        client.code = self._check(client, request, bytes_max, now_ms)
        return client.code

    def note(self, client_id: UUID, code: ErrorCode) -> None:
        """Record the answer to an accepted push that could not be stored."""
        if client_id in self._clients:
            self._clients[client_id].code = code

    @staticmethod
    def _check(client: _Client, request: "PushTelemetryRequest", bytes_max: int, now_ms: int) -> ErrorCode:
        had_ended, client.terminating = client.terminating, request.terminating
        subscription = client.subscription
        if had_ended:
            return ErrorCode.INVALID_REQUEST
        if client.requested_ms > client.pushed_ms or now_ms - client.pushed_ms >= subscription.interval_ms:
            client.pushed_ms = now_ms
        elif not request.terminating:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if request.subscription_id != subscription_id(request.client_instance_id, subscription):
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if request.compression_type not in (0, *COMPRESSION_TYPES):
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        return ErrorCode.TELEMETRY_TOO_LARGE if len(request.metrics) > bytes_max else ErrorCode.NONE

    def _client(self, client_id: UUID, facts: Facts) -> _Client:
        """Return a client's state. When the configured subscriptions have changed, its state is new, as in Kafka."""
        client = self._clients.get(client_id)
        if client is None or client.version < self._version:
            client = self._clients[client_id] = _Client(self._subscription(facts), self._version)
        self._clients.move_to_end(client_id)
        if len(self._clients) > CLIENTS_MAX:
            self._clients.popitem(last=False)
        return client

    def _subscription(self, facts: Facts) -> Subscription:
        """Return what a client is subscribed to: the metrics of all configured subscriptions that apply to it, and the
        shortest of their intervals."""
        matching = [each.subscription for each in self._configured if each.applies_to(facts)]
        metrics = tuple(dict.fromkeys(name for each in matching for name in each.metrics))
        interval_ms = min((each.interval_ms for each in matching), default=PUSH_INTERVAL_MS)
        return Subscription((EVERYTHING,) if EVERYTHING in metrics else metrics, min(interval_ms, PUSH_INTERVAL_MS))


def _configured(settings: Mapping[str, str]) -> _Configured:
    metrics, patterns = (client_metrics_value(name, settings).value for name in ("metrics", "match"))
    interval_ms = client_metrics_value("interval.ms", settings).value
    assert isinstance(metrics, list)
    assert isinstance(patterns, list)
    assert isinstance(interval_ms, int)
    pairs = [pattern.partition("=")[::2] for pattern in patterns]
    return _Configured(Subscription(tuple(metrics), interval_ms),
                       tuple((name.strip(), _pattern(text.strip())) for name, text in pairs))


def _pattern(text: str) -> "re.Pattern[str] | None":
    try:
        return re.compile(text)
    except re.error:
        return None


def subscription_id(client_id: UUID, subscription: Subscription = NOTHING) -> int:
    """Return Kafka's id: the checksum of the subscription, mixed with the hash of the client's id."""
    mixed = checksum(f"[{', '.join(subscription.metrics)}]{subscription.interval_ms}".encode())
    for word in struct.unpack(">4I", client_id.bytes):
        mixed ^= word
    return mixed - (mixed >> 31 << 32)
