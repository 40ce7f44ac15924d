"""House rules that can be counted: sizes of files and functions, width, tabs, banned words, titles, large files, bare
codes.

`python -m tools.tidy` prints every breach as `path:line: what` and ends with 1 when there is one. The rules and why
they exist are in `docs/style.md`.
"""

import ast
import re
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from tools.tree import ROOT, files

FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
COLUMNS_MAX = 120
FILE_BYTES_MAX = 200_000
LOCK_BYTES_MAX = 300_000
"""A lock has the digests of every file of each release."""

CODE_SUFFIXES = (".py", ".pyx", ".pxd", ".c", ".h")
TEXT_SUFFIXES = (*CODE_SUFFIXES, ".md", ".toml", ".txt", ".lock", ".cfg", ".xml", ".java", ".yml", ".in", ".sh")
TEXT_NAMES = ("Makefile", "LICENSE", "run", ".gitignore")

# Put together here, so that this file does not break its own rule.
BANNED_WORDS = tuple(first + second for first, second in (
    ("TO", "DO"), ("FIX", "ME"), ("X", "XX"), ("HA", "CK"), ("simpli", "fied"), ("NotImplemented", "Error"),
))
BANNED = re.compile(r"(?<![A-Za-z_])(" + "|".join(BANNED_WORDS) + r")(?![A-Za-z_])")

CYTHON_FUNCTION = re.compile(
    r"^(?P<indent> *)(?:async def|def|cdef|cpdef)\b(?!\s+(?:class|struct|union|enum|extern|packed)\b)",
)

Breach = tuple[int, str]
Check = Callable[[Path, str], Iterator[Breach]]


def check_file_lines(path: Path, text: str) -> Iterator[Breach]:
    """A file that outgrows the budget has two jobs: split it."""
    lines = text.count("\n")
    if path.suffix in CODE_SUFFIXES and lines > FILE_LINES_MAX:
        yield FILE_LINES_MAX + 1, f"{lines} lines in one file, {FILE_LINES_MAX} allowed"


