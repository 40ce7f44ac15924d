"""Layer rules: which module may import which, checked from the sources.

Compiled modules: the package of a module is its layer. `NATIVE_PACKAGES` lists the packages that each one reaches. No
two modules of a package need each other, all names are full, and none imports `kraft`. Python packages: `PACKAGES`.

`python -m tools.layers` prints every breach and ends with 1 when there is one.
"""

import ast
import re
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from tools.tree import ROOT, files

NATIVE = "kraft_native"
NATIVE_IMPORT = re.compile(
    r"^[ ]*(?:from\s+(?P<source>[\w.]+)\s+c?import\s*(?P<names>\([^)]*\)|[^\n#]*)|c?import\s+(?P<direct>[\w., ]+))",
    re.MULTILINE,
)
NATIVE_SUFFIXES = (".pyx", ".pxd", ".py")

# Packages of the compiled core, lowest first, and the packages that the modules of each may reach beside their own. A
# package that exists and is not listed is a breach.
NATIVE_PACKAGES: dict[str, tuple[str, ...]] = {
    "base": (),
    "file": ("base",),
    "batch": ("base", "file"),
    "columns": ("base", "file", "batch"),
    "segment": ("base", "file", "batch"),
    "log": ("base", "file", "batch", "segment"),
    "compact": ("base", "file", "batch", "segment", "log"),
    "facade": ("base", "file", "batch", "segment", "log", "compact"),
    "request": ("base",),
    "partition": ("base", "file", "batch", "segment", "log", "facade", "request"),
    "serve": ("base", "file", "segment", "log", "request", "partition"),
    "share": ("base", "file", "batch", "log", "request", "partition", "serve"),
    "net": ("base", "file", "request"),
    "replica": ("base", "file", "batch", "segment", "request", "partition", "net"),
    "bench": ("base",),
}


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
    "deadlines": Rule(),
    "garbage": Rule(),
    "persistent_map": Rule(),
    "steps": Rule(),
    "structs": Rule(),
    "protocol": Rule(("native",)),
    "reading": Rule(("native",)),
    "errors": Rule(("native",)),
    "inputs": Rule(("native",)),
    "backup": Rule(("native",), ("os",)),
    "log": Rule(("backup", "inputs", "reading", "native"), ("asyncio", "os")),
    "cursors": Rule(("reading", "native"), ("os",)),
    "appender": Rule(("inputs", "log", "reading", "native"), ("concurrent", "os", "threading", "time")),
    "async_log": Rule(("appender", "inputs", "log", "reading", "native"), ("asyncio", "concurrent", "os")),
    "crashes": Rule(("native",), ("os", "random")),
    "log_dir": Rule(("log", "reading", "native"), ("os", "threading")),
    "files": Rule(("native",), ("os",)),
    "": Rule(("_version", "appender", "async_log", "cursors", "errors", "log", "log_dir", "reading", "native")),
    "config": Rule(("structs", "native")),
    "raft": Rule(("deadlines", "protocol", "structs", "native"), ordered=True),
    "recorder": Rule(("broker", "protocol", "raft", "structs", "native"), ordered=True),
    "metadata": Rule(("persistent_map", "protocol", "steps", "structs", "native"), ordered=True),
    "security": Rule(("config", "metadata", "persistent_map", "protocol", "steps", "structs", "native"),
                     ordered=True),
    "controller": Rule(("config", "deadlines", "metadata", "protocol", "security", "steps", "structs", "native"),
                       ordered=True),
    "broker": Rule(("config", "deadlines", "log_dir", "metadata", "protocol", "security", "steps", "structs",
                    "native"), ordered=True),
    "tls": Rule(("security", "structs", "native"), ("os",)),
    "oauth": Rule(("config", "security", "tls", "native"), ("logging", "os", "threading", "time")),
    "runtime": Rule(("_version", "broker", "config", "controller", "deadlines", "log", "log_dir", "metadata",
                     "oauth", "protocol", "raft", "recorder", "security", "steps", "structs", "tls", "native"),
                    ("asyncio", "concurrent", "logging", "os", "random", "signal", "socket", "threading", "time",
                      "uvloop")),
    # Its use of asyncio is on a loop of virtual time, which its simulator provides.
    "testing": Rule(("broker", "config", "controller", "deadlines", "local", "log_dir", "metadata", "protocol",
                     "raft", "recorder", "runtime", "steps", "structs", "native"),
                    ("asyncio", "logging", "multiprocessing", "random", "time"), ordered=True),
    "client": Rule(("_version", "config", "oauth", "protocol", "security", "tls", "native"), ("socket", "time")),
    "local": Rule(("", "client", "config", "log_dir", "metadata", "protocol", "raft", "runtime", "native"),
                  ("os", "signal", "socket", "subprocess", "threading", "time", "uvloop")),
    "spark": Rule(("_version", "client", "log", "log_dir", "protocol", "native"),
                  ("concurrent", "logging", "os", "subprocess", "threading", "time")),
    "load": Rule(("_version", "client", "protocol", "native"),
                 ("multiprocessing", "os", "random", "socket", "threading", "time")),
    # `on_spark` and `spark_stream` alone import Spark.
    "pipeline": Rule(("client", "files", "load", "log", "log_dir", "metadata", "protocol", "recorder", "spark",
                      "native"),
                     ("concurrent", "os", "time")),
    # `bucket` alone imports a library for buckets.
    "backups": Rule(("client", "log", "log_dir", "metadata", "protocol", "raft", "runtime", "native"),
                    ("concurrent", "os", "threading", "time")),
    "http_heads": Rule((), ("asyncio",)),
    # What reads metadata logs and flight recorders for it comes from the command (`kraft.console.sources`).
    "console": Rule(("client", "http_heads", "metadata", "protocol", "recorder", "security", "native"),
                    ("asyncio", "concurrent", "signal", "socket", "threading", "time")),
    # `server` alone runs a loop; librdkafka reads and writes in threads.
    "gateway": Rule(("_version", "client", "config", "http_heads", "protocol", "tls", "native"),
                    ("asyncio", "concurrent", "logging", "signal", "socket", "threading", "time")),
    "cli": Rule(("", "_version", "backups", "client", "config", "console", "files", "garbage", "gateway", "load",
                 "local", "log", "log_dir", "metadata", "pipeline", "protocol", "raft", "reading", "recorder",
                 "runtime", "security", "spark", "testing", "tls", "native"),
                ("asyncio", "logging", "os", "random", "signal", "time", "uvloop")),
    "__main__": Rule(("cli",)),
}

