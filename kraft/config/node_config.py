"""Configuration of one node, checked as a whole when it is created.

`NodeConfig` combines the node's file, the command line and the defaults. It does not change while the node runs.
Settings that may be changed are read through `effective`, with this as the lowest layer.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from kraft.config import effective, tables
from kraft.config.absent import KEPT, absence
from kraft.config.authorizer_settings import authorizer_settings, settings_without_authorizer
from kraft.config.errors import InvalidConfigError
from kraft.config.listener_settings import PREFIX as LISTENER_PREFIX
from kraft.config.listener_settings import listener_of, name_in
from kraft.config.properties import parse_properties
from kraft.config.sasl_settings import (
    OF_BROKERS,
    OF_CONTROLLERS,
    PLAIN,
    SCRAM,
    Credentials,
    credentials,
    sasl_settings,
)
from kraft.config.setting import Setting, Value
from kraft.config.unsupported import check_supported, is_of_sasl

METRICS: Final = "METRICS"
"""Name of the metrics listener, in the keys of its settings of TLS."""
ROLES: Final = ("broker", "controller")
PLAINTEXT: Final = 0
SASL: Final = "SASL_"
PROTOCOLS: Final = {"PLAINTEXT": PLAINTEXT, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
"""Security protocols of listeners, with Kafka's numbers."""
WITH_TLS: Final = ("SSL", "SASL_SSL")
INTER_BROKER: Final = "security.inter.broker.protocol"
EARLY: Final = "early.start.listeners"
RACK_AWARE_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER_SELECTOR: Final = "org.apache.kafka.common.replica.LeaderSelector"
NODE_ID_DEFAULT: Final = 1
LISTENERS_DEFAULT: Final = {
    ("broker",): "PLAINTEXT://:9092",
    ("controller",): "CONTROLLER://:9093",
    ("broker", "controller"): "PLAINTEXT://:9092,CONTROLLER://127.0.0.1:9093",
}
NODE_ID_DIGITS_MAX: Final = 10
CORDONED: Final = "cordoned.log.dirs"
EVERY_DIRECTORY: Final = "*"
SHOWN_MAX: Final = 10
"""Wrong directories that an error names; the search for them ends there."""
EVERY_ADDRESS: Final = ("0.0.0.0", "::")  # noqa: S104 - looked for, not bound
LOOPBACK: Final = "127.0.0.1"
_ENDPOINT = re.compile(r"(?P<name>[A-Za-z0-9_]+)://(?P<host>\[[0-9A-Fa-f:.%]+\]|[^:/\[\]]*):(?P<port>[0-9]{1,5})")
_ZEROS = re.compile(r"0+(\.0+){0,3}")
_SOCKET = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^:/\[\]]*):(?P<port>[0-9]{1,5})")


class Endpoint(NamedTuple):
    """One address of a listener. An empty host means every address; the system chooses for port 0."""

    listener: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener}://{host}:{self.port}"


