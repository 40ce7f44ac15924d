"""Members of the metadata quorum, as the configuration names them. `controller.quorum.voters` names all voters for
good; `controller.quorum.bootstrap.servers` names only nodes that know them."""

import re
from typing import Final, NamedTuple

from kraft.config.errors import InvalidConfigError
from kraft.config.node_config import NodeConfig, parse_socket

VOTERS: Final = "controller.quorum.voters"
BOOTSTRAP_SERVERS: Final = "controller.quorum.bootstrap.servers"
AUTO_JOIN: Final = "controller.quorum.auto.join.enable"
LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_VOTER = re.compile(r"(?P<id>[0-9]{1,10})(@(?P<socket>.+))?")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+._-]*://(?P<socket>[^/]+)/?")


class Address(NamedTuple):
    host: str
    port: int


class StaticVoter(NamedTuple):
    """`id@host:port`. Or the id alone (KIP-642): of this node, or of one that announces its own address."""

    node_id: int
    address: Address | None


def static_voters(config: NodeConfig) -> tuple[StaticVoter, ...]:
    """Return the voters of `controller.quorum.voters`, by id; none when the voters are in the metadata log itself."""
    found = [_static_voter(text) for text in _texts(config, VOTERS)]
    ids = [each.node_id for each in found]
    if len(dict.fromkeys(ids)) != len(ids):
        raise InvalidConfigError(f"{VOTERS}: names a node twice")
    return tuple(sorted(found))


def bootstrap_servers(config: NodeConfig) -> tuple[Address, ...]:
    """Return the addresses of `controller.quorum.bootstrap.servers`; `host:port`, or URIs (KIP-631's
    `controller.connect`)."""
    return tuple(_address(BOOTSTRAP_SERVERS, text) for text in _texts(config, BOOTSTRAP_SERVERS))


def is_sole_controller(config: NodeConfig) -> bool:
    """Return whether this node has both roles and its configuration names no other controller. Kafka's own file for a
    single node names a bootstrap server: the node itself."""
    if not (config.is_broker and config.is_controller):
        return False
    listeners = [*config.controller_listeners, *config.advertised_listeners]
    hosts = [*LOOPBACK, *(each.host for each in listeners)]
    ports = [each.port for each in listeners if each.listener in config.controller_listener_names]
    # A listener whose port the system chooses may be the one that is meant.
    are_others = any(each.host not in hosts or (each.port not in ports and 0 not in ports)
                     for each in bootstrap_servers(config))
    return not are_others and [each.node_id for each in static_voters(config)] in ([], [config.node_id])


def check_quorum(config: NodeConfig) -> None:
    """Raise `InvalidConfigError` for a quorum that this node could not find, or has no place in."""
    voters, servers = static_voters(config), bootstrap_servers(config)
    if not servers and not any(each.address for each in voters) and (not config.is_controller or not voters):
        raise InvalidConfigError(f"{BOOTSTRAP_SERVERS}: is needed where process.roles is {','.join(config.roles)}, or "
                                 f"{VOTERS}")
    if config[AUTO_JOIN] and (voters or not config.is_controller):
        raise InvalidConfigError(f"{AUTO_JOIN}: is for controllers, with voters that can be changed: process.roles is "
                                 f"{','.join(config.roles)}, {VOTERS} {'is set' if voters else 'is not'}")
    ids = [each.node_id for each in voters]
    if voters and config.is_controller and config.node_id not in ids:
        raise InvalidConfigError(f"{VOTERS}: a controller has to be one of them, and node.id {config.node_id} is not")
    if voters and not config.is_controller and config.node_id in ids:
        raise InvalidConfigError(f"{VOTERS}: names node.id {config.node_id}, and process.roles has no controller")
    known = [each.address for each in voters if each.address is not None]
    for setting, addresses in ((VOTERS, known), (BOOTSTRAP_SERVERS, list(servers))):
        for address in addresses:
            if not address.host or address.port == 0:
                raise InvalidConfigError(f"{setting}: {address.host}:{address.port} is no address to connect to")


def _texts(config: NodeConfig, name: str) -> list[str]:
    value = config[name]
    return [text.strip() for text in value if text.strip()] if isinstance(value, list) else []


def _static_voter(text: str) -> StaticVoter:
    found = _VOTER.fullmatch(text)
    if found is None:
        raise InvalidConfigError(f"{VOTERS}: {text!r} is not id@host:port")
    return StaticVoter(int(found["id"]), _address(VOTERS, found["socket"]) if found["socket"] else None)


def _address(setting: str, text: str) -> Address:
    found = _SCHEME.fullmatch(text)
    return Address(*parse_socket(setting, found["socket"] if found else text))
