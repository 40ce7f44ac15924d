"""No setting passes silently: one that is accepted has its effect, or a notice says that it has none."""

import ast
from functools import cache
from pathlib import Path

import pytest

import kraft
from kraft.broker.log_settings import ENGINE_SETTINGS
from kraft.config import tables
from kraft.config.absent import KEPT
from kraft.config.node_config import NodeConfig
from kraft.config.unsupported import FAMILIES, REFUSED

# Modules that only list the settings.
LISTS = {"absent.py", "listener_settings.py", "setting.py", "tables.py", "unsupported.py"}


@cache
def named_in_code() -> frozenset[str]:
    """Return every text in the product's code, and the settings of the engine, without descriptions."""
    found = set(ENGINE_SETTINGS)
    top = Path(kraft.__file__).parent
    for path in top.rglob("*.py"):
        if path.name in LISTS or path.relative_to(top).parts[0] in ("cli", "protocol", "spark", "testing"):
            continue
        found.update(node.value for node in ast.walk(ast.parse(path.read_text("utf-8")))
                     if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return frozenset(found)


def is_refused(name: str) -> bool:
    setting = tables.broker_settings().get(name) or tables.section("topic").get(name)
    return name in REFUSED or name.startswith(tuple(FAMILIES)) or (setting is not None and setting.type == "class")


def is_read(section: str, name: str) -> bool:
    """True when it is read by its own name, or as a default or synonym of one that is."""
    names = {name}
    if section != "topic":
        for other in ("topic", "group"):
            names |= {setting.name for setting in tables.section(other).values()
                      if name in dict(setting.synonyms) and KEPT not in setting.documentation}
        names |= {first for first, all_names in tables.BROKER_SYNONYMS.items() if name in dict(all_names)}
        names |= {setting.name for setting in tables.section("topic").values() if names & set(dict(setting.synonyms))}
    return bool(names & named_in_code())


@pytest.mark.parametrize("section", ["topic", "broker", "broker_dynamic", "kraft", "group"])
def test_each_setting_is_read_or_refused_or_says_that_it_has_no_effect(section: str) -> None:
    silent, contradictory = [], []
    for name, setting in tables.section(section).items():
        kept = KEPT in setting.documentation
        if not kept and not is_refused(name) and not is_read(section, name):
            silent.append(name)
        if kept and (is_refused(name) or name in named_in_code()):
            contradictory.append(name)
    assert (silent, contradictory) == ([], [])


def test_a_setting_without_effect_causes_a_warning(tmp_path: Path) -> None:
    """This holds also for the default value: a reader of the file expects the setting to have an effect."""
    config = NodeConfig({"log.dirs": str(tmp_path), "num.io.threads": "16", "num.network.threads": "3",
                         "log.local.retention.ms": "7", "num.partitions": "4"})
    assert [setting.name for setting in config.without_effect] == ["num.io.threads", "num.network.threads",
                                                                   "log.local.retention.ms"]
