"""Settings of share groups, as their records need them."""

from collections.abc import Mapping
from typing import Final

from kraft.config.effective import BrokerLayers, broker_integer, group_value
from kraft_native.share.partitions import ShareSettings

AUTO_OFFSET_RESET: Final = "share.auto.offset.reset"
READ_COMMITTED: Final = "read_committed"
_BOUNDED: Final = {
    "share.record.lock.duration.ms": "record.lock.duration.ms",
    "share.partition.max.record.locks": "partition.max.record.locks",
    "share.delivery.count.limit": "delivery.count.limit",
}
"""Settings that brokers limit by `group.share.min.*` and `group.share.max.*`, and their names there."""


def share_settings(own: Mapping[str, str], layers: BrokerLayers) -> ShareSettings:
    """Return the settings in force of a share group. `own` are those that are set for the group."""
    locks_ms, locks, deliveries = (_bounded(name, own, layers) for name in _BOUNDED)
    return ShareSettings(locks_ms, locks, deliveries,
                         committed=group_value("share.isolation.level", own, layers).value == READ_COMMITTED,
                         renews=bool(group_value("share.renew.acknowledge.enable", own, layers).value))


def offset_reset(own: Mapping[str, str], layers: BrokerLayers) -> str:
    """Return where the group begins in a partition that it has no state of: `latest`, `earliest`, or `by_duration:`
    with a duration."""
    return str(group_value(AUTO_OFFSET_RESET, own, layers).value).lower()


def _bounded(name: str, own: Mapping[str, str], layers: BrokerLayers) -> int:
    value = group_value(name, own, layers).value
    assert isinstance(value, int), f"{name} is not a whole number"
    low = broker_integer(f"group.share.min.{_BOUNDED[name]}", layers)
    high = broker_integer(f"group.share.max.{_BOUNDED[name]}", layers)
    return min(max(value, low), high) if name in own else value
