"""Settings of one listener: `listener.name.<listener>.<setting>`, with the listener's name in lower case.

Such a setting replaces the node's setting for its listener. Kafka has this for two kinds of settings. Those that secure
a listener: settings of TLS, and those of `OF_SASL`, may be set while the node runs, for one broker. Those of
`OF_ONE_LISTENER` may be set while the node runs, for one broker or for all.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from kraft.config import tables
from kraft.config.effective import BrokerLayers, Effective, resolve
from kraft.config.errors import InvalidConfigError, unknown
from kraft.config.setting import Setting
from kraft.config.unsupported import OF_JAVA, SASL, check_supported, is_of_sasl, is_supported_of_sasl

PREFIX: Final = "listener.name."
OF_ONE_LISTENER: Final = ("max.connections", "max.connection.creation.rate", "num.network.threads")
OF_TLS: Final = "ssl."
REAUTHENTICATION: Final = "connections.max.reauth.ms"
OF_SASL: Final = ("sasl.enabled.mechanisms", "sasl.jaas.config")
"""Settings of one listener that may be set while the node runs, the second one for one mechanism."""
_SECURING: Final = (REAUTHENTICATION, "principal.builder.class")


def listener_of(key: str) -> str:
    """Return the listener in a key that begins with `PREFIX`."""
    return key.removeprefix(PREFIX).partition(".")[0]


def check_listener_setting(key: str, text: str, settings: Mapping[str, Setting]) -> None:
    """Raise `InvalidConfigError` for a key or value that could not have its effect."""
    if (why := without_effect(key, text, settings)) is not None:
        raise InvalidConfigError(why)
    name = name_in(key)
    if (setting := settings.get(name)) is not None:
        try:
            check_supported(setting, setting.parse(text))
        except InvalidConfigError as error:
            raise InvalidConfigError(f"{key.removesuffix(name)}{error}") from None


def without_effect(key: str, text: str, settings: Mapping[str, Setting]) -> str | None:
    """Return why a key does nothing, whatever its value; None where it may have an effect. SASL's settings may have a
    mechanism before them, and settings that are not in the table."""
    name = name_in(key)
    setting = settings.get(name)
    if is_supported_of_sasl(name, text):
        return None
    if is_of_sasl(name) or name in OF_JAVA:
        is_default = not text or (setting is not None and setting.parse(text) == setting.default)
        return None if is_default else f"{key}: {OF_JAVA.get(name) or f'is not supported: {SASL}'}"
    if setting is None:
        prefix = f"{PREFIX}{listener_of(key)}."
        return unknown(key, (*OF_ONE_LISTENER, *_SECURING, *filter(_is_of_tls, settings)), prefix)
    if name not in OF_ONE_LISTENER and name not in _SECURING and not _is_of_tls(name):
        return f"{key}: {name} is a setting of the whole node, not of one listener"
    return None


def name_in(key: str) -> str:
    """Return the setting in a listener's key, without the listener and the mechanism of SASL."""
    name = key.removeprefix(f"{PREFIX}{listener_of(key)}.")
    if name.endswith(f".{REAUTHENTICATION}"):
        return REAUTHENTICATION
    _, of_mechanism, of_sasl = name.partition(".sasl.")
    return f"sasl.{of_sasl}" if of_mechanism else name


def base_of(key: str) -> str | None:
    """Return the setting in a key of one listener; None for any other key, and for a setting that no listener has."""
    if not key.startswith(PREFIX):
        return None
    name = key.removeprefix(f"{PREFIX}{listener_of(key)}.")
    if name in OF_ONE_LISTENER or (_is_of_tls(name) and name in tables.broker_settings()):
        return name
    return of_sasl if (of_sasl := name_in(key)) in OF_SASL else None


def _is_of_tls(name: str) -> bool:
    return name.startswith(OF_TLS)


def listener_keys(texts: Mapping[str, str]) -> Iterator[str]:
    """Return the keys that are settings of one listener."""
    return (key for key in texts if base_of(key) is not None)


def listener_value(key: str, layers: BrokerLayers) -> Effective:
    """Return the setting of one listener, which falls back to the node's."""
    name = base_of(key)
    assert name is not None, f"{key} is no setting of one listener"
    return resolve(replace(tables.broker_settings()[name], name=key), ((key, 1), (name, 1)), layers)


def effective_of(name: str, listener: str, layers: BrokerLayers) -> Effective:
    """Return a setting of one listener, given or not."""
    return listener_value(f"{PREFIX}{listener.lower()}.{name}", layers)


def of_listeners(name: str, layers: BrokerLayers) -> dict[str, int]:
    """Return the values in force of an integer setting, by listener, named as in `listeners`."""
    found = {}
    for key in dict.fromkeys(key for _source, texts in layers for key in listener_keys(texts) if base_of(key) == name):
        value = listener_value(key, layers).value
        assert isinstance(value, int), f"{name} is not a whole number"
        found[listener_of(key).upper()] = value
    return found