@dataclass(frozen=True)
class NodeConfig:
    """Settings of one node. `texts` are the keys as given (Kafka's names); defaults fill the rest.

    Raises `InvalidConfigError` when a value is out of range, or values contradict each other.
    """

    texts: Mapping[str, str]
    values: dict[str, Value] = field(init=False)
    ignored: dict[str, str] = field(init=False)
    """Keys that are given and have no effect, each with a sentence that states the reason."""
    unknown: tuple[str, ...] = field(init=False)
    """Those of them that are unknown."""
    node_id: int = field(init=False)
    roles: tuple[str, ...] = field(init=False)
    listeners: tuple[Endpoint, ...] = field(init=False)
    inter_broker_listener: str = field(init=False)
    """Listener that brokers use among themselves."""
    advertised_listeners: tuple[Endpoint, ...] = field(init=False)
    controller_listener_names: tuple[str, ...] = field(init=False)
    log_dirs: tuple[Path, ...] = field(init=False)
    metadata_log_dir: Path = field(init=False)

    def __post_init__(self) -> None:
        put = object.__setattr__
        parsed = parse_properties(self.texts)
        put(self, "values", parsed.values)
        put(self, "unknown", parsed.unknown)
        put(self, "node_id", self._node_id())
        put(self, "roles", self._roles())
        put(self, "controller_listener_names", self._controller_listener_names())
        put(self, "listeners", self._listeners())
        put(self, "inter_broker_listener", self._inter_broker_listener())
        put(self, "advertised_listeners", self._advertised_listeners())
        put(self, "log_dirs", self._log_dirs())
        metadata = self.values.get("metadata.log.dir")
        put(self, "metadata_log_dir", Path(str(metadata)) if metadata else self.log_dirs[0])
        self._check_protocols()
        self._check_early_listeners()
        put(self, "ignored", {**parsed.ignored, **self._of_unknown_listeners(), **self._of_listeners_without_sasl(),
                              **self._of_tls_without_use(), **settings_without_authorizer(self.values)})
        self._check_inter_broker_protocol()
        self._check_sasl()
        authorizer_settings(self.values)
        self._check_replica_selector()
        if self.is_broker and (why := cordon_fault(self._list(CORDONED), self.log_dirs)) is not None:
            raise InvalidConfigError(why)
        if metrics := self.values.get("kraft.metrics.listener"):
            parse_socket("kraft.metrics.listener", str(metrics))
        if self.has_tls_metrics and any(each.listener == METRICS for each in self.listeners):
            raise InvalidConfigError(f"listeners: {METRICS} is the name of the metrics listener, which has TLS")

    def __getitem__(self, name: str) -> Value:
        """Return the value of a broker setting: as given, else its default. Raise `KeyError` for an unknown name."""
        return effective.broker_value(name, self.layers()).value

    def integer(self, name: str) -> int:
        """Return the value of a setting that is a whole number and is set or has a default."""
        return effective.broker_integer(name, self.layers())

    def layers(self, dynamic: Mapping[str, str] | None = None,
               dynamic_default: Mapping[str, str] | None = None) -> effective.BrokerLayers:
        """Return this configuration as the layer below dynamic settings."""
        return effective.BrokerLayers(dynamic or {}, dynamic_default or {}, self.texts)

    @property
    def without_effect(self) -> tuple[Setting, ...]:
        """Settings that are given, and have no effect here."""
        given = [tables.broker_settings()[name] for name in self.texts if name in tables.broker_settings()]
        return tuple(each for each in given if KEPT in each.documentation)

    @property
    def warnings(self) -> list[str]:
        """Entries of the file that have no effect, with one sentence for each reason."""
        by_reason: dict[str, list[str]] = {}
        for setting in self.without_effect:
            why = absence("broker", setting.name).strip() or setting.documentation
            by_reason.setdefault(why, []).append(setting.name)
        return [*(f"{why} (ignored)" for why in self.ignored.values()),
                *(f"{', '.join(names)}: accepted without effect. {why}" for why, names in by_reason.items())]

    @property
    def is_broker(self) -> bool:
        return "broker" in self.roles

    @property
    def is_controller(self) -> bool:
        return "controller" in self.roles

    @property
    def broker_listeners(self) -> tuple[Endpoint, ...]:
        return tuple(each for each in self.listeners if each.listener not in self.controller_listener_names)

    @property
    def controller_listeners(self) -> tuple[Endpoint, ...]:
        return tuple(each for each in self.listeners if each.listener in self.controller_listener_names)

    def _inter_broker_listener(self) -> str:
        if name := self.values.get("inter.broker.listener.name"):
            return str(name).upper()
        if any(each.listener == self.values.get(INTER_BROKER) for each in self.broker_listeners):
            return str(self.values[INTER_BROKER])
        return self.broker_listeners[0].listener if self.broker_listeners else "PLAINTEXT"

    def advertised(self, listener: Endpoint) -> Endpoint:
        """Return the address by which others reach a listener: that of `advertised.listeners`, else its own. Where that
        is every address of the machine, return the loopback address."""
        found = next((each for each in self.advertised_listeners if each.listener == listener.listener), listener)
        return found._replace(host=LOOPBACK) if found.host in ("", *EVERY_ADDRESS) else found

    @property
    def selects_replicas_by_rack(self) -> bool:
        """Return whether consumers are sent to replicas in their rack (KIP-392)."""
        return self.values.get("replica.selector.class") == RACK_AWARE_SELECTOR

    def protocol(self, listener: str) -> str:
        """Return the security protocol of a listener, by the map or by its own name."""
        if text := self.values.get("listener.security.protocol.map"):
            assert isinstance(text, str)
            pairs = dict(pair.strip().upper().split(":", 1) for pair in text.split(",") if ":" in pair)
            return pairs.get(listener, listener)
        return "PLAINTEXT" if listener in self.controller_listener_names else listener

    def protocol_id(self, listener: str) -> int:
        """Return Kafka's number of a listener's security protocol."""
        return PROTOCOLS[self.protocol(listener)]

    def has_sasl(self, listener: str) -> bool:
        """Return whether clients of the listener authenticate themselves by SASL. It may be one of other nodes."""
        return self.protocol(listener).startswith(SASL)

    @property
    def logins(self) -> dict[str, Credentials]:
        """Credentials with which this node logs in to listeners of other nodes, by listener. A broker without a login
        to controllers uses the one to brokers."""
        found = {}
        between = self.inter_broker_listener if self.is_broker else None
        for listener, key, fallback in ((between, OF_BROKERS, None),
                                        *((each, OF_CONTROLLERS, between) for each in self.controller_listener_names)):
            if listener is not None and self.has_sasl(listener):
                found[listener] = credentials(listener, key, self.layers(), fallback)
        return found

    def has_tls(self, listener: str) -> bool:
        """Return whether a listener is encrypted."""
        return self.protocol(listener) in WITH_TLS

    @property
    def has_tls_metrics(self) -> bool:
        """Return whether metrics are served with TLS."""
        return bool(self.values.get("kraft.metrics.listener") and self["kraft.metrics.security.protocol"] == "SSL")

    @property
    def early_listeners(self) -> tuple[str, ...]:
        """Listeners that may serve before the committed entries of the authorizer are known."""
        if self.values.get(EARLY) is None:
            return self.controller_listener_names
        return tuple(name.upper() for name in self._list(EARLY))

    @property
    def dialed_listeners(self) -> tuple[str, ...]:
        """Listeners of other nodes that this one connects to."""
        between = (self.inter_broker_listener,) if self.is_broker else ()
        return (*between, *self.controller_listener_names[:1])

    def _node_id(self) -> int:
        node_id, broker_id = self.values.get("node.id"), self.values.get("broker.id")
        if broker_id in (None, -1):
            return NODE_ID_DEFAULT if node_id is None else self._number(node_id)
        if node_id not in (None, broker_id):
            raise InvalidConfigError(f"broker.id: {broker_id} is not node.id, {node_id}; give one of them")
        return self._number(broker_id)

    @staticmethod
    def _number(value: Value) -> int:
        assert isinstance(value, int)
        return value

    def _list(self, name: str) -> list[str]:
        value = self.values.get(name) or []
        assert isinstance(value, list)
        return value

    def _roles(self) -> tuple[str, ...]:
        roles = self._list("process.roles") or list(ROLES)
        return tuple(role for role in ROLES if role in roles)

    def _controller_listener_names(self) -> tuple[str, ...]:
        names = tuple(name.upper() for name in self._list("controller.listener.names"))
        if not names and self.values.get("listeners") is not None and "controller" in self.roles:
            raise InvalidConfigError("controller.listener.names: is needed beside listeners when process.roles has "
                                     "controller: it says which of the listeners are the controllers' own")
        return names or ("CONTROLLER",)

    def _listeners(self) -> tuple[Endpoint, ...]:
        texts = self._list("listeners") or LISTENERS_DEFAULT[self.roles].split(",")
        endpoints = tuple(parse_endpoint("listeners", text) for text in texts)
        names = [each.listener for each in endpoints]
        if len(set(names)) != len(names):
            raise InvalidConfigError(f"listeners: {','.join(texts)} names a listener twice")
        self._check_ports(endpoints)
        controllers = [each for each in endpoints if each.listener in self.controller_listener_names]
        if self.is_controller and not controllers:
            raise InvalidConfigError(f"listeners: none is one of controller.listener.names, "
                                     f"{','.join(self.controller_listener_names)}")
        if not self.is_controller and controllers:
            raise InvalidConfigError(f"listeners: {controllers[0]} is a controller's, but process.roles has none")
        if not self.is_broker and len(controllers) < len(endpoints):
            other = next(each for each in endpoints if each not in controllers)
            raise InvalidConfigError(f"listeners: {other} is a broker's, but process.roles has none")
        if self.is_broker and len(controllers) == len(endpoints):
            raise InvalidConfigError("listeners: a broker needs one that is not in controller.listener.names")
        return endpoints

    @staticmethod
    def _check_ports(endpoints: tuple[Endpoint, ...]) -> None:
        """Check that each listener has a port of its own. One on IPv4 and one on IPv6 may share a port, as in Kafka."""
        by_port: dict[int, list[Endpoint]] = {}
        for each in endpoints:
            by_port.setdefault(each.port, []).append(each)
        for port, found in by_port.items():
            if port and len(found) > 1 and sorted(map(_ip_version, found)) != [4, 6]:
                raise InvalidConfigError(f"listeners: {', '.join(map(str, found))} have one port; each listener needs "
                                         "its own, but for one on an IPv4 and one on an IPv6 address")

    def _check_reachable(self, advertised: tuple[Endpoint, ...]) -> None:
        """Refuse brokers' listeners that advertise an address which means all of a machine's: no client can connect to
        it. Kafka accepts it for controllers, whose addresses the quorum's settings name."""
        named = {each.listener for each in advertised}
        for each in self.broker_listeners:
            if each.listener not in named and each.host in EVERY_ADDRESS:
                raise InvalidConfigError(f"listeners: {each} is every address of this machine, and none that others "
                                         f"can connect to; name one in advertised.listeners={each.listener}://HOST:"
                                         f"{each.port}")

    def _advertised_listeners(self) -> tuple[Endpoint, ...]:
        texts = self._list("advertised.listeners")
        if not texts:
            self._check_reachable(())
            return self.listeners
        endpoints = tuple(parse_endpoint("advertised.listeners", text) for text in texts)
        known = {each.listener for each in self.listeners}
        for each in endpoints:
            if each.listener not in known:
                raise InvalidConfigError(f"advertised.listeners: {each} is none of listeners")
            if each.host in (*EVERY_ADDRESS, ""):
                raise InvalidConfigError(f"advertised.listeners: {each} is no address that a client can connect to")
        self._check_reachable(endpoints)
        return endpoints

    def _log_dirs(self) -> tuple[Path, ...]:
        names = self._list("log.dirs") or self._list("log.dir") or ["/tmp/kafka-logs"]  # noqa: S108 - Kafka's default
        paths = tuple(Path(name) for name in names if name)
        if not paths or len({path.resolve() for path in paths}) != len(paths):
            raise InvalidConfigError(f"log.dirs: {','.join(names)!r} is empty or names a directory twice")
        return paths

    def _check_protocols(self) -> None:
        for each in self.listeners:
            if (protocol := self.protocol(each.listener)) not in PROTOCOLS:
                raise InvalidConfigError(f"listener.security.protocol.map: listener {each.listener} has the protocol "
                                         f"{protocol}; this version offers {', '.join(PROTOCOLS)}")

    def _check_early_listeners(self) -> None:
        known = [*(each.listener for each in self.listeners), *self.controller_listener_names]
        for name in self.early_listeners:
            if name not in known:
                raise InvalidConfigError(f"{EARLY}: {name} is none of listeners and none of controller.listener.names, "
                                         f"which are {', '.join(dict.fromkeys(known))}")

    def _of_tls_without_use(self) -> dict[str, str]:
        """Return the settings of TLS that no listener uses, each with the reason."""
        names = [*(each.listener for each in self.listeners), *self.controller_listener_names]
        if any(map(self.has_tls, names)) or self.has_tls_metrics:
            return {}
        known = tables.broker_settings()
        return {key: f"{key}: no listener has TLS, so none uses it" for key, value in self.values.items()
                if key.startswith("ssl.") and value not in (None, "", [], known[key].default)}

    def _check_inter_broker_protocol(self) -> None:
        protocol = self.values.get(INTER_BROKER)
        if protocol is None or protocol == "PLAINTEXT" or not self.is_broker:
            return
        if self.values.get("inter.broker.listener.name"):
            raise InvalidConfigError(f"{INTER_BROKER}: {protocol} is given beside inter.broker.listener.name; give one "
                                     "of them")
        if self.inter_broker_listener != protocol:
            raise InvalidConfigError(f"{INTER_BROKER}: no listener of a broker has the name {protocol}; name the one "
                                     "between brokers in inter.broker.listener.name")

    def _check_sasl(self) -> None:
        """Check what listeners with SASL need, and the logins of this node to others."""
        named = {each.listener: None for each in self.listeners if self.has_sasl(each.listener)}
        for listener in named:
            sasl_settings(listener, self.layers())
        for listener, login in self.logins.items():
            if login.mechanism in SCRAM and listener in named and listener in self.controller_listener_names:
                raise InvalidConfigError(
                    f"{OF_CONTROLLERS}: {login.mechanism} cannot work between controllers: its credentials are in the "
                    f"metadata log, which has no leader before they have authenticated each other; name {PLAIN}")
        if named:
            for key, value in self.values.items():
                if is_of_sasl(key):
                    check_supported(tables.broker_settings()[key], value)

    def _of_listeners_without_sasl(self) -> dict[str, str]:
        """Return the settings of SASL that no listener uses, each with the reason."""
        used = [each for each in (*(each.listener for each in self.listeners), *self.controller_listener_names)
                if self.has_sasl(each)]
        found = {}
        for key in self.texts:
            if key.startswith(LISTENER_PREFIX):
                listener = listener_of(key)
                if is_of_sasl(name_in(key)) and listener.upper() not in used and self.texts[key]:
                    found[key] = f"{key}: listener {listener} has no SASL"
            elif is_of_sasl(key) and not used and self._differs_from_default(key):
                found[key] = f"{key}: no listener has SASL, so none uses it"
        return found

    def _differs_from_default(self, key: str) -> bool:
        setting = tables.broker_settings().get(key)
        return setting is None or self.values.get(key) not in (None, "", [], setting.default)

    def _of_unknown_listeners(self) -> dict[str, str]:
        known = [each.listener.lower() for each in self.listeners]
        known += [each.lower() for each in self.controller_listener_names if each.lower() not in known]
        if self.has_tls_metrics:
            known.append(METRICS.lower())
        return {key: f"{key}: {listener_of(key)} is none of listeners, which are written {', '.join(known)} there"
                for key in self.texts if key.startswith(LISTENER_PREFIX) and listener_of(key) not in known}

    def _check_replica_selector(self) -> None:
        name = self.values.get("replica.selector.class")
        if name and name not in (RACK_AWARE_SELECTOR, LEADER_SELECTOR):
            raise InvalidConfigError(f"replica.selector.class: {name!r} is not one of {RACK_AWARE_SELECTOR}, "
                                     f"{LEADER_SELECTOR}")


