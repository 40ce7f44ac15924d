"""`docs/kips.md` names the code and the tests of each rule of the specifications; all of these names exist.

So do the names of the core in `docs/internals/raft.md`. Scenarios quote what the specifications say.
"""

import ast
import functools
import re
from collections.abc import Container, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.golden import golden_root
from tools.tree import ROOT

DOCUMENT = ROOT / "docs" / "kips.md"
CORE_PAGE = ROOT / "docs" / "internals" / "raft.md"
SCENARIOS = ROOT / "tests" / "raft" / "scenarios"

SECTIONS = {
    "497": ("Status", "Motivation", "Public Interfaces", "Proposed Changes",
            "Compatibility, Deprecation, and Migration Plan", "Rejected Alternatives"),
}
"""Sections of the documents whose headings look like other lines."""

NO_HEADINGS = ("Current state", "Discussion thread", "JIRA", "Versions Compared", "Key")


class Row(NamedTuple):
    kip: str
    section: str
    rule: str
    code: str
    shown_by: str

    def __str__(self) -> str:
        return f"{self.kip} {self.section}: {self.rule}"


@functools.cache
def rows() -> list[Row]:
    found, kip = [], ""
    for line in DOCUMENT.read_text().splitlines():
        if line.startswith("## KIP-"):
            kip = line[7:].split(",")[0].split(" ")[0]
        elif line.startswith("|") and kip and not line.startswith(("| section ", "|---")):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            assert len(cells) == 4, line
            found.append(Row(kip, *cells))
    return found


