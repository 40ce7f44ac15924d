"""Configuration file of a node: Java properties with Kafka's keys.

A key without effect is ignored, as in Kafka, and named at the start with the reason. An unknown key is named with the
nearest right one. Keys that Kafka passes on to plug-ins (`rsm.config.*` and so on) are kept.

Settings of the quorum may also have the names of KIP-595, KIP-631 and KIP-642. Those are replaced where settings are
read; only Kafka's released names are used from there on.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from kraft.config import tables
from kraft.config.errors import InvalidConfigError, unknown
from kraft.config.ignored import removed
from kraft.config.listener_settings import PREFIX as LISTENER_PREFIX
from kraft.config.listener_settings import check_listener_setting, without_effect
from kraft.config.setting import Value
from kraft.config.unsupported import SASL, check_supported, is_of_sasl

PASSED_ON_PREFIXES: Final = ("rlmm.config.", "rsm.config.", "config.providers.", "kafka.metrics.",
                             "confluent.", "org.apache.", "sasl.oauthbearer.")
KIP_NAMES: Final[Mapping[str, str]] = MappingProxyType({
    "quorum.voters": "controller.quorum.voters",
    "bootstrap.quorum.voters": "controller.quorum.voters",
    "bootstrap.servers": "controller.quorum.bootstrap.servers",
    "controller.connect": "controller.quorum.bootstrap.servers",
    "quorum.fetch.timeout.ms": "controller.quorum.fetch.timeout.ms",
    "quorum.election.timeout.ms": "controller.quorum.election.timeout.ms",
    "quorum.election.jitter.max.ms": "controller.quorum.election.backoff.max.ms",
    "controller.listeners": "controller.listener.names",
    "controller.id": "node.id",
})
"""Released name of each."""
OLD_NAMES: Final[Mapping[str, str]] = MappingProxyType({"delegation.token.master.key": "delegation.token.secret.key"})
"""Current name of each setting that had another one in earlier versions of Kafka."""


def read_properties(path: Path) -> dict[str, str]:
    """Return the file's keys, by their released names, and values. Raise `InvalidConfigError` that names the file when
    it cannot be read as properties; also raises what `with_released_names` raises."""
    # Imported here only, because it imports an HTTP client and a mail parser, which take longer to load than a node to
    # start.
    import javaproperties

    try:
        texts = dict(javaproperties.loads(path.read_text("utf-8")))
    except (OSError, UnicodeDecodeError, javaproperties.InvalidUEscapeError) as error:
        raise InvalidConfigError(f"config file {path}: {error}") from error
    return with_released_names(texts)


def with_released_names(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the same texts with the KIPs' names, and old ones, replaced. Raise `InvalidConfigError` where two names of
    one setting have two values."""
    released: dict[str, str] = {}
    names: dict[str, str] = {}
    for key, text in texts.items():
        name = KIP_NAMES.get(key) or OLD_NAMES.get(key, key)
        if released.setdefault(name, text) != text:
            setting = tables.broker_settings().get(name)
            values = ["..."] * 2 if setting is not None and setting.sensitive else [released[name], text]
            raise InvalidConfigError(f"{names[name]}={values[0]} and {key}={values[1]} are one setting by two names; "
                                     "give one of them")
        names[name] = key
    return released


class Parsed(NamedTuple):
    """Values by key, and for the keys without effect the reason. `unknown`: those of them that are unknown."""

    values: dict[str, Value]
    ignored: dict[str, str]
    unknown: tuple[str, ...]


def parse_properties(texts: Mapping[str, str]) -> Parsed:
    """Check every key and value. All errors are reported at once, in one `InvalidConfigError`."""
    settings = tables.broker_settings()
    values: dict[str, Value] = {}
    ignored: dict[str, str] = {}
    foreign: list[str] = []
    wrong: list[str] = []
    for key, text in texts.items():
        try:
            if setting := settings.get(key):
                values[key] = setting.parse(text)
                if not is_of_sasl(key):    # `NodeConfig` knows whether a listener uses those of SASL
                    check_supported(setting, values[key])
            elif key.startswith(LISTENER_PREFIX):
                if why := without_effect(key, text, settings):
                    ignored[key] = why
                else:
                    check_listener_setting(key, text, settings)
            elif not key.startswith(PASSED_ON_PREFIXES):
                if is_of_sasl(key):
                    ignored[key] = f"{key}: {SASL}, and no listener that would use it"
                elif why := removed(key):
                    ignored[key] = f"{key}: {why}"
                else:
                    ignored[key] = unknown(key, settings)
                    foreign.append(key)
        except InvalidConfigError as error:
            wrong.append(str(error))
    if wrong:
        raise InvalidConfigError("\n".join(wrong))
    return Parsed(values, ignored, tuple(foreign))
