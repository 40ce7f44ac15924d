"""Layer rules: which module may import which, checked from the sources.

Compiled modules: the order is the table of `docs/internals/engine-modules.md`, read from there, so that there is one
list. A module reaches only modules above it, always by full name, and never `kraft`. Python packages: `PACKAGES` below.

`python -m tools.layers` prints every breach and ends with 1 when there is one.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tools.tree import ROOT, files

MODULE_TABLE = ROOT / "docs" / "internals" / "engine-modules.md"
TABLE_ROW = re.compile(r"^\| *[0-9]+ *\| *(?P<names>[^|]*)\|")

NATIVE = "kraft_native"
NATIVE_IMPORT = re.compile(
    r"^[ ]*(?:from\s+(?P<source>[\w.]+)\s+c?import\s*(?P<names>\([^)]*\)|[^\n#]*)|c?import\s+(?P<direct>[\w., ]+))",
    re.MULTILINE,
)


class Rule(NamedTuple):
    """Imports that one part of `kraft` may have: parts of kraft, and modules of `SYSTEM`. `ordered`: its results are
    the same in every process, so it has nothing whose order or value differs between processes."""

    kraft: tuple[str, ...] = ()
    system: tuple[str, ...] = ()
    ordered: bool = False


# Modules that reach for the clock, the scheduler, the network or processes. A part of kraft that may use none
# stays a pure function of its arguments.
SYSTEM = frozenset({
    "asyncio", "concurrent", "logging", "multiprocessing", "os", "random", "selectors", "signal", "socket",
    "subprocess", "threading", "time", "uvloop",
})

# Sets are walked in the order of their members' hashes, and those of texts, like `id`, differ from process to process:
# `dict.fromkeys` and tuples do the same job in order.
UNORDERED = frozenset({"frozenset", "hash", "id", "set"})

# Parts of kraft in order of trust: name -> what it may import. "" is `kraft/__init__.py`, "native" stands for
# `kraft_native`. A part that exists and is not listed is a breach: list it with the least it needs.
PACKAGES: dict[str, Rule] = {
    "_version": Rule(),
    "immutable": Rule(),
    "protocol": Rule(("native",)),
    "reading": Rule(("native",)),
    "errors": Rule(("native",)),
    "inputs": Rule(("native",)),
    "backup": Rule(("native",), ("os",)),
    "log": Rule(("backup", "inputs", "reading", "native"), ("asyncio", "os")),
    "cursors": Rule(("reading", "native"), ("os",)),
    "appender": Rule(("inputs", "log", "reading", "native"), ("asyncio", "concurrent", "os", "threading", "time")),
    "log_dir": Rule(("log", "reading", "native"), ("os", "threading")),
    "files": Rule(("native",), ("os",)),
    "": Rule(("_version", "appender", "cursors", "errors", "log", "log_dir", "reading", "native")),
    "config": Rule(("immutable", "native")),
    "raft": Rule(("immutable", "protocol", "native"), ordered=True),
    "recorder": Rule(("raft", "native"), ordered=True),
    "metadata": Rule(("immutable", "protocol", "native"), ordered=True),
    "controller": Rule(("immutable", "config", "metadata", "protocol", "native"), ordered=True),
    "broker": Rule(("immutable", "config", "log_dir", "metadata", "protocol", "native"), ordered=True),
    "runtime": Rule(("_version", "broker", "config", "controller", "immutable", "log", "log_dir", "metadata",
                     "protocol", "raft", "recorder", "native"),
                    ("asyncio", "concurrent", "logging", "os", "random", "signal", "socket", "threading", "time",
                      "uvloop")),
    "testing": Rule(("broker", "config", "controller", "immutable", "local", "metadata", "protocol", "raft", "runtime",
                     "native"),
                    ("multiprocessing", "random", "time"), ordered=True),
    "client": Rule(("_version", "protocol", "native"), ("random", "socket", "time")),
    "local": Rule(("", "client", "config", "log_dir", "metadata", "protocol", "raft", "runtime", "native"),
                  ("os", "signal", "socket", "subprocess", "threading", "time", "uvloop")),
    "spark": Rule(("_version", "client", "log", "log_dir", "protocol", "native"),
                  ("concurrent", "logging", "os", "subprocess", "threading", "time")),
    "load": Rule(("_version", "client", "protocol", "native"), ("os", "random", "socket", "threading", "time")),
    # `on_spark` and `spark_stream` alone import Spark.
    "pipeline": Rule(("client", "files", "load", "log", "log_dir", "metadata", "protocol", "recorder", "spark",
                      "native"),
                     ("concurrent", "os", "time")),
    "cli": Rule(("", "_version", "client", "config", "files", "load", "local", "log", "log_dir", "metadata", "pipeline",
                 "protocol", "raft", "reading", "recorder", "runtime", "spark", "testing", "native"),
                ("asyncio", "logging", "os", "signal", "time", "uvloop")),
    "__main__": Rule(("cli",)),
}


def native_order(text: str | None = None) -> list[str]:
    """Names of the compiled modules and headers, lowest first, as the table in the documentation lists them."""
    if text is None:
        text = MODULE_TABLE.read_text()
    names: list[str] = []
    for line in text.splitlines():
        if match := TABLE_ROW.match(line):
            names += re.findall(r"`(\w+)`", match["names"])
    return names


def native_imports(text: str) -> Iterator[tuple[int, str]]:
    """Every module that Cython source or a stub imports or cimports, as (line, dotted name)."""
    for match in NATIVE_IMPORT.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        if match["direct"]:
            for name in match["direct"].split(","):
                yield line, name.split()[0]
        elif match["source"] == NATIVE:
            for name in match["names"].strip("() \n").split(","):
                if name.strip():
                    yield line, f"{NATIVE}.{name.split()[0]}"
        else:
            yield line, match["source"]


def check_native(name: str, text: str, order: list[str]) -> Iterator[tuple[int, str]]:
    """Breaches in one file of the compiled core; `name` is the module's."""
    if name not in order:
        yield 1, f"{name} is not in the table of {MODULE_TABLE.name}"
        return
    for line, target in native_imports(text):
        package, _, module = target.partition(".")
        if package in ("", "kraft"):
            yield line, f"imports {target}: the compiled core names its own modules in full and never imports kraft"
        elif package == NATIVE and module not in order:
            yield line, f"imports {target}, which is not in the table of {MODULE_TABLE.name}"
        elif package == NATIVE and order.index(module) >= order.index(name) and module != name:
            yield line, f"imports {target}, which stands below it"


