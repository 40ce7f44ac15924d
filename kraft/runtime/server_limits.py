"""What clients may use of the node, from its configuration."""

from functools import partial
from typing import Final

from kraft.config.effective import BrokerLayers, broker_integer, broker_value
from kraft.runtime.server import ServerLimits, default_connections_max
from kraft_native.errors import InvalidArgumentError

UNLIMITED: Final = 2**31 - 1


def server_limits(layers: BrokerLayers) -> ServerLimits:
    """From the settings in force. `InvalidArgumentError` for a value out of range."""
    integer = partial(broker_integer, layers=layers)
    connections = integer("max.connections")
    limits = ServerLimits(
        request_bytes_max=integer("socket.request.max.bytes"),
        memory_bytes_max=integer("kraft.request.memory.max.bytes"),
        requests_in_progress_max=integer("kraft.connection.requests.max"),
        connections_max=default_connections_max() if connections == UNLIMITED else connections,
        connections_per_ip_max=integer("max.connections.per.ip"),
        connections_per_ip_overrides=_overrides(
            str(broker_value("max.connections.per.ip.overrides", layers).value or "")),
        backlog=integer("socket.listen.backlog.size"),
        idle_timeout_ms=integer("connections.max.idle.ms"),
        frame_timeout_ms=integer("kraft.request.timeout.ms"),
        reply_timeout_ms=integer("kraft.slow.reader.timeout.ms"))
    limits.validate()
    return limits


def _overrides(text: str) -> dict[str, int]:
    """`host:count,host:count` of max.connections.per.ip.overrides."""
    found: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        host, _, count = part.rpartition(":")
        if not host or not count.isdecimal():
            raise InvalidArgumentError(f"max.connections.per.ip.overrides: {part!r} is not host:count")
        found[host] = int(count)
    return found