# Rooms of `kraft.runtime`, lowest first. A module may import its own room and earlier ones; those that are in no room
# may import all. A room that exists and is not listed is a breach.
ROOMS = ("base", "audit", "storage", "net", "quorum", "replicas", "upkeep", "stages", "metrics")


def native_sources() -> dict[str, list[Path]]:
    """Modules and headers of the core, `package.module`, with their files. A module without C types is Python."""
    found: dict[str, list[Path]] = {}
    for path in files(ROOT / NATIVE):
        if path.suffix in NATIVE_SUFFIXES and path.stem != "__init__":
            found.setdefault(".".join(path.relative_to(ROOT / NATIVE).with_suffix("").parts), []).append(path)
    return found


def native_graph() -> dict[str, list[str]]:
    """Compiled modules and headers, each with those that it reaches itself."""
    def reached(paths: list[Path]) -> set[str]:
        return {target.removeprefix(f"{NATIVE}.") for path in paths for _, target in native_imports(path.read_text())
                if target.startswith(f"{NATIVE}.")}

    return {name: sorted(reached(paths) - {name}) for name, paths in native_sources().items()}


def native_order(graph: dict[str, list[str]] | None = None) -> list[str]:
    """Names of the compiled modules and headers: each after all that it reaches."""
    graph = native_graph() if graph is None else graph
    order: dict[str, None] = {}

    def add(name: str, above: tuple[str, ...]) -> None:
        if name in order or name not in graph or name in above:
            return
        for target in graph[name]:
            add(target, (*above, name))
        order[name] = None

    ranks = {package: rank for rank, package in enumerate(NATIVE_PACKAGES)}
    for name in sorted(graph, key=lambda name: (ranks.get(name.split(".")[0], len(ranks)), name)):
        add(name, ())
    return list(order)


