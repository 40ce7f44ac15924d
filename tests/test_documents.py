"""Every relative link of the documents resolves, anchors included, and the navigation leads to every page."""

from pathlib import Path

import pytest

from tools.documents import README, anchors, blocks, broken_links, links, navigation, pages, reading_orders
from tools.tree import ROOT

TEXT = """# A page

[a](README.md) and `[b](none.md)`, [c](#a-page)

```sh
echo [d](none.md)
```

<!-- not run: needs a disk -->
```python
x = 1
```

## It's `code`, twice

## It's `code`, twice
"""


def test_every_link_resolves() -> None:
    broken = [f"{page.relative_to(ROOT)}:{line}: {what}" for page in pages()
              for line, what in broken_links(page, page.read_text())]
    assert not broken, "\n".join(broken)


def test_the_pages_are_seen() -> None:
    assert len(pages()) > 30
    assert sum(len(list(links(page.read_text()))) for page in pages()) > 80


def test_links_and_anchors() -> None:
    assert [(link.line, link.target) for link in links(TEXT)] == [(3, "README.md"), (3, "#a-page")]
    assert anchors(TEXT) == {"a-page", "its-code-twice", "its-code-twice-1"}


def test_blocks() -> None:
    assert list(blocks(TEXT)) == [(6, "sh", "echo [d](none.md)\n", ""),
                                  (11, "python", "x = 1\n", "not run: needs a disk")]


@pytest.mark.parametrize(("target", "what"), [
    ("none.md", "no such file"), ("docs", "no such file"), ("CHANGELOG.md#none", "no such heading"),
    ("#none", "no such heading"), ("docs/../../etc.md", "no such file"),
])
def test_a_broken_link_is_found(target: str, what: str) -> None:
    text = f"# A page\n\nSee [this]({target}).\n"
    assert list(broken_links(README, text)) == [(3, f"{target}: {what}")]


def test_good_links() -> None:
    text = "# A page\n\n[a](#a-page) [b](CHANGELOG.md#changelog) [c](setup.py) [d](https://example.org/x)\n"
    assert list(broken_links(README, text)) == []
    assert list(broken_links(Path(ROOT, "docs", "node.md"), "# N\n\n[a](../README.md)\n")) == []


def test_the_navigation_has_every_page() -> None:
    orders = reading_orders(README.read_text())
    assert list(orders) == ["To use it", "To run it", "To change it"]
    assert all(len(order) >= 4 for order in orders.values())
    named = [f"{name}.md" for names in navigation().values() for name in names]
    assert sorted([*named, README.name]) == sorted(str(page.relative_to(ROOT)) for page in pages())