def node_id_of(name: str) -> int | None:
    """Return the node id in the name of a broker's settings; None for another name. A number that no node can have is
    2147483648. Python converts at most 4,300 digits."""
    if not (name.isascii() and name.isdigit()):
        return None
    digits = name.lstrip("0") or "0"
    return int(digits) if len(digits) <= NODE_ID_DIGITS_MAX else 1 << 31


def cordon_fault(names: Iterable[str], log_dirs: Iterable[Path]) -> str | None:
    """Return what is wrong with the directories that `cordoned.log.dirs` names (KIP-1066); None if nothing is."""
    named = dict.fromkeys(names)
    if EVERY_DIRECTORY in named:
        return None if len(named) == 1 else (f"{CORDONED}: {EVERY_DIRECTORY} stands for all directories "
                                                        "and must be alone")
    known = [path.absolute() for path in log_dirs]
    unknown = list(islice((name for name in named if not name or Path(name).absolute() not in known), SHOWN_MAX))
    return f"{CORDONED}: {', '.join(map(repr, unknown))} is not in log.dirs" if unknown else None


def _ip_version(endpoint: Endpoint) -> int:
    """Return 4 or 6 for a literal address, 0 for a name and for every address: `::` is every IPv4 address too."""
    try:
        return 0 if endpoint.host == "::" else ip_address(endpoint.host).version
    except ValueError:
        return 0


def parse_endpoint(setting: str, text: str) -> Endpoint:
    """Parse `NAME://host:port`; raise `InvalidConfigError` that names the setting."""
    found = _ENDPOINT.fullmatch(text.strip())
    if found is None or int(found["port"]) > 65_535:
        raise InvalidConfigError(f"{setting}: {text!r} is not NAME://host:port with a port of 0 to 65535")
    return Endpoint(found["name"].upper(), _host(found["host"]), int(found["port"]))


def parse_socket(setting: str, text: str) -> tuple[str, int]:
    """Parse `host:port`; raise `InvalidConfigError` that names the setting."""
    found = _SOCKET.fullmatch(text.strip())
    if found is None or int(found["port"]) > 65_535:
        raise InvalidConfigError(f"{setting}: {text!r} is not host:port with a port of 0 to 65535")
    return _host(found["host"]), int(found["port"])


def _host(text: str) -> str:
    """Return the host, a literal address in its usual form: `::0` is `::`, and `0` is `0.0.0.0`, as the system reads
    it."""
    bare = text.strip("[]")
    try:
        return EVERY_ADDRESS[0] if _ZEROS.fullmatch(bare) else str(ip_address(bare))
    except ValueError:
        return bare
