"""How much clients have sent and got, how much of the loop's time they took and how often they connected, against the
cluster's quotas. Sans-IO."""

import ipaddress
from collections.abc import Callable, Mapping
from typing import Final

from kraft.metadata.client_quotas import (
    ANONYMOUS,
    CONNECTION_RATE,
    CONSUMER_RATE,
    IP,
    PRODUCER_RATE,
    REQUEST_PERCENTAGE,
    Quotas,
    by_entity,
    entities_of,
    limit_of,
)
from kraft.metadata.image import QuotaEntity
from kraft_native.replication_quota import ReplicationQuota

METERS_MAX: Final = 20_000
NANOSECONDS_OF_PERCENT: Final = 10_000_000
RATE_MAX: Final = 2**63 - 1
RATE_UNLIMITED: Final = 2**31 - 1

Meter = ReplicationQuota | None


class _Meters:
    """What was counted, by who shares it and what it is. `samples` and `sample_ms`: Kafka's `quota.window.num` and
    `.size.seconds`."""

    def __init__(self, samples: int, sample_ms: int) -> None:
        self._samples = samples
        self._sample_ms = sample_ms
        self._known: dict[tuple[QuotaEntity, str], ReplicationQuota] = {}

    def __len__(self) -> int:
        return len(self._known)

    def get(self, shared: QuotaEntity, name: str, rate: float) -> ReplicationQuota:
        meter = self._known.get((shared, name))
        if meter is None:
            if len(self._known) >= METERS_MAX:
                self._known.clear()
            meter = self._known[shared, name] = ReplicationQuota(samples=self._samples, sample_ms=self._sample_ms)
        meter.set_rate(int(min(rate, RATE_MAX)))
        return meter


class ClientRates:
    """The quotas of users and client ids that are in force here."""

    NAMES: Final = (PRODUCER_RATE, CONSUMER_RATE, REQUEST_PERCENTAGE)

    def __init__(self, samples: int, sample_ms: int) -> None:
        self.meters = _Meters(samples, sample_ms)
        self._all: Quotas = {}
        self._quotas: Quotas | None = {}

    def update(self, quotas: Quotas) -> bool:
        """These hold from now on; what was counted stays. Whether there may be any. There can be many, and many changes
        of them in a row: they are looked at when somebody asks."""
        self._all, self._quotas = quotas, None
        return bool(quotas)

    def find(self, client_id: bytes) -> tuple[Meter, Meter, Meter]:
        """Of what a client produces, of what it fetches, and of the nanoseconds that its requests take; None: nothing
        limits it."""
        quotas = self._quotas = by_entity(self._all, self.NAMES) if self._quotas is None else self._quotas
        levels = entities_of(ANONYMOUS, client_id.decode("utf-8", "replace"))

        def meter(name: str, unit: int = 1) -> Meter:
            limit = limit_of(quotas, levels, name)
            return None if limit is None else self.meters.get(limit.shared, name, limit.value * unit)

        return meter(PRODUCER_RATE), meter(CONSUMER_RATE), meter(REQUEST_PERCENTAGE, NANOSECONDS_OF_PERCENT)


class _Pace:
    """How often all addresses together may connect."""

    def __init__(self, samples: int, sample_ms: int) -> None:
        self.rate_max = RATE_UNLIMITED
        self._meter = ReplicationQuota(samples=samples, sample_ms=sample_ms)
        self._heard_ms = 0

    def limit(self, rate_max: int) -> None:
        """So many connections a second from now on."""
        self.rate_max = rate_max
        self._meter.set_rate(rate_max)

    def delay_ms(self, clock_ms: Callable[[], int]) -> int:
        """Counts a connection. More than 0: there are too many, and it is to be heard that much later; one after the
        other, as if they were accepted then."""
        if self.rate_max == RATE_UNLIMITED:
            return 0
        now_ms = clock_ms()
        self._meter.record(1, now_ms)
        if self._meter.throttle_ms(now_ms) == 0:
            self._heard_ms = now_ms
            return 0
        self._heard_ms = max(self._heard_ms, now_ms) + 1000 // max(self.rate_max, 1)
        return self._heard_ms - now_ms


class ConnectionRates:
    """How often each address may connect, and all together: to the node, and to a listener (KIP-612; Kafka's
    ConnectionQuotas)."""

    def __init__(self, samples: int, sample_ms: int) -> None:
        self.meters = _Meters(samples, sample_ms)
        self._sample_ms = sample_ms
        self._all: Quotas = {}
        self._rates: dict[str | None, float] | None = {}
        self._samples = samples
        self._together = _Pace(samples, sample_ms)
        self._by_listener: dict[str, _Pace] = {}

    def update(self, quotas: Quotas) -> None:
        """These hold from now on; what was counted stays."""
        self._all, self._rates = quotas, None

    def update_all(self, rate_max: int) -> None:
        """So many connections a second, of all addresses together, from now on: `max.connection.creation.rate`."""
        self._together.limit(rate_max)

    def limit_listeners(self, rates_max: Mapping[str, int]) -> None:
        """The same of those listeners that have a rate of their own besides, and of no others."""
        before = self._by_listener
        self._by_listener = {listener: before.get(listener) or _Pace(self._samples, self._sample_ms)
                             for listener in rates_max}
        for listener, rate_max in rates_max.items():
            self._by_listener[listener].limit(rate_max)

    def delay_ms(self, listener: str, clock_ms: Callable[[], int], *, spared: bool = False) -> int:
        """Counts a connection. More than 0: there are too many, and it is to be heard that much later. `spared`: only
        the listener's own rate may hold it back."""
        delay_ms = self._together.delay_ms(clock_ms)
        of_listener = self._by_listener.get(listener)
        of_listener_ms = 0 if of_listener is None else of_listener.delay_ms(clock_ms)
        return of_listener_ms if spared else max(delay_ms, of_listener_ms)

    def throttle_ms(self, host: str, clock_ms: Callable[[], int]) -> int:
        """Counts a connection. More than 0: it is one too many and does not count; so long it is to be kept waiting
        before it is closed, at most one sample."""
        if self._rates is None:
            self._rates = {name if name is None else _address(name): limits[CONNECTION_RATE]
                           for [(_, name), *others], limits in by_entity(self._all, [CONNECTION_RATE]).items()
                           if not others and CONNECTION_RATE in limits}
        if not self._rates:
            return 0
        address = _address(host)
        rate = self._rates.get(address, self._rates.get(None))
        if rate is None:
            return 0
        meter, now_ms = self.meters.get(((IP, address),), CONNECTION_RATE, rate), clock_ms()
        meter.record(1, now_ms)
        throttle_ms = min(meter.throttle_ms(now_ms), self._sample_ms)
        if throttle_ms > 0:
            meter.record(-1, now_ms)
        return throttle_ms


def _address(text: str) -> str:
    """One way to write an address; what is none stays as it is."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return text
    return str(getattr(address, "ipv4_mapped", None) or address)
