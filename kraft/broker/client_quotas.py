"""Usage of clients against the cluster's quotas: bytes sent and received, loop time, rate of connections. Sans-IO."""

import ipaddress
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from kraft.metadata.client_quotas import (
    CONNECTION_RATE,
    CONSUMER_RATE,
    IP,
    PRODUCER_RATE,
    REQUEST_PERCENTAGE,
    Quotas,
    entities_of,
    limit_of,
)
from kraft.metadata.image import QuotaEntity
from kraft.security.principal import ANONYMOUS, Principal
from kraft_native.request.replication_quota import ReplicationQuota

METERS_MAX: Final = 20_000
NANOSECONDS_OF_PERCENT: Final = 10_000_000
RATE_MAX: Final = 2**63 - 1
RATE_UNLIMITED: Final = 2**31 - 1

Meter = ReplicationQuota | None


class _Meters:
    """Meters by the entity that shares them and by quota name. `samples` and `sample_ms` are Kafka's `quota.window.num`
    and `.size.seconds`."""

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
    """Quotas of users and client ids that are in force here."""

    def __init__(self, samples: int, sample_ms: int) -> None:
        self.meters = _Meters(samples, sample_ms)
        self._quotas: Quotas = {}

    def update(self, quotas: Quotas) -> bool:
        """Put these quotas in force; the counts stay. Return whether any may exist."""
        self._quotas = quotas
        return bool(quotas)

    def find(self, client_id: bytes, principal: Principal | None = None) -> tuple[Meter, Meter, Meter]:
        """Return the meters of a client's produced bytes, of its fetched bytes, and of the nanoseconds that its
        requests use. None: no quota limits it. `principal` None: the client was not authenticated."""
        levels = entities_of((principal or ANONYMOUS).name, client_id.decode("utf-8", "replace"))

        def meter(name: str, unit: int = 1) -> Meter:
            limit = limit_of(self._quotas, levels, name)
            return None if limit is None else self.meters.get(limit.shared, name, limit.value * unit)

        return meter(PRODUCER_RATE), meter(CONSUMER_RATE), meter(REQUEST_PERCENTAGE, NANOSECONDS_OF_PERCENT)


class _Pace:
    """Limit on the rate at which all addresses together connect."""

    def __init__(self, samples: int, sample_ms: int) -> None:
        self.rate_max = RATE_UNLIMITED
        self._meter = ReplicationQuota(samples=samples, sample_ms=sample_ms)
        self._last_request_ms = 0

    def limit(self, rate_max: int) -> None:
        """Set the limit in connections per second."""
        self.rate_max = rate_max
        self._meter.set_rate(rate_max)

    def delay_ms(self, clock_ms: Callable[[], int]) -> int:
        """Count a connection. A positive result means too many: the connection is to be served that much later. Excess
        connections are spaced as if they were accepted one by one at the limit."""
        if self.rate_max == RATE_UNLIMITED:
            return 0
        now_ms = clock_ms()
        self._meter.record(1, now_ms)
        if self._meter.throttle_ms(now_ms) == 0:
            self._last_request_ms = now_ms
            return 0
        self._last_request_ms = max(self._last_request_ms, now_ms) + 1000 // max(self.rate_max, 1)
        return self._last_request_ms - now_ms


class ConnectionRates:
    """Limits on the connection rate of each address, of all together to the node, and to a listener (KIP-612; Kafka's
    ConnectionQuotas)."""

    def __init__(self, samples: int, sample_ms: int) -> None:
        self.meters = _Meters(samples, sample_ms)
        self._sample_ms = sample_ms
        self._rates: dict[str | None, dict[str | None, float]] = {}
        """Rates of an address by its spellings in the quotas; None: of each address without a rate of its own."""
        self._samples = samples
        self._together = _Pace(samples, sample_ms)
        self._by_listener: dict[str, _Pace] = {}

    def update(self, quotas: Quotas, changed: Iterable[QuotaEntity]) -> None:
        """Put the quotas of these entities in force; the counts stay."""
        for entity in changed:
            if len(entity) != 1 or entity[0][0] != IP:
                continue
            name = entity[0][1]
            address = name if name is None else _address(name)
            spellings = self._rates.setdefault(address, {})
            spellings.pop(name, None)
            rate = quotas.get(entity, {}).get(CONNECTION_RATE)
            if rate is not None and rate >= 0:
                spellings[name] = rate
            if not spellings:
                del self._rates[address]

    def update_all(self, rate_max: int) -> None:
        """Set the limit of all addresses together in connections per second: `max.connection.creation.rate`."""
        self._together.limit(rate_max)

    def limit_listeners(self, rates_max: Mapping[str, int]) -> None:
        """Set the additional limits of those listeners that have one, and remove all others."""
        before = self._by_listener
        self._by_listener = {listener: before.get(listener) or _Pace(self._samples, self._sample_ms)
                             for listener in rates_max}
        for listener, rate_max in rates_max.items():
            self._by_listener[listener].limit(rate_max)

    def delay_ms(self, listener: str, clock_ms: Callable[[], int], *, is_exempt: bool = False) -> int:
        """Count a connection. A positive result means too many: it is to be served that much later. `is_exempt`: only
        the listener's own rate may delay it."""
        delay_ms = self._together.delay_ms(clock_ms)
        of_listener = self._by_listener.get(listener)
        of_listener_ms = 0 if of_listener is None else of_listener.delay_ms(clock_ms)
        return of_listener_ms if is_exempt else max(delay_ms, of_listener_ms)

    def throttle_ms(self, host: str, clock_ms: Callable[[], int]) -> int:
        """Count a connection. A positive result means that it is one too many and is not counted: it is to wait that
        long before it is closed, at most one sample."""
        if not self._rates:
            return 0
        address = _address(host)
        spellings = self._rates.get(address) or self._rates.get(None)
        if spellings is None:
            return 0
        rate = next(reversed(spellings.values()))
        meter, now_ms = self.meters.get(((IP, address),), CONNECTION_RATE, rate), clock_ms()
        meter.record(1, now_ms)
        throttle_ms = min(meter.throttle_ms(now_ms), self._sample_ms)
        if throttle_ms > 0:
            meter.record(-1, now_ms)
        return throttle_ms


def _address(text: str) -> str:
    """Return the canonical text of an address; other text is returned unchanged."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return text
    return str(getattr(address, "ipv4_mapped", None) or address)
