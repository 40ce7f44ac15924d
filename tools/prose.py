"""The prose of a source file: documents, docstrings, comments, messages, and the words in identifiers.

Each piece is a `Prose` with its line. Code inside of prose (between backquotes, in fenced blocks, indented behind `::`)
is replaced by one neutral word, so that a sentence keeps its shape.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Literal, NamedTuple

Kind = Literal["document", "docstring", "comment", "message", "identifier"]

CODE_WORD: Final = "CODE"
"""Stands for a piece of code in prose: one word, and a noun."""
CYTHON_SUFFIXES: Final = (".pyx", ".pxd")
C_SUFFIXES: Final = (".c", ".h")
PYTHON_SUFFIXES: Final = (".py",)

FENCE = re.compile(r"^```.*?^```[^\n]*", re.MULTILINE | re.DOTALL)
HTML_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
SPAN = re.compile(r"``.+?``|`[^`\n]+(?:\n[^`\n]+)?`")
LINK_TARGET = re.compile(r"(?<=\])\([^)\s]*\)|<?https?://\S+")
LIST_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+")
TABLE_RULE = re.compile(r"[\s|:-]+")
IDENTIFIER = re.compile(r"\b[A-Za-z_][A-Za-z0-9_]*\b")
CYTHON_TOKEN = re.compile(
    r'(?P<long>[a-zA-Z]{0,2}"""(?:\\.|[^\\])*?"""|[a-zA-Z]{0,2}\'\'\'(?:\\.|[^\\])*?\'\'\')'
    r'|(?P<short>[a-zA-Z]{0,2}"(?:\\.|[^"\\\n])*"|[a-zA-Z]{0,2}\'(?:\\.|[^\'\\\n])*\')'
    r'|(?P<comment>\#[^\n]*)', re.DOTALL)
C_TOKEN = re.compile(
    r'(?P<long>(?!))|(?P<short>"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\')|(?P<comment>/\*.*?\*/|//[^\n]*)', re.DOTALL)
PLACEHOLDER = re.compile(r"\{[^{}]*\}|%[-0-9.]*[a-z]")


class Prose(NamedTuple):
    """A piece of prose, or one identifier."""

    line: int
    kind: Kind
    text: str
    opens: bool = False
    """True for the first paragraph of a docstring."""


def without_code(text: str) -> str:
    """The text with each piece of code as one word; lines stay lines."""
    text = SPAN.sub(lambda span: CODE_WORD + "\n" * span[0].count("\n"), text)
    return LINK_TARGET.sub("", text)


def document(text: str) -> Iterator[Prose]:
    """Paragraphs, headings, list items and table cells of a Markdown text."""
    for hidden in (FENCE, HTML_COMMENT):
        text = hidden.sub(lambda block: "\n" * block[0].count("\n"), text)
    paragraph: list[str] = []
    first = 1
    for number, line in enumerate([*without_code(text).split("\n"), ""], 1):
        is_own = line.startswith(("#", "|", ">"))
        if paragraph and (not line.strip() or is_own or LIST_ITEM.match(line)):
            yield Prose(first, "document", " ".join(paragraph))
            paragraph = []
        if line.startswith("|"):
            if not TABLE_RULE.fullmatch(line):
                yield from (Prose(number, "document", cell.strip()) for cell in line.split("|") if cell.strip())
        elif line.strip():
            first = first if paragraph else number
            paragraph.append(LIST_ITEM.sub("", line, count=1).strip("# "))
            if line.startswith("#"):
                yield Prose(number, "document", paragraph.pop())


def python(text: str) -> Iterator[Prose]:
    """Docstrings (strings that are statements), comments, other strings with a blank in them, and names."""
    statements = {node.value.lineno for node in ast.walk(ast.parse(text))
                  if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
                  and isinstance(node.value.value, str)}
    names = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        line = token.start[0]
        if token.type == tokenize.STRING and line in statements:
            yield from blocks(line, "docstring", literal(token.string))
        elif token.type == tokenize.STRING and " " in token.string:
            yield Prose(line, "message", PLACEHOLDER.sub(CODE_WORD, literal(token.string)))
        elif token.type == tokenize.NAME and token.string not in names:
            names.add(token.string)
            yield Prose(line, "identifier", token.string)
    yield from comments(Comment(token.start[0], token.start[1], token.string, bool(token.line[:token.start[1]].strip()))
                        for token in tokenize.generate_tokens(io.StringIO(text).readline)
                        if token.type == tokenize.COMMENT)


def compiled(text: str, tokens: re.Pattern[str]) -> Iterator[Prose]:
    """The same of Cython and C, by a scan for strings and comments."""
    found = []
    rest = list(text)
    for match in tokens.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        column = match.start() - text.rfind("\n", 0, match.start()) - 1
        rest[match.start():match.end()] = (c if c == "\n" else " " for c in match[0])
        if match["comment"] is not None:
            is_behind = bool(text[match.start() - column:match.start()].strip())
            found.append(Comment(line, column, match[0], is_behind))
        elif match["long"] is not None and not text[match.start() - column:match.start()].strip():
            yield from blocks(line, "docstring", literal(match[0]))
        elif " " in match[0]:
            yield Prose(line, "message", PLACEHOLDER.sub(CODE_WORD, literal(match[0])))
    names = set()
    for number, line_text in enumerate("".join(rest).split("\n"), 1):
        for name in IDENTIFIER.findall(line_text):
            if name not in names:
                names.add(name)
                yield Prose(number, "identifier", name)
    yield from comments(found)


def literal(source: str) -> str:
    """Text between the quotes of a string."""
    body = source.lstrip("rRbBfFuU")
    quote = body[:3] if body[:3] in ('"""', "'''") else body[:1]
    return body[len(quote):-len(quote)]