def named(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


@functools.cache
def names_in(path: Path) -> frozenset[str]:
    """Names that a module defines: functions, classes, constants, and the members of its classes."""
    found = set()

    def walk(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found.add(prefix + node.name)
            if isinstance(node, ast.ClassDef):
                walk(node.body, f"{prefix}{node.name}.")
            targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(
                node, ast.AnnAssign) else []
            found.update(prefix + target.id for target in targets if isinstance(target, ast.Name))

    walk(ast.parse(path.read_text()).body, "")
    return frozenset(found)


def is_code(name: str) -> bool:
    """`raft.elections.handle_vote`, `raft.elections`, `kraft_native.partition.partition`."""
    parts = name.split(".")
    if parts[0] == "kraft_native":
        return len(parts) == 3 and any(ROOT.joinpath(*parts).with_suffix(suffix).is_file()
                                        for suffix in (".pyx", ".py"))
    for end in range(len(parts), 0, -1):
        path = ROOT.joinpath("kraft", *parts[:end])
        if path.with_suffix(".py").is_file():
            return end == len(parts) or ".".join(parts[end:]) in names_in(path.with_suffix(".py"))
        if path.is_dir() and end == len(parts):
            return True
    return False


def is_test(name: str) -> bool:
    """`add-voter.txt`, `raft/test_raft.py::test_figures`."""
    if name.endswith(".txt"):
        return (SCENARIOS / name).is_file()
    file, _, function = name.partition("::")
    path = ROOT / "tests" / file
    return path.is_file() and function.startswith("test_") and function in names_in(path)


def specifications() -> dict[str, str]:
    root = golden_root()
    found = sorted((root.parent / "kips").glob("kip-*.txt")) if root is not None else []
    return {path.name.split("-")[1]: path.read_text() for path in found}


needs_specifications = pytest.mark.skipif(not specifications(), reason="no specifications: set KRAFT_SHARED")


def headings(kip: str, text: str) -> list[str]:
    """Lines that look like a heading. KIP-595 is available as a list of changes, without any."""
    if kip in SECTIONS:
        return list(SECTIONS[kip])
    if kip == "595":
        return ["Note on Gridlocked Elections", "Note on Connection Discovery with Gossip"]
    lines = [line for line in text[:text.find("\nTime\n")].splitlines() if line == line.lstrip()]
    return [line.strip() for line in lines if re.fullmatch(r"[A-Z][^{}\"|]{0,105}[^\s.:;,{}\"|]", line.strip())
            and not line.startswith(NO_HEADINGS)]


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", text.replace("\u2019", "'").replace("\u201c", '"').replace("\u201d", '"'))


def test_there_are_rows() -> None:
    assert {row.kip for row in rows()} == {"497", "595", "631", "642", "996"}
    assert len(rows()) > 150


@pytest.mark.parametrize("row", rows(), ids=str)
def test_nothing_is_empty_and_everything_exists(row: Row) -> None:
    assert row.section
    assert row.rule
    assert named(row.code)
    assert [name for name in named(row.code) if not is_code(name)] == []
    assert named(row.shown_by)
    assert [name for name in named(row.shown_by) if not is_test(name)] == []


def test_every_scenario_is_listed() -> None:
    listed = {name for row in rows() for name in named(row.shown_by) if name.endswith(".txt")}
    assert sorted(listed) == sorted(path.name for path in SCENARIOS.glob("*.txt"))


def not_there(page: str) -> Iterator[str]:
    """Names on a page of the core that are no file, module, function, target of `make` or page."""
    targets = (ROOT / "Makefile").read_text()
    bases = [ROOT.joinpath(*parts) for parts in ((), ("kraft",), ("kraft", "raft"), ("kraft", "runtime"))]
    for name in named(page):
        if name.startswith("make "):
            is_there = f"\n{name.split()[1]}:" in targets
        elif name.endswith(".py") or "/" in name:
            is_there = any((base / name).exists() for base in bases)
        elif re.fullmatch(r"(kraft|Raft|[a-z_]+)(\.\w+)+", name):
            is_there = any(is_code(prefix + name.removeprefix("kraft.")) for prefix in ("", "raft.", "raft.raft."))
        else:
            continue
        if not is_there:
            yield name
    yield from (link for link in re.findall(r"\]\(([^)]+)\)", page) if not (CORE_PAGE.parent / link).is_file())


def test_the_page_of_the_core_names_every_module() -> None:
    page = CORE_PAGE.read_text().replace("```", "")
    assert list(not_there(page)) == []
    covered = {re.split(r"[./]", name.removesuffix(".py"))[-1] for name in named(page)}
    assert sorted({path.stem for path in (ROOT / "kraft" / "raft").glob("[a-z]*.py")} - covered) == []


def test_wrong_names_on_a_page_are_found() -> None:
    wrong = ["nothing.py", "kraft/nothing", "kraft.raft.nothing", "Raft.nothing", "roles.Nothing", "make nothing"]
    page = " ".join(f"`{name}`" for name in (*wrong, "net/peers.py", "Raft.lease", "make peer LEADER_KILLS=20"))
    assert list(not_there(f"{page} [page](nothing.md) [page](../kips.md)")) == [*wrong, "nothing.md"]


@needs_specifications
@pytest.mark.parametrize("kip", sorted(specifications()))
def test_no_section_is_left_out(kip: str) -> None:
    document = DOCUMENT.read_text()
    part = document[document.index(f"## KIP-{kip}"):].split("\n## ")[0]
    ruleless = re.search(r"Without a rule: (.*)\.\n", part)
    sections = [row.section for row in rows() if row.kip == kip]
    known = [*sections, *(ruleless[1].split(", ") if ruleless else ())]
    assert [heading for heading in headings(kip, specifications()[kip]) if heading not in known] == []


@needs_specifications
def test_quotations_are_what_the_specifications_say() -> None:
    texts = {kip: plain(text) for kip, text in specifications().items()}
    wrong = []
    for row in rows():
        for quotation in re.findall(r'(?<!\\)"((?:[^"\\]|\\.)+)"', row.rule):
            for piece in quotation.replace('\\"', '"').split(" [...] "):
                if plain(piece) not in texts[row.kip]:
                    wrong.append((row.kip, piece))
    assert wrong == []


SENTENCE_END = re.compile(r'(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<! vs\.)\s+(?=["(A-Z`0-9])')


def sentences(text: str) -> list[str]:
    """Whole sentences of a specification, in order; headings and cells of tables are sentences too."""
    cells = [cell.strip() for line in text.splitlines() for cell in plain(line).split("|")]
    parts = [part for cell in cells for part in SENTENCE_END.split(cell)]
    return [found for part in parts if (found := re.sub(r"^[\u2022\u25cf\u25aa\u2013-]\s*", "", part.strip()))]


def is_whole(quotation: str, found: list[str]) -> bool:
    """True when it is one sentence of `found`, or several that follow each other."""
    for first, sentence in enumerate(found):
        after = first + 1
        while len(sentence) < len(quotation) and after < len(found):
            sentence, after = f"{sentence} {found[after]}", after + 1
        if sentence == quotation:
            return True
    return False


@needs_specifications
def test_quotations_are_whole_sentences() -> None:
    """Half a sentence may say more, or less, than the whole one."""
    found = {kip: sentences(text) for kip, text in specifications().items()}
    cut = [(row.kip, piece) for row in rows() for quotation in re.findall(r'(?<!\\)"((?:[^"\\]|\\.)+)"', row.rule)
           for piece in quotation.replace('\\"', '"').split(" [...] ") if not is_whole(piece, found[row.kip])]
    assert cut == []


def test_half_a_sentence_is_found() -> None:
    found = sentences("One rule, e.g. this. Another | a cell\n\u2022 A point.")
    assert found == ["One rule, e.g. this.", "Another", "a cell", "A point."]
    assert is_whole("Another", found) and is_whole("One rule, e.g. this. Another", found)
    assert not is_whole("One rule", found) and not is_whole("this. Another", found)


def quotations(text: str, kips: Container[str]) -> Iterator[tuple[str, str]]:
    """Quotations in the comments of a scenario, each with its KIP: the one of `kips` that was named last before."""
    comments = " ".join(line[1:].strip() for line in text.splitlines() if line.startswith("#"))
    source = None
    for kip, quotation in re.findall(r'KIP-(\d+)|"([^"]+)"', comments):
        if kip in kips:
            source = kip
        for piece in quotation.split(" [...] ") if quotation and source else ():
            yield source, piece


@needs_specifications
@pytest.mark.parametrize("path", sorted(SCENARIOS.glob("*.txt")), ids=lambda path: path.stem)
def test_scenarios_quote_what_the_specifications_say(path: Path) -> None:
    """Titles of sections, too."""
    texts = {kip: plain(text) for kip, text in specifications().items()}
    wrong = [(kip, piece) for kip, piece in quotations(path.read_text(), texts) if plain(piece) not in texts[kip]]
    assert wrong == []


def test_quoted_words_are_found() -> None:
    text = '# Raft: "a". KIP-1, "b\n# c" (KIP-3): "d [...] e"; KIP-2: "f"\n\nquorum "1"\n----\n'
    assert list(quotations(text, ("1", "2"))) == [("1", "b c"), ("1", "d"), ("1", "e"), ("2", "f")]


def test_missing_words_are_not_found() -> None:
    assert not is_code("raft.elections.drive_nobody")
    assert not is_code("raft.nothing")
    assert not is_test("no-such-scenario.txt")
    assert not is_test("raft/test_raft.py::test_nothing")
