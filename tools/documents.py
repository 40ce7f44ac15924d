"""The documents: pages, links, headings, code blocks, and the reading orders that the README gives.

`python -m tools.documents` prints every broken link as `path:line: what`, and ends with 1 when one exists. The site
(`make docs`) takes its navigation from here, the tests their code blocks.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tools.tree import ROOT

README: Final = ROOT / "README.md"
TOP_PAGES: Final = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")

FENCED = re.compile(
    r"^(?:<!-- (?P<mark>[^>]+) -->\n)?^```(?P<language>[^\n]*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
CODE_SPAN = re.compile(r"``.+?``|`[^`\n]+(?:\n[^`\n]+)?`")
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\((?P<target>[^()\s]+)\)")
HEADING = re.compile(r"^#+ (?P<title>.+)$", re.MULTILINE)
ORDER = re.compile(r"^(?P<caption>To \w+ it):\n\n(?P<items>(?:\d\. .*\n(?:   .*\n)*)+)", re.MULTILINE)


class Link(NamedTuple):
    """A link of a page, with its line."""

    line: int
    target: str


class Block(NamedTuple):
    """A fenced block of code. `line` is that of its first line of code, `mark` the comment right before it."""

    line: int
    language: str
    code: str
    mark: str


def pages() -> list[Path]:
    """All documents, in sorted order."""
    return [ROOT / name for name in TOP_PAGES] + sorted((ROOT / "docs").rglob("*.md"))


def without_code(text: str) -> str:
    """The text with blanks for all code; lines stay lines."""
    for pattern in (FENCED, CODE_SPAN):
        text = pattern.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), text)
    return text


def links(text: str) -> Iterator[Link]:
    plain = without_code(text)
    for found in LINK.finditer(plain):
        yield Link(plain.count("\n", 0, found.start()) + 1, found["target"])


def blocks(text: str) -> Iterator[Block]:
    for found in FENCED.finditer(text):
        yield Block(text.count("\n", 0, found.start("code")) + 1, found["language"], found["code"], found["mark"] or "")


def anchor(title: str) -> str:
    """The anchor of a heading, as the forges of git and MyST derive it."""
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")


def anchors(text: str) -> set[str]:
    """All anchors of a page. The second heading of a title has `-1` behind it, and so on."""
    found: dict[str, int] = {}
    hidden = FENCED.sub("", text)
    for heading in HEADING.finditer(hidden):
        name = anchor(heading["title"])
        found[name] = found.get(name, -1) + 1
    return {f"{name}-{number}" if number else name for name, count in found.items() for number in range(count + 1)}


def broken_links(page: Path, text: str) -> Iterator[tuple[int, str]]:
    """Relative links of a page whose file or anchor does not exist, as (line, what)."""
    for line, target in links(text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, fragment = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        if not path.is_file():
            yield line, f"{target}: no such file"
        elif not path.is_relative_to(ROOT):
            yield line, f"{target}: outside of the tree"
        elif fragment and path.suffix == ".md" and fragment not in anchors(text if path == page else path.read_text()):
            yield line, f"{target}: no such heading"


def reading_orders(readme: str) -> dict[str, list[str]]:
    """Caption -> pages, by their path from the root: the lists of the README under "Documents"."""
    return {order["caption"]: [link.target for link in links(order["items"])] for order in ORDER.finditer(readme)}


def navigation() -> dict[str, list[str]]:
    """Caption -> pages without suffix: the reading orders, then the pages that none of them names."""
    orders = reading_orders(README.read_text())
    named = {name for order in orders.values() for name in order}
    rest = [name for page in pages() if (name := str(page.relative_to(ROOT))) not in named and page != README]
    internals = [name for name in rest if name.startswith("docs/internals/")]
    more = [name for name in rest if name not in internals]
    return {caption: [name.removesuffix(".md") for name in dict.fromkeys(order)]
            for caption, order in {**orders, "More": more, "Internals": internals}.items()}


def main() -> int:
    broken = [f"{page.relative_to(ROOT)}:{line}: {what}" for page in pages()
              for line, what in broken_links(page, page.read_text())]
    print("".join(f"{each}\n" for each in broken), end="")
    print(f"documents: {len(pages())} pages, {len(broken)} broken links")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
