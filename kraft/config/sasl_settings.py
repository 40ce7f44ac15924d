"""SASL settings of one listener: mechanisms, logins, limits.

A setting of one listener, or of one mechanism on it, replaces the node's: `listener.name.<listener>.<setting>` and
`listener.name.<listener>.<mechanism>.<setting>`, with both names in lower case. Logins have the longest form only, as
in Kafka.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from kraft.config import tables
from kraft.config.effective import BrokerLayers, broker_value, resolve
from kraft.config.errors import InvalidConfigError
from kraft.config.jaas import Login, parse_login
from kraft.config.listener_settings import PREFIX, name_in
from kraft.config.oauth_settings import (
    MODULE,
    OAUTHBEARER,
    URL_ENCODE,
    TokenLogin,
    TokenRules,
    token_login,
    token_rules,
)
from kraft.config.setting import Value
from kraft.structs import immutable

PLAIN: Final = "PLAIN"
SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS: Final = (PLAIN, *SCRAM, OAUTHBEARER)
KERBEROS: Final = "GSSAPI"
ENABLED: Final = "sasl.enabled.mechanisms"
JAAS: Final = "sasl.jaas.config"
OF_CONTROLLERS: Final = "sasl.mechanism.controller.protocol"
OF_BROKERS: Final = "sasl.mechanism.inter.broker.protocol"
MODULES: Final[Mapping[str, str]] = {
    PLAIN: "org.apache.kafka.common.security.plain.PlainLoginModule",
    **dict.fromkeys(SCRAM, "org.apache.kafka.common.security.scram.ScramLoginModule"),
    OAUTHBEARER: MODULE,
}


@immutable
class SaslSettings:
    """Settings of a listener whose clients authenticate themselves.

    - `users`: passwords of PLAIN's users.
    - `reauth_ms`: longest life of a session, by mechanism; 0: no limit.
    """

    listener: str
    mechanisms: tuple[str, ...]
    users: Mapping[str, str]
    reauth_ms: Mapping[str, int]
    receive_bytes_max: int
    tokens: TokenRules | None = None
    """Rules of OAUTHBEARER, where it is enabled."""

    def __repr__(self) -> str:
        return f"SaslSettings({self.listener}: {', '.join(self.mechanisms)})"


@immutable
class Credentials:
    """Mechanism, user and password with which a node logs in to a listener of another; with OAUTHBEARER `token` says
    where its tokens come from."""

    mechanism: str
    username: str
    password: str
    token: TokenLogin | None = None
    by_token: bool = False
    """User and password are the id and the secret of a delegation token (KIP-48)."""

    def __repr__(self) -> str:
        return f"Credentials({self.username!r} by {self.mechanism})"


def sasl_settings(listener: str, layers: BrokerLayers) -> SaslSettings:
    """Return the settings of a listener with SASL. Raise `InvalidConfigError` for those that cannot work."""
    mechanisms = _value(listener, "", ENABLED, layers)
    assert isinstance(mechanisms, list)
    if not mechanisms:
        raise InvalidConfigError(f"{ENABLED}: listener {listener} has SASL, and no mechanism")
    for each in mechanisms:
        check_mechanism(f"{ENABLED} of listener {listener}", each)
    users: Mapping[str, str] = {}
    if PLAIN in mechanisms:
        key = jaas_key(listener, PLAIN)
        users = _login(listener, PLAIN, layers, f"holds the users of PLAIN on listener {listener}").users
        if any(not name or "\0" in name + text for name, text in users.items()):
            raise InvalidConfigError(f"{key}: a user has an empty name, or a zero byte in name or password")
    size = _value(listener, "", "sasl.server.max.receive.size", layers)
    assert isinstance(size, int)
    if size < 1:
        raise InvalidConfigError(f"sasl.server.max.receive.size: {size} of listener {listener} is below 1")
    tokens = None
    if OAUTHBEARER in mechanisms:
        login = _login(listener, OAUTHBEARER, layers, f"says which tokens listener {listener} accepts")
        tokens = token_rules(jaas_key(listener, OAUTHBEARER), login, _reader(listener, layers))
    return SaslSettings(listener, tuple(dict.fromkeys(mechanisms)), users,
                        {each: _reauth_ms(listener, each, layers) for each in mechanisms}, size, tokens)


def credentials(listener: str, mechanism_key: str, layers: BrokerLayers, fallback: str | None = None) -> Credentials:
    """Return the login to listeners of that name, with the mechanism that the setting `mechanism_key` names; where
    `listener` has none, that of the listener `fallback`. Raise `InvalidConfigError` without a usable one."""
    mechanism = str(broker_value(mechanism_key, layers).value)
    check_mechanism(mechanism_key, mechanism)
    if fallback is not None and not _jaas(listener, mechanism, layers) and _jaas(fallback, mechanism, layers):
        listener = fallback
    login = _login(listener, mechanism, layers, f"holds the user with which this node logs in to {listener}")
    if mechanism == OAUTHBEARER:
        token = token_login(jaas_key(listener, mechanism), login, _reader(listener, layers))
        return Credentials(mechanism, token.user, "", token)
    if not login.username or "password" not in login.options:
        raise InvalidConfigError(f"{jaas_key(listener, mechanism)}: has no username or no password, with which this "
                                 f"node logs in to listener {listener} of others")
    return Credentials(mechanism, login.username, login.password, by_token=login.by_token)


def check_mechanism(key: str, mechanism: str) -> None:
    """Raise `InvalidConfigError` for a mechanism that this version lacks."""
    if mechanism not in MECHANISMS:
        why = "Kerberos is not supported" if mechanism == KERBEROS else "is not known"
        raise InvalidConfigError(f"{key}: {mechanism!r} {why}; supported are {', '.join(MECHANISMS)}")


def check_of_listener(key: str, text: str) -> None:
    """Raise `InvalidConfigError` for a SASL setting of one listener whose value cannot work."""
    name = name_in(key)
    if name == ENABLED:
        for each in filter(None, map(str.strip, text.split(","))):
            check_mechanism(key, each)
    elif name == JAAS:
        mechanism = key.removesuffix(f".{JAAS}").rpartition(".")[2].upper()
        check_mechanism(key, mechanism)
        _checked(key, mechanism, text)


def jaas_key(listener: str, mechanism: str) -> str:
    """Return the key of a mechanism's login on a listener."""
    return f"{PREFIX}{listener.lower()}.{mechanism.lower()}.{JAAS}"


