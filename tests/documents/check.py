"""Checks of code blocks without running them: of those that need hours or another machine, and of the languages that
are not run."""

import ast
import importlib.util
import re
import shlex
import warnings
from collections.abc import Iterator
from typing import Final

import click

from kraft.cli.command import kraft
from tools.tree import ROOT

SEPARATORS: Final = frozenset((";", "&&", "||", "|", "&", ">", "2>"))
DIAGRAMS: Final = ("flowchart", "sequenceDiagram", "stateDiagram-v2", "graph")
PAIRS: Final = {")": "(", "]": "[", "}": "{"}
TARGETS: Final = frozenset(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def commands(code: str) -> Iterator[list[str]]:
    """The simple commands of shell code, without comments, redirections and variables before them."""
    for line in code.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|>")
        lexer.whitespace_split = True
        command: list[str] = []
        for word in [*lexer, ";"]:
            if word in SEPARATORS:
                if command:
                    yield command
                command = []
            elif command or not re.match(r"[A-Z_]+=", word):
                command.append(word)


def faults(code: str) -> Iterator[str]:
    """Names that a command of ours uses and that do not exist: targets, modules, options, tests."""
    for command in commands(code):
        program, *arguments = command
        if program == "make":
            yield from (f"make {name}: no such target" for name in arguments
                        if "=" not in name and name not in TARGETS)
        elif program == "kraft":
            yield from kraft_faults(arguments)
        elif "-m" in arguments and program.endswith(("python", "$P")):
            yield from module_faults(arguments[arguments.index("-m") + 1:])


def kraft_faults(arguments: list[str]) -> Iterator[str]:
    """Errors of usage that `kraft` reports before it carries anything out."""
    group: click.Command = kraft
    try:
        while isinstance(group, click.Group):
            with group.make_context("kraft", list(arguments)) as context:
                _, found, arguments = group.resolve_command(context, [*context._protected_args, *context.args])
            assert found is not None
            group = found
        group.make_parser(click.Context(group)).parse_args(list(arguments))
    except click.UsageError as error:
        yield f"kraft {' '.join(arguments)}: {error.format_message()}"


def module_faults(arguments: list[str]) -> Iterator[str]:
    """Names behind `python -m`: the module, and files that the module gets."""
    module, *rest = arguments
    with warnings.catch_warnings(action="ignore"):     # the search for pip warns of a distutils that is loaded already
        found = importlib.util.find_spec(module)
    if found is None and module != "coverage":
        yield f"python -m {module}: no such module"
    for name in rest:
        if name.startswith(("tests/", "kraft_native/")) and not (ROOT / name).exists():
            yield f"python -m {module}: no {name}"


def mermaid_faults(code: str) -> Iterator[str]:
    """A diagram of a kind that exists, whose brackets, quotes and subgraphs are closed."""
    first, *lines = [line.strip() for line in code.splitlines() if line.strip()]
    if first.split()[0] not in DIAGRAMS:
        yield f"{first}: no such diagram"
    depth = 0
    for line in lines:
        if line.count('"') % 2:
            yield f"{line}: an open quote"
        opened: list[str] = []
        for sign in re.sub(r'"[^"]*"|[<ox]?[-=.]+>', "", line):
            if sign in PAIRS.values():
                opened.append(sign)
            elif sign in PAIRS and (not opened or opened.pop() != PAIRS[sign]):
                yield f"{line}: {sign!r} closes nothing"
        if opened:
            yield f"{line}: {opened[-1]!r} stays open"
        depth += line.startswith("subgraph") - (line == "end")
    if depth:
        yield f"{depth} open subgraphs"


def python_faults(code: str) -> Iterator[str]:
    try:
        ast.parse(code)
    except SyntaxError as error:
        yield f"line {error.lineno}: {error.msg}"
