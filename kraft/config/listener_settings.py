"""Settings of one listener: `listener.name.<listener>.<setting>`, with the listener's name in lower case.

There they count in place of the node's setting. Kafka has this for what secures a listener, which is refused here as
the node's own settings are, and for `OF_ONE_LISTENER`.
"""

from collections.abc import Mapping
from typing import Final

from kraft.config import tables
from kraft.config.errors import InvalidConfigError, unknown
from kraft.config.setting import Setting
from kraft.config.unsupported import FAMILIES, SECURITY, check_supported

PREFIX: Final = "listener.name."
OF_ONE_LISTENER: Final = ("max.connections", "max.connection.creation.rate", "num.network.threads")
_SECURING: Final = ("connections.max.reauth.ms", "principal.builder.class")


def listener_of(key: str) -> str:
    """The listener in a key that begins with `PREFIX`."""
    return key.removeprefix(PREFIX).partition(".")[0]


def check_listener_setting(key: str, text: str, settings: Mapping[str, Setting]) -> None:
    """Raises `InvalidConfigError` for a key or value that could not have its effect. SASL's settings may have a
    mechanism before them; TLS and SASL may have settings that are not in the table."""
    prefix = f"{PREFIX}{listener_of(key)}."
    name = key.removeprefix(prefix)
    _, of_mechanism, of_sasl = name.partition(".sasl.")
    name = f"sasl.{of_sasl}" if of_mechanism else name
    is_securing = name.startswith(tuple(FAMILIES)) or name in _SECURING
    setting = settings.get(name)
    if setting is None and is_securing:
        if text:
            raise InvalidConfigError(f"{key}: cannot be had: {SECURITY}")
    elif setting is None:
        raise InvalidConfigError(unknown(key, (*OF_ONE_LISTENER, *_SECURING), prefix))
    elif not is_securing and name not in OF_ONE_LISTENER:
        raise InvalidConfigError(f"{key}: {name} is a setting of the whole node, not of one listener")
    else:
        try:
            check_supported(setting, setting.parse(text))
        except InvalidConfigError as error:
            raise InvalidConfigError(f"{key.removesuffix(name)}{error}") from None


def of_listeners(name: str, texts: Mapping[str, str]) -> dict[str, int]:
    """What a node's file says of a setting that is a whole number, by listener, as `listeners` has their names."""
    found = {}
    for key, text in texts.items():
        if key.startswith(PREFIX) and key == f"{PREFIX}{(listener := listener_of(key))}.{name}":
            value = tables.broker_settings()[name].parse(text)
            assert isinstance(value, int), f"{name} is not a whole number"
            found[listener.upper()] = value
    return found
