"""Limits of clients' use of the node, from its configuration."""

from dataclasses import replace
from functools import partial
from typing import Final

from kraft.broker.client_quotas import ConnectionRates
from kraft.config.effective import BrokerLayers, Source, broker_integer, broker_value
from kraft.config.listener_settings import of_listeners
from kraft.config.node_config import NodeConfig
from kraft.runtime.base.descriptors import default_connections_max
from kraft.runtime.net.server import SYSTEM_BUFFER, ServerLimits
from kraft_native.base.errors import InvalidArgumentError

UNLIMITED: Final = 2**31 - 1


def server_limits(layers: BrokerLayers) -> ServerLimits:
    """Limits from the settings in force. Raises `InvalidArgumentError` for a value out of range."""
    integer = partial(broker_integer, layers=layers)
    connections = integer("max.connections")
    limits = ServerLimits(
        request_bytes_max=integer("socket.request.max.bytes"),
        answer_bytes_max=integer("kraft.answer.max.bytes"),
        memory_bytes_max=_memory_bytes(layers),
        requests_in_progress_max=integer("kraft.connection.requests.max"),
        connections_max=default_connections_max() if connections == UNLIMITED else connections,
        connections_by_listener=of_listeners("max.connections", layers),
        connections_per_ip_max=integer("max.connections.per.ip"),
        connections_per_ip_overrides=_overrides(
            str(broker_value("max.connections.per.ip.overrides", layers).value or "")),
        backlog=integer("socket.listen.backlog.size"),
        send_buffer_bytes=integer("socket.send.buffer.bytes"),
        follower_send_buffer_bytes=_unless_set("socket.send.buffer.bytes", layers),
        # Kafka's default would cost large batches a third of their throughput.
        receive_buffer_bytes=_unless_set("socket.receive.buffer.bytes", layers),
        idle_timeout_ms=integer("connections.max.idle.ms"),
        frame_timeout_ms=integer("kraft.request.timeout.ms"),
        reply_timeout_ms=integer("kraft.slow.reader.timeout.ms"),
        handshake_timeout_ms=integer("kraft.tls.handshake.timeout.ms"))
    limits.validate()
    return limits


def controller_limits(layers: BrokerLayers) -> ServerLimits:
    """Limits of a node without a broker. It serves its peers, and their answers should leave in one piece. Kafka's
    default sends a quarter of a megabyte at a time, and needs two iterations on either side for slightly more."""
    return replace(server_limits(layers), send_buffer_bytes=_unless_set("socket.send.buffer.bytes", layers))


def _memory_bytes(layers: BrokerLayers) -> int:
    """Our own bound, or Kafka's where that is set and smaller."""
    ours = broker_integer("kraft.request.memory.max.bytes", layers)
    queued = broker_integer("queued.max.request.bytes", layers)
    return min(ours, queued) if queued > 0 else ours


def connection_rates(config: NodeConfig) -> ConnectionRates:
    """Limits of how often addresses may connect, from the node's file."""
    rates = ConnectionRates(config.integer("quota.window.num"), 1000 * config.integer("quota.window.size.seconds"))
    limit_rates(rates, config.layers())
    return rates


def limit_rates(rates: ConnectionRates, layers: BrokerLayers) -> None:
    """Update the limits of how often addresses may connect."""
    rates.update_all(broker_integer("max.connection.creation.rate", layers))
    rates.limit_listeners(of_listeners("max.connection.creation.rate", layers))


def _unless_set(name: str, layers: BrokerLayers) -> int:
    """Value of the setting, or the system's choice when it is not set."""
    found = broker_value(name, layers)
    return SYSTEM_BUFFER if found.source == Source.DEFAULT else broker_integer(name, layers)


def _overrides(text: str) -> dict[str, int]:
    """Parse `host:count,host:count` of max.connections.per.ip.overrides."""
    found: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        host, _, count = part.rpartition(":")
        if not host or not count.isdecimal():
            raise InvalidArgumentError(f"max.connections.per.ip.overrides: {part!r} is not host:count")
        found[host] = int(count)
    return found
