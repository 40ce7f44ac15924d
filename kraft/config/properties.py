"""A node's configuration file: Java properties with Kafka's keys.

Unknown keys are named, each with the nearest right one: a key that is spelled wrong would otherwise be a setting that
silently does not count. Keys that Kafka passes on to plug-ins (`listener.name.*`, `rsm.config.*` and so on) are kept.
"""

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from kraft.config import tables
from kraft.config.errors import InvalidConfigError
from kraft.config.setting import Value

PASSED_ON_PREFIXES: Final = ("listener.name.", "rlmm.config.", "rsm.config.", "config.providers.", "kafka.metrics.",
                             "confluent.", "org.apache.", "sasl.oauthbearer.")


def read_properties(path: Path) -> dict[str, str]:
    """The file's keys and values. Raises `InvalidConfigError` naming the file when it cannot be read as properties."""
    # Only here: it brings an HTTP client and a mail parser with it, which take longer to load than a node to start.
    import javaproperties

    try:
        text = path.read_text("utf-8")
        return dict(javaproperties.loads(text))
    except (OSError, UnicodeDecodeError, javaproperties.InvalidUEscapeError) as error:
        raise InvalidConfigError(f"config file {path}: {error}") from error


def parse_properties(texts: Mapping[str, str]) -> dict[str, Value]:
    """Values by key, every key and value checked. All that is wrong is told at once, in one `InvalidConfigError`."""
    settings = tables.broker_settings()
    values: dict[str, Value] = {}
    wrong: list[str] = []
    for key, text in texts.items():
        if setting := settings.get(key):
            try:
                values[key] = setting.parse(text)
            except InvalidConfigError as error:
                wrong.append(str(error))
        elif not key.startswith(PASSED_ON_PREFIXES):
            wrong.append(unknown(key, settings))
    if wrong:
        raise InvalidConfigError("\n".join(wrong))
    return values


def unknown(key: str, known: Iterable[str]) -> str:
    """Says that there is no setting `key`, with the nearest name that there is."""
    nearest = difflib.get_close_matches(key, list(known), n=1, cutoff=0.6)
    return f"unknown setting {key}" + (f"; did you mean {nearest[0]}?" if nearest else "")