def python_imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every module that Python source imports, anywhere in it, as (line, dotted name)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                yield node.lineno, "." * node.level
            elif node.module in ("kraft", NATIVE):
                for alias in node.names:
                    yield node.lineno, f"{node.module}.{alias.name}"
            else:
                yield node.lineno, node.module or ""


def part_of(dotted: str) -> str:
    """The part of kraft that `kraft.x.y` belongs to; a name of kraft itself (`kraft.Log`) belongs to ""."""
    part = dotted.split(".")[1] if "." in dotted else ""
    exists = (ROOT / "kraft" / part).is_dir() or (ROOT / "kraft" / f"{part}.py").exists()
    return part if exists or part in PACKAGES else ""


def check_python(part: str, text: str) -> Iterator[tuple[int, str]]:
    """Breaches in one file of `kraft`; `part` is the first level of its name, "" for the package itself."""
    rule = PACKAGES.get(part)
    if rule is None:
        yield 1, f"kraft.{part} has no rule in tools/layers.py"
        return
    for line, target in python_imports(ast.parse(text)):
        top = target.split(".")[0]
        if not top:
            yield line, "a relative import: name the module in full"
        elif top in ("tools", "tests", "bench"):
            yield line, f"imports {target}, which is not part of the product"
        elif top == NATIVE and "native" not in rule.kraft:
            yield line, f"imports {target}: kraft.{part} may not use the compiled core"
        elif top == "kraft" and part_of(target) not in (*rule.kraft, part):
            yield line, f"imports {target}: kraft.{part} may import only {', '.join(rule.kraft) or 'nothing of kraft'}"
        elif top in SYSTEM and top not in rule.system:
            yield line, f"imports {target}: kraft.{part} may not use it"


def check_order(part: str, text: str) -> Iterator[tuple[int, str]]:
    """Breaches of `Rule.ordered` in one file of `kraft`."""
    rule = PACKAGES.get(part)
    if rule is None or not rule.ordered:
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Set | ast.SetComp):
            yield node.lineno, f"a set: kraft.{part} has none, because their order differs between processes"
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in UNORDERED:
            yield node.lineno, f"{node.id}: kraft.{part} may not use it, it differs between processes"


def module_names() -> list[str]:
    """Every importable module of the product, dotted."""
    names = []
    for path in files(ROOT / "kraft"):
        if path.suffix == ".py" and path.name != "__main__.py":
            parts = path.relative_to(ROOT).with_suffix("").parts
            names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    names += [f"{NATIVE}.{name}" for name in native_order() if (ROOT / NATIVE / f"{name}.pyx").exists()]
    return names


def breaches() -> Iterator[tuple[Path, int, str]]:
    """Every breach in the tree."""
    order = native_order()
    for path in files(ROOT / NATIVE):
        if path.suffix in (".pyx", ".pxd", ".pyi") and path.stem != "__init__":
            for line, what in check_native(path.stem, path.read_text(), order):
                yield path, line, what
    for path in files(ROOT / "kraft"):
        if path.suffix == ".py":
            parts = path.relative_to(ROOT / "kraft").with_suffix("").parts
            part, text = "" if parts[0] == "__init__" else parts[0], path.read_text()
            for check in (check_python, check_order):
                for line, what in check(part, text):
                    yield path, line, what


def main() -> int:
    broken = 0
    for path, line, what in breaches():
        broken += 1
        print(f"{path.relative_to(ROOT)}:{line}: {what}")
    print(f"layers: {len(native_order())} compiled modules, {len(PACKAGES)} parts of kraft, {broken} breaches")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
