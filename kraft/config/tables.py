"""Tables of settings, read once from `settings.json` (facts) and `documentation.txt` (what each setting does).

Facts are Kafka's: names, types, defaults, ranges. Texts are kraft's. The section `kraft` holds settings that Kafka's
table does not have. The facts about settings of logs are in the engine's `log_settings.json`, and nowhere else.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, Final

from kraft import config
from kraft.config.absent import absence
from kraft.config.setting import Setting
from kraft_native import segment

SECTIONS: Final = ("topic", "broker", "broker_dynamic", "kraft", "group", "client_metrics", "client_quota", "ip_quota")

# Broker settings that are one setting in several units: the first that is set wins.
BROKER_SYNONYMS: Final[Mapping[str, tuple[tuple[str, int], ...]]] = MappingProxyType({
    "log.flush.interval.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
    "log.retention.ms": (("log.retention.ms", 1), ("log.retention.minutes", 60_000),
                         ("log.retention.hours", 3_600_000)),
    "log.roll.ms": (("log.roll.ms", 1), ("log.roll.hours", 3_600_000)),
    "log.roll.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", 3_600_000)),
})


@cache
def section(name: str) -> Mapping[str, Setting]:
    """Return the settings of one section by name, in the order of the names."""
    assert name in SECTIONS, name
    texts = _documentation()
    found = {}
    for fact in sorted(_facts()[name], key=lambda fact: str(fact["name"])):
        synonyms = tuple(_synonym(entry) for entry in fact.get("synonyms", ()))
        text = texts[name].get(fact["name"]) or _borrowed(texts, name, fact["name"], synonyms)
        text += absence(name, fact["name"])
        found[fact["name"]] = Setting(
            name=fact["name"], type=fact["type"], default=fact.get("default"), range=fact.get("range", ""),
            importance=fact["importance"], update=fact.get("update", ""), synonyms=synonyms,
            internal=fact.get("internal", False), documentation=text, refused=tuple(fact.get("refused", ())),
            feeds=_feeds(fact["name"]) if name == "broker" else (),
        )
    return MappingProxyType(found)


@cache
def broker_settings() -> Mapping[str, Setting]:
    """Return everything that a node's file or a dynamic broker setting may name."""
    return MappingProxyType({**section("broker"), **section("broker_dynamic"), **section("kraft")})


def _feeds(broker_name: str) -> tuple[tuple[Setting, int], ...]:
    """Return the topic settings that fall back to a broker's, each with its factor."""
    return tuple((setting, factor) for setting in section("topic").values()
                 for name, factor in setting.synonyms if name == broker_name)


def _synonym(entry: Any) -> tuple[str, int]:
    return (entry, 1) if isinstance(entry, str) else (entry[0], entry[1])


@cache
def _facts() -> dict[str, list[dict[str, Any]]]:
    facts: dict[str, list[dict[str, Any]]] = json.loads(_read(config, "settings.json"))
    of_logs = json.loads(_read(segment, "log_settings.json"))
    return {name: [*facts.get(name, ()), *of_logs.get(name, ())] for name in SECTIONS}


@cache
def _documentation() -> dict[str, dict[str, str]]:
    texts: dict[str, dict[str, str]] = {name: {} for name in SECTIONS}
    current = ""
    last = ""
    for line in _read(config, "documentation.txt").splitlines():
        if line.startswith("["):
            current = line.strip("[]")
        elif line.startswith("  "):
            texts[current][last] += " " + line.strip()
        elif line and not line.startswith("#"):
            last, _, text = line.partition(": ")
            texts[current][last] = text
    return texts


def _borrowed(texts: dict[str, dict[str, str]], name: str, setting: str, synonyms: tuple[tuple[str, int], ...]) -> str:
    """Return the text of a setting that has none: a broker's default uses the topic's, a group's setting its
    default's."""
    if name == "broker":
        for fact in _facts()["topic"]:
            if setting in dict(map(_synonym, fact.get("synonyms", ()))):
                return f"Default of the topic setting {fact['name']}. {texts['topic'][fact['name']]}"
    for synonym, _factor in synonyms:
        if text := texts["broker"].get(synonym):
            return text
    raise LookupError(f"{setting}: documentation.txt has no text for it in [{name}]")


def _read(package: ModuleType, name: str) -> str:
    """Return the text of a file in a package. `importlib.resources` would read it with a hundred more modules."""
    assert package.__file__ is not None
    return Path(package.__file__).with_name(name).read_text("utf-8")