def _login(listener: str, mechanism: str, layers: BrokerLayers, purpose: str) -> Login:
    key = jaas_key(listener, mechanism)
    text = _jaas(listener, mechanism, layers)
    if not text:
        options = "" if mechanism == OAUTHBEARER else ' username="..." password="..."'
        raise InvalidConfigError(f"{key}: is missing; it {purpose}, as: {MODULES[mechanism]} required{options};")
    return _checked(key, mechanism, text)


def _jaas(listener: str, mechanism: str, layers: BrokerLayers) -> str:
    key = jaas_key(listener, mechanism)
    return str(resolve(replace(tables.broker_settings()[JAAS], name=key), ((key, 1),), layers).value or "")


def _checked(key: str, mechanism: str, text: str) -> Login:
    login = parse_login(key, text)
    if login.module != MODULES[mechanism]:
        raise InvalidConfigError(f"{key}: the module of {mechanism} is {MODULES[mechanism]}")
    return login


def _reauth_ms(listener: str, mechanism: str, layers: BrokerLayers) -> int:
    found = _value(listener, mechanism, "connections.max.reauth.ms", layers)
    assert isinstance(found, int)
    return max(found, 0)


def _reader(listener: str, layers: BrokerLayers) -> Callable[[str], Value]:
    """Return what reads a setting of OAUTHBEARER on a listener. One is of Kafka's clients only."""
    return lambda name: False if name == URL_ENCODE else _value(listener, OAUTHBEARER, name, layers)


def _value(listener: str, mechanism: str, name: str, layers: BrokerLayers) -> Value:
    prefix = f"{PREFIX}{listener.lower()}."
    names = (*([f"{prefix}{mechanism.lower()}.{name}"] if mechanism else []), f"{prefix}{name}", name)
    setting = replace(tables.broker_settings()[name], name=names[0])
    return resolve(setting, tuple((each, 1) for each in names), layers).value
