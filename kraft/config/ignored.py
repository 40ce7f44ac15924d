"""Keys that a node's file may have without effect: unknown keys, and settings of earlier versions of Kafka.

Files are shared with other products, and outlive versions. Each such key is named once at the start, with the reason.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_ZOOKEEPER: Final = "this is a KRaft node: there is no ZooKeeper"
_LISTENERS: Final = "listeners and advertised.listeners say where a node listens"
_FORMAT: Final = "the cluster's metadata.version decides which formats are written"
_QUOTAS: Final = "default quotas are set with kafka-configs, of the default user or client id"

# Settings of earlier versions of Kafka, by name and by prefix.
REMOVED: Final[Mapping[str, str]] = MappingProxyType({
    "advertised.host.name": _LISTENERS, "advertised.port": _LISTENERS, "host.name": _LISTENERS, "port": _LISTENERS,
    "broker.id.generation.enable": _ZOOKEEPER, "reserved.broker.max.id": _ZOOKEEPER,
    "control.plane.listener.name": "controller.listener.names names the controllers' own listeners",
    "inter.broker.protocol.version": _FORMAT, "log.message.format.version": _FORMAT,
    "log.message.downconversion.enable": "Kafka 4 has no older formats to convert to",
    "log.message.timestamp.difference.max.ms":
        "log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms are in its place",
    "leader.imbalance.per.broker.percentage": "preferred leaders are elected whatever the share",
    "offsets.commit.required.acks": "an offset is committed when all in-sync replicas have it",
    "quota.consumer.default": _QUOTAS, "quota.producer.default": _QUOTAS,
})
REMOVED_PREFIXES: Final[Mapping[str, str]] = MappingProxyType({
    "zookeeper.": _ZOOKEEPER,
    "password.encoder.": _ZOOKEEPER + " that passwords would be encoded for",
})


def removed(key: str) -> str | None:
    """Return why a key of an earlier version does nothing; None for any other key."""
    return REMOVED.get(key) or next((why for prefix, why in REMOVED_PREFIXES.items() if key.startswith(prefix)), None)
