"""What clients may use of the node, from its configuration."""

from typing import Final

from kraft.config.node import NodeConfig
from kraft.runtime.server import ServerLimits, default_connections_max
from kraft_native.errors import InvalidArgumentError

UNLIMITED: Final = 2**31 - 1


def server_limits(config: NodeConfig) -> ServerLimits:
    """`InvalidArgumentError` for a value out of range."""
    connections, per_ip = config.integer("max.connections"), config.integer("max.connections.per.ip")
    limits = ServerLimits(
        request_bytes_max=config.integer("socket.request.max.bytes"),
        memory_bytes_max=config.integer("kraft.request.memory.max.bytes"),
        requests_in_progress_max=config.integer("kraft.connection.requests.max"),
        connections_max=default_connections_max() if connections == UNLIMITED else connections,
        connections_per_ip_max=per_ip,
        connections_per_ip_overrides=_overrides(str(config["max.connections.per.ip.overrides"] or "")),
        backlog=config.integer("socket.listen.backlog.size"),
        idle_timeout_ms=config.integer("connections.max.idle.ms"),
        frame_timeout_ms=config.integer("kraft.request.timeout.ms"),
        reply_timeout_ms=config.integer("kraft.slow.reader.timeout.ms"))
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