def python_functions(text: str) -> Iterator[tuple[str, int, int]]:
    """Name, first line and last line of each function."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno, node.end_lineno or node.lineno


def signature_end(lines: list[str], start: int) -> int:
    """Index of the line on which the signature that begins at `start` closes its parentheses."""
    depth = 0
    for number in range(start, len(lines)):
        depth += lines[number].count("(") - lines[number].count(")")
        if depth <= 0:
            return number
    return len(lines) - 1


def cython_functions(text: str) -> Iterator[tuple[str, int, int]]:
    """Return the same as `python_functions` for Cython, by indentation.

    A body ends before the next line that is not deeper.
    """
    lines = text.splitlines()
    for number, line in enumerate(lines):
        match = CYTHON_FUNCTION.match(line)
        if match is None or "(" not in line:
            continue
        body = signature_end(lines, number)
        if not lines[body].split("#")[0].rstrip().endswith(":"):
            continue
        indent = len(match["indent"])
        last = body
        for later in range(body + 1, len(lines)):
            if lines[later].strip():
                if len(lines[later]) - len(lines[later].lstrip()) <= indent:
                    break
                last = later
        yield line.split("(")[0].split()[-1], number + 1, last + 1


def check_function_lines(path: Path, text: str) -> Iterator[Breach]:
    """A function fits on a screen."""
    if path.suffix == ".py":
        functions = python_functions(text)
    elif path.suffix in (".pyx", ".pxd"):
        functions = cython_functions(text)
    else:
        return
    for name, first, last in functions:
        if last - first + 1 > FUNCTION_LINES_MAX:
            yield first, f"{name} has {last - first + 1} lines, {FUNCTION_LINES_MAX} allowed"


def check_columns(path: Path, text: str) -> Iterator[Breach]:
    """Documents may hold wide tables; code may not."""
    if path.suffix not in CODE_SUFFIXES:
        return
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > COLUMNS_MAX:
            yield number, f"{len(line)} columns, {COLUMNS_MAX} allowed"


def check_whitespace(path: Path, text: str) -> Iterator[Breach]:
    """No tabs (a Makefile needs them), no carriage returns, no trailing blanks, one newline at the end."""
    for number, line in enumerate(text.split("\n"), 1):
        if "\t" in line and path.name != "Makefile":
            yield number, "a tab"
        if "\r" in line:
            yield number, "a carriage return"
        if line != line.rstrip(" \t"):
            yield number, "blanks at the end of the line"
    if text and (not text.endswith("\n") or text.endswith("\n\n")):
        yield text.count("\n") + 1, "the file must end with exactly one newline"


def check_banned_words(path: Path, text: str) -> Iterator[Breach]:
    """Unfinished work belongs into an issue, not into the tree."""
    for number, line in enumerate(text.split("\n"), 1):
        match = BANNED.search(line)
        if match and path.name != "LICENSE":
            yield number, f"the word {match[0]!r}"


def check_markdown_title(path: Path, text: str) -> Iterator[Breach]:
    """A document begins with its only title, and its headings go down one level at a time."""
    if path.suffix != ".md":
        return
    prose = re.sub(r"^```.*?^```", lambda block: "\n" * block[0].count("\n"), text, flags=re.MULTILINE | re.DOTALL)
    levels = [(number, len(match[1])) for number, line in enumerate(prose.split("\n"), 1)
              if (match := re.match(r"(#+) \S", line))]
    if not levels or levels[0] != (1, 1):
        yield 1, "a document begins with a line '# Title'"
    for (_, above), (number, level) in pairwise(levels):
        if level == 1:
            yield number, "a second title"
        elif level > above + 1:
            yield number, f"a heading of level {level} right below level {above}"


LOCK_ENTRY = re.compile(
    r"[a-z0-9][a-z0-9._-]*==[0-9][A-Za-z0-9.+!]*( ; [^\\]+)?( \\\n    --hash=sha256:[0-9a-f]{64})+\n|#[^\n]*\n")


def check_lock(path: Path, text: str) -> Iterator[Breach]:
    """A lock of Python names exact versions with the digests of their files and nothing else: no index, no links, no
    options."""
    if path.suffix != ".lock" or path.name == "Cargo.lock":
        return
    at = 0
    while at < len(text):
        entry = LOCK_ENTRY.match(text, at)
        if entry is None:
            line = text[at:].partition("\n")[0]
            yield text.count("\n", 0, at) + 1, f"not of the form name==version --hash=sha256:digest...: {line!r}"
        at = entry.end() if entry else at + len(line) + 1


# Names of values that are error codes or API keys.
CODES = re.compile(r"(?P<error>(.*_)?error_code)|(request_)?api_key")
GENERATED = ROOT / "kraft" / "protocol" / "messages"


def check_codes(path: Path, text: str) -> Iterator[Breach]:
    """An error code and an API key are written by name. Generated messages compare fields with their defaults."""
    if path.suffix != ".py" or GENERATED in path.parents:
        return
    if "error_code" not in text and "api_key" not in text:
        return
    for node in ast.walk(ast.parse(text)):
        for name, value in coded(node):
            number = whole_number(value)
            if number is not None and (found := CODES.fullmatch(name)):
                enum = ErrorCode if found["error"] else ApiKey
                yield from ((value.lineno, f"{name} {number}, which is {enum.__name__}.{member.name}")
                            for member in enum if member == number)


def whole_number(value: ast.expr) -> int | None:
    match value:
        case ast.Constant(value=int() as number):
            return None if isinstance(number, bool) else number
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as number)):
            return -number
    return None


def coded(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Names with the expressions that they get, or are compared with for equality, in this node alone."""
    match node:
        case ast.keyword(arg=str() as name, value=value):
            yield name, value
        case ast.arguments():
            defaults = [*zip(reversed((*node.posonlyargs, *node.args)), reversed(node.defaults), strict=False),
                        *zip(node.kwonlyargs, node.kw_defaults, strict=True)]
            yield from ((argument.arg, value) for argument, value in defaults if value is not None)
        case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
            yield from named(target, value)
        case ast.Compare():
            for left, operator, right in zip((node.left, *node.comparators), node.ops, node.comparators, strict=False):
                if isinstance(operator, ast.Eq | ast.NotEq | ast.In | ast.NotIn):
                    yield from named(left, right)
                    yield from named(right, left)


def named(left: ast.expr, right: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Names in `left`, each with its counterpart in `right`, element by element."""
    match left, right:
        case (ast.Attribute(attr=name) | ast.Name(id=name)), (ast.Tuple() | ast.List() | ast.Set()):
            yield from ((name, each) for each in right.elts)
        case (ast.Attribute(attr=name) | ast.Name(id=name)), _:
            yield name, right
        case (ast.Tuple() | ast.List()), (ast.Tuple() | ast.List()):
            for one, other in zip(left.elts, right.elts, strict=False):
                yield from named(one, other)
        case (ast.ListComp() | ast.SetComp() | ast.GeneratorExp()), (ast.Tuple() | ast.List() | ast.Set()):
            for each in right.elts:
                yield from named(left.elt, each)


TEXT_CHECKS: tuple[Check, ...] = (
    check_file_lines, check_function_lines, check_columns, check_whitespace, check_banned_words, check_markdown_title,
    check_lock, check_codes,
)


def is_text(path: Path) -> bool:
    return path.suffix in TEXT_SUFFIXES or path.name in TEXT_NAMES


def breaches(path: Path) -> Iterator[Breach]:
    """Every breach in one file, as (line, what)."""
    size, size_max = path.stat().st_size, LOCK_BYTES_MAX if path.suffix == ".lock" else FILE_BYTES_MAX
    if size > size_max:
        yield 1, f"{size} bytes in one file, {size_max} allowed"
    elif is_text(path):
        text = path.read_bytes().decode()
        for check in TEXT_CHECKS:
            yield from check(path, text)


def main() -> int:
    count = 0
    broken = 0
    for path in files():
        count += 1
        for line, what in sorted(breaches(path)):
            broken += 1
            print(f"{path.relative_to(ROOT)}:{line}: {what}")
    print(f"tidy: {count} files, {broken} breaches")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
