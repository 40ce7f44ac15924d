"""Metrics that clients pushed (KIP-714): the latest value of each, for the node's own metrics.

Names and labels are the clients' choice, so everything is bounded: clients, values of a client and of all, lengths of
texts, decompressed bytes. What exceeds a bound is dropped and counted.
"""

import math
from collections import OrderedDict
from collections.abc import Generator, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from kraft.broker.otlp import Attributes, points
from kraft.protocol.error_codes import ErrorCode
from kraft_native.base.errors import CorruptRecordError, MessageTooLargeError, ProtocolError
from kraft_native.batch.codecs import decompress

STEP: Final = 32
"""Parts of a payload that are decoded without a pause."""
LABEL_MAX: Final = 200
EXPIRY_MS_MIN: Final = 60_000
EXPIRY_INTERVALS: Final = 3
"""Pushes that a client may miss before its values are removed."""
GROUP: Final = "group_id"
TRANSACTIONAL_ID: Final = "transactional_id"

Name = tuple[str, str]
"""Name of a metric, and its attributes as text."""


class SeriesLimits(NamedTuple):
    """Clients, values of all clients, values of one, and bytes of a decompressed push."""

    clients: int
    series: int
    series_of_client: int
    decompressed_bytes: int


class Reported:
    """Report of one client instance. `facts`: its id, address and software; `groups`: attributes of the whole
    client, such as its group."""

    __slots__ = ("expires_ms", "facts", "groups", "pushed_ms", "values")

    def __init__(self) -> None:
        self.facts: Mapping[str, str] = {}
        self.groups: dict[str, str] = {}
        self.values: dict[Name, float] = {}
        self.pushed_ms = self.expires_ms = 0


class ClientSeries:
    """The latest values of each client instance. `dropped`: values that exceeded a limit; `evicted`: clients that were
    removed for others; `pushes`: accepted payloads, and those that could not be decoded, by result."""

    def __init__(self, limits: SeriesLimits) -> None:
        self.limits = limits
        self.count = 0
        self.dropped = 0
        self.evicted = 0
        self.pushes = {"accepted": 0, "malformed": 0}
        self._clients: OrderedDict[UUID, Reported] = OrderedDict()

    def receive(self, client_id: UUID, facts: Mapping[str, str], interval_ms: int, payload: tuple[int, bytes],
                now_ms: int) -> Generator[None, None, ErrorCode]:
        """Store a push, in steps. `payload`: compression type and bytes. INVALID_RECORD for one that cannot be decoded;
        values before the damage are stored."""
        try:
            data = decompress(payload[0], payload[1], max_bytes=self.limits.decompressed_bytes)
            yield
            for number, point in enumerate(points(data)):
                if point is not None and math.isfinite(point.value):
                    client = self._client(client_id, facts, interval_ms, now_ms)
                    self._store(client, point.name, point.attributes, point.value, is_delta=point.is_delta)
                    client.groups.update((key, value) for key, value in point.resource
                                         if key in (GROUP, TRANSACTIONAL_ID))
                if number % STEP == STEP - 1:
                    yield
        except (CorruptRecordError, MessageTooLargeError, ProtocolError):
            self.pushes["malformed"] += 1
            return ErrorCode.INVALID_RECORD
        self.pushes["accepted"] += 1
        return ErrorCode.NONE

    def clients(self, now_ms: int) -> Mapping[UUID, Reported]:
        """Return what clients have reported that still push, by instance. The caller must not change it."""
        for client_id in [each for each, client in self._clients.items() if client.expires_ms < now_ms]:
            self._remove(client_id)
        return self._clients

    def _client(self, client_id: UUID, facts: Mapping[str, str], interval_ms: int, now_ms: int) -> Reported:
        client = self._clients.get(client_id)
        if client is None:
            if len(self._clients) >= self.limits.clients:
                self._remove(next(iter(self._clients)))
                self.evicted += 1
            client = self._clients[client_id] = Reported()
        self._clients.move_to_end(client_id)
        client.facts = facts
        client.pushed_ms = now_ms
        client.expires_ms = now_ms + max(EXPIRY_MS_MIN, interval_ms * EXPIRY_INTERVALS)
        return client

    def _store(self, client: Reported, name: str, attributes: Attributes, value: float, *, is_delta: bool) -> None:
        key = name[:LABEL_MAX], attributes_text(attributes)
        known = client.values.get(key)
        if known is None:
            if self.count >= self.limits.series or len(client.values) >= self.limits.series_of_client:
                self.dropped += 1
                return
            self.count += 1
        total = value + (known or 0.0) if is_delta else value
        client.values[key] = total if math.isfinite(total) else value       # a sum that grew too large begins again

    def _remove(self, client_id: UUID) -> None:
        self.count -= len(self._clients.pop(client_id).values)


def attributes_text(attributes: Attributes) -> str:
    """Return attributes as one label, in the order of their names."""
    return ",".join(f"{key}={value}" for key, value in sorted(attributes))[:LABEL_MAX]
