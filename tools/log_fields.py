"""Writes `log_fields` and `log_settings` of `kraft_native/segment`: one field for each setting that the engine uses.

`python -m tools.log_fields` writes what differs from `log_settings.json`; with `--check` it writes nothing and ends
with 1 when anything would.
"""

import json
import sys
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple

from tools.tree import ROOT

SEGMENT = ROOT / "kraft_native" / "segment"
HEAD = '''"""{what}

Made by tools/log_fields.py from log_settings.json: change that.
"""
'''


class Field(NamedTuple):
    """A setting with its type in C and in Python. `words` are the values of a text."""

    name: str
    c_type: str
    type: str
    words: tuple[str, ...] = ()

    @property
    def hint(self) -> str:
        return f"Literal[{', '.join(json.dumps(word) for word in self.words)}]" if self.words else self.type


def fields(sections: dict[str, list[dict[str, Any]]]) -> list[Field]:
    """Return the engine's settings in the order of their section."""
    facts = {fact["name"]: fact for name in ("topic", "broker") for fact in sections[name]}
    found = []
    for entry in sections["engine"]:
        default = facts.get(entry["name"], entry)["default"]
        name = entry["name"].replace(".", "_")
        if isinstance(default, float):
            found.append(Field(name, "double", "float"))
        elif isinstance(default, int):
            found.append(Field(name, "int64_t", "int"))
        else:
            found.append(Field(name, "str", "str", words(facts.get(entry["name"], entry))))
    return found


def words(fact: dict[str, Any]) -> tuple[str, ...]:
    """Return the values that a setting of words allows; a list has them in every order."""
    if "allowed" in fact:
        return tuple(fact["allowed"])
    single = fact["range"].strip("[]").split(", ")
    if fact["type"] != "list":
        return tuple(single)
    return tuple(",".join(each) for count in range(len(single)) for each in permutations(single, count + 1))


def module_text(found: list[Field]) -> str:
    lines = [f'        self.{field.name} = value["{field.name}"]' for field in found]
    return "\n".join((HEAD.format(what="Fields of the settings of one log."),
                      "cdef class LogFields:", "    cdef int fill(self, dict value) except -1:",
                      '        """Set each field to the value of its name."""', *lines, "        return 0", ""))


def header_text(found: list[Field]) -> str:
    lines = [f"    cdef readonly {field.c_type} {field.name}" for field in found]
    return "\n".join((HEAD.format(what="Fields of the settings of one log."),
                      "from libc.stdint cimport int64_t", "", "",
                      "cdef class LogFields:", *lines, "", "    cdef int fill(self, dict value) except -1", ""))


def types_text(found: list[Field]) -> str:
    return "\n".join((HEAD.format(what="The settings of one log, for type checkers."),
                      "from typing import Literal, TypedDict", "", "",
                      "class LogSettings(TypedDict, total=False):",
                      '    """The settings of `LogConfig` by name."""', "",
                      *(f"    {field.name}: {field.hint}" for field in found), ""))


def generated() -> dict[Path, str]:
    """Every generated file with its text."""
    found = fields(json.loads((SEGMENT / "log_settings.json").read_text("utf-8")))
    return {SEGMENT / "log_fields.pyx": module_text(found), SEGMENT / "log_fields.pxd": header_text(found),
            SEGMENT / "log_settings.py": types_text(found)}


def outdated(texts: dict[Path, str]) -> list[Path]:
    """Files that are missing or differ."""
    return [path for path, text in texts.items() if not path.exists() or path.read_text("utf-8") != text]


def main(arguments: list[str]) -> int:
    check = "--check" in arguments
    texts = generated()
    stale = outdated(texts)
    for path in stale:
        print(f"{path.relative_to(ROOT)}: {'outdated' if check else 'written'}")
        if not check:
            path.write_text(texts[path], "utf-8")
    print(f"settings of logs: {len(texts)} files, {len(stale)} outdated")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