class Comment(NamedTuple):
    line: int
    column: int
    text: str
    is_behind_code: bool


def comments(tokens: Iterable[Comment]) -> Iterator[Prose]:
    """Pieces of comments: lines that begin in one column are one piece, unless code stands before them."""
    run: list[str] = []
    first = column = 0
    for line, at, text, is_behind_code in [*tokens, Comment(-1, -1, "", False)]:
        if run and (line != first + len(run) or at != column or is_behind_code or "\n" in text):
            yield from blocks(first, "comment", "\n".join(run))
            run = []
        if "\n" in text or text.startswith("/*"):
            yield from blocks(line, "comment", re.sub(r"^[ /*]+|[ /*]+$", "", text, flags=re.MULTILINE))
        elif line > 0:
            if not run:
                first, column = line, at
            run.append(text.lstrip("#/ ").rstrip())


def blocks(line: int, kind: Kind, text: str) -> Iterator[Prose]:
    """Paragraphs and list items of a docstring or comment. Blocks of code (deeper behind `::`, or tables in ASCII) are
    left out."""
    for index, (number, block) in enumerate(numbered_paragraphs(line, without_code(text))):
        if not re.search(r"  \S+  |[|+]--|-->|<--", block):
            yield Prose(number, kind, " ".join(block.split()), kind == "docstring" and index == 0)


def numbered_paragraphs(line: int, text: str) -> Iterator[tuple[int, str]]:
    paragraph: list[str] = []
    first = line
    for number, each in enumerate([*text.split("\n"), ""], line):
        if paragraph and (not each.strip() or LIST_ITEM.match(each)):
            yield first, "\n".join(paragraph)
            paragraph = []
        if each.strip():
            first = first if paragraph else number
            paragraph.append(LIST_ITEM.sub("", each, count=1))


def prose(path: Path, text: str) -> Iterator[Prose]:
    """Everything in one file that somebody reads; nothing for files of other kinds."""
    if path.suffix == ".md":
        yield from document(text)
    elif path.suffix in PYTHON_SUFFIXES:
        yield from python(text)
    elif path.suffix in CYTHON_SUFFIXES:
        yield from compiled(text, CYTHON_TOKEN)
    elif path.suffix in C_SUFFIXES:
        yield from compiled(text, C_TOKEN)


SENTENCE_END = re.compile(r"(?<=[.!?])[\"')]*\s+(?=[A-Z0-9\"'(*_])")


def sentences(text: str) -> list[str]:
    return [each for each in SENTENCE_END.split(text) if each.strip()]


def words(sentence: str) -> int:
    """Words of a sentence; signs that stand alone are none."""
    return sum(any(c.isalnum() for c in word) for word in sentence.split())


def identifier_words(name: str) -> list[str]:
    """Words of a name: `lastOffset` and `last_offset` have two."""
    return [each.lower() for each in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]