def native_cycles(graph: dict[str, list[str]]) -> list[str]:
    """Compiled modules that need themselves: no order exists for them."""
    order = native_order(graph)
    return [name for at, name in enumerate(order) if any(target in order[at:] for target in graph[name])]


def is_native_package(name: str) -> bool:
    """Return whether the names below this one are modules: the core itself, and each of its packages."""
    return name.partition(".")[0] == NATIVE and name.count(".") < 2


def native_imports(text: str) -> Iterator[tuple[int, str]]:
    """Every module that Cython source or a stub imports or cimports, as (line, dotted name)."""
    for match in NATIVE_IMPORT.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        if match["direct"]:
            for name in match["direct"].split(","):
                yield line, name.split()[0]
        elif is_native_package(match["source"]):
            for name in match["names"].strip("() \n").split(","):
                if name.strip():
                    yield line, f"{match['source']}.{name.split()[0]}"
        else:
            yield line, match["source"]


def check_native(name: str, text: str, modules: Collection[str]) -> Iterator[tuple[int, str]]:
    """Breaches in one file of the compiled core; `name` is the module's, `package.module`."""
    own = name.partition(".")[0]
    if own not in NATIVE_PACKAGES or name.count(".") != 1:
        yield 1, f"{name}: {own} is no package of NATIVE_PACKAGES in tools/layers.py"
        return
    for line, target in native_imports(text):
        top, _, module = target.partition(".")
        package = module.split(".")[0]
        if top in ("", "kraft"):
            yield line, f"imports {target}: the compiled core names its own modules in full and never imports kraft"
        elif top == NATIVE and module not in modules:
            yield line, f"imports {target}, which does not exist"
        elif top == NATIVE and package != own and package not in NATIVE_PACKAGES[own]:
            yield line, f"imports {target}: {own} may reach only {', '.join(NATIVE_PACKAGES[own]) or 'itself'}"


def python_imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every module that Python source imports, anywhere in it, as (line, dotted name)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                yield node.lineno, "." * node.level
            elif node.module == "kraft" or is_native_package(node.module or ""):
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


def check_rooms(module: str, text: str) -> Iterator[tuple[int, str]]:
    """Breaches of the order of `ROOMS` in one file of `kraft`; `module` is its dotted name below `kraft`."""
    names = module.split(".")
    if names[0] != "runtime" or len(names) < 3:
        return
    if names[1] not in ROOMS:
        yield 1, f"{module}: {names[1]} is no room of ROOMS in tools/layers.py"
        return
    known = ROOMS[:ROOMS.index(names[1]) + 1]
    for line, target in python_imports(ast.parse(text)):
        if f"{target}.".startswith("kraft.runtime.") and f"{target}.".split(".")[2] not in known:
            yield line, f"imports {target}: {module} may import only the rooms {', '.join(known)}"


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


def compiled_modules() -> list[str]:
    """Names of the compiled modules, `package.module`, each after all that it reaches."""
    return _with_suffix(".pyx")


def _with_suffix(suffix: str) -> list[str]:
    return [name for name in native_order() if (ROOT / NATIVE / name.replace(".", "/")).with_suffix(suffix).exists()]


def module_names() -> list[str]:
    """Every importable module of the product, dotted."""
    names = []
    for path in files(ROOT / "kraft"):
        if path.suffix == ".py" and path.name != "__main__.py":
            parts = path.relative_to(ROOT).with_suffix("").parts
            names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    names += [f"{NATIVE}.{name}" for name in (*compiled_modules(), *_with_suffix(".py"))]
    return names


def breaches() -> Iterator[tuple[Path, int, str]]:
    """Every breach in the tree."""
    sources, graph = native_sources(), native_graph()
    for name, paths in sources.items():
        for path in paths:
            for line, what in check_native(name, path.read_text(), graph):
                yield path, line, what
    for name in native_cycles(graph):
        yield sources[name][0], 1, f"{name} needs itself, through other modules"
    for path in files(ROOT / "kraft"):
        if path.suffix == ".py":
            parts = path.relative_to(ROOT / "kraft").with_suffix("").parts
            part, text = "" if parts[0] == "__init__" else parts[0], path.read_text()
            for line, what in check_rooms(".".join(parts), text):
                yield path, line, what
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
