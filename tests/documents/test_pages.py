"""Every code block of the documents does what it says: it runs as it stands, or is checked as far as possible.

A comment right before a block, which readers do not see, says how it runs: `not run: REASON`, `run by FILE`, `in the
background`, `in the background, until HOST:PORT answers`, or `ends with CODE`.
"""

import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

from kraft.cli.client_config import read_client_config
from kraft.config.properties import parse_properties, read_properties
from tests.documents import check, run
from tools.documents import FENCED, Block, blocks, pages
from tools.tree import ROOT

LANGUAGES: Final = frozenset(("sh", "python", "properties", "mermaid", "text"))
NOT_RUN_MAX: Final = 14
"""Blocks that need hours, another machine, or what a test must not do."""
SECONDS: Final = 280
RUN_IN_PROCESS: Final = frozenset((ROOT / "docs" / "engine.md",))
"""Pages whose examples `tests/kraft/test_examples.py` runs, which counts the objects that they leave."""
MARK: Final = re.compile(
    rf"(not run: .{{4,}}|run by (?P<file>\S+)|{run.BACKGROUND.pattern}|{run.EXIT_CODE.pattern})?")

ALL: Final = {page: list(blocks(page.read_text())) for page in pages()}
RUN: Final = [page for page, found in ALL.items() if page not in RUN_IN_PROCESS
              and any(run.is_run(block, language) for block in found for language in ("sh", "python"))]


def each(*languages: str) -> list[tuple[Path, Block]]:
    return [(page, block) for page, found in ALL.items() for block in found if block.language in languages]


def place(page: Path, block: Block) -> str:
    return f"{page.relative_to(ROOT)}:{block.line}"


@pytest.fixture
def sandbox() -> None:
    """Skip where the system refuses new namespaces, as inside of some containers."""
    done = subprocess.run([*run.SANDBOX, "mount", "-t", "tmpfs", "tmpfs", "/srv"], capture_output=True, text=True,
                          check=False)
    if done.returncode:
        pytest.skip(f"needs namespaces of its own: {done.stderr.strip()}")


def run_page(page: Path, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(run.command(page, home), cwd=ROOT, capture_output=True, text=True, timeout=SECONDS,
                          check=False)


@pytest.mark.pages
@pytest.mark.parametrize("page", RUN, ids=lambda page: str(page.relative_to(ROOT)))
@pytest.mark.usefixtures("sandbox")
def test_the_blocks_run(page: Path, tmp_path: Path) -> None:
    done = run_page(page, tmp_path)
    assert done.returncode == 0, f"{done.stdout[-3_000:]}\n{done.stderr[-3_000:]}"


def test_languages_and_marks() -> None:
    wrong = [f"{place(page, block)}: {what}" for page, found in ALL.items() for block in found
             for what in wrong_in(block)]
    assert not wrong, "\n".join(wrong)
    assert sum(text.count("\n```") for text in map(Path.read_text, ALL)) == 2 * sum(map(len, ALL.values()))


def test_no_code_hides_in_indentation() -> None:
    indented = [f"{page.relative_to(ROOT)}: {line}" for page in ALL
                for line in re.findall(r"\n\n    (\S.*)", FENCED.sub("", page.read_text()))]
    assert not indented, "\n".join(indented)


def wrong_in(block: Block) -> list[str]:
    mark = MARK.fullmatch(block.mark)
    return [what for what, is_wrong in (
        (f"the language {block.language!r}", block.language not in LANGUAGES),
        (f"the mark {block.mark!r}", mark is None),
        (f"{block.mark}: no such file", bool(mark and mark["file"] and not (ROOT / mark["file"]).exists())),
    ) if is_wrong]


def test_few_blocks_are_not_run() -> None:
    marked = [place(page, block) for page, block in each("sh", "python") if block.mark.startswith("not run:")]
    assert len(marked) <= NOT_RUN_MAX, marked


def test_blocks_that_other_tests_run_are_named_there() -> None:
    for page, block in each("sh", "python"):
        if block.mark.startswith("run by "):
            assert page.name in (ROOT / block.mark.removeprefix("run by ")).read_text(), place(page, block)


@pytest.mark.parametrize("language", ["sh", "mermaid", "python"])
def test_names_and_syntax(language: str) -> None:
    """Blocks that are not run, too: each target, module, command and option exists."""
    find = {"sh": check.faults, "mermaid": check.mermaid_faults, "python": check.python_faults}[language]
    found = [f"{place(page, block)}: {fault}" for page, block in each(language) for fault in find(block.code)]
    assert not found, "\n".join(found)


def test_samples_of_configuration(tmp_path: Path) -> None:
    """A node or a command reads each sample, and knows every key of it."""
    path = tmp_path / "sample.properties"
    found = each("properties")
    assert len(found) >= 2
    for page, block in found:
        path.write_text(block.code)
        if "bootstrap.servers" in block.code.split("=")[0]:
            assert read_client_config(path), place(page, block)
        else:
            parsed = parse_properties(read_properties(path))
            assert not parsed.ignored, place(page, block)


# --- the checks find what they are for --------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "error"), [
    ("# P\n\n```sh\ntrue\nfalse\n```\n", "line 5"),
    ("# P\n\n```sh\ncd nowhere\n```\n\n```sh\ntrue\n```\n", "line 4: cd: nowhere"),
    ("# P\n\n```python\nx = 1\n```\n\n```python\nassert x == 2\n```\n", "line 8"),
    ("# P\n\n<!-- ends with 1 -->\n```sh\ntrue\n```\n", "exit status 1"),
])
@pytest.mark.usefixtures("sandbox")
def test_a_block_that_fails_is_found(text: str, error: str, tmp_path: Path) -> None:
    page, home = tmp_path / "page.md", tmp_path / "home"
    page.write_text(text)
    home.mkdir()
    done = run_page(page, home)
    assert done.returncode != 0
    assert error in done.stdout + done.stderr


def test_blocks_of_a_page_share_one_shell() -> None:
    text = "# P\n\n<!-- in the background -->\n```sh\na\n```\n\n<!-- not run: no -->\n```sh\nb\n```\n"
    assert run.script(text).split("\n")[3:6] == ["{", "a", "} &"]
    assert "b" not in run.script(text)


@pytest.mark.parametrize(("code", "fault"), [
    ("make nothing", "no such target"), ("kraft topics creat x", "No such command"),
    ("kraft topics create x --partition 3", "No such option"), ("python -m tests.none", "no such module"),
    ("A=1 python -m pytest tests/none.py", "no tests/none.py"), ("true; make none  # make no", "no such target"),
])
def test_a_name_that_does_not_exist_is_found(code: str, fault: str) -> None:
    [found] = check.faults(code)
    assert fault in found


@pytest.mark.parametrize("code", [
    "pie\n a --> b", 'flowchart TB\n a["b --> c', "flowchart TB\n a[b --> c", "flowchart TB\n subgraph x\n a --> b",
])
def test_a_broken_diagram_is_found(code: str) -> None:
    assert list(check.mermaid_faults(code))
