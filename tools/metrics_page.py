"""`python -m tools.metrics_page` writes the table of `docs/metrics.md` from the names in the code."""

from kraft.runtime.metrics.names import markdown
from tools.tree import ROOT

PAGE = ROOT / "docs" / "metrics.md"
HEAD = "| metric |"


def main() -> None:
    text = PAGE.read_text()
    before, _, rest = text.partition(HEAD)
    _, _, after = rest.partition("\n\n")
    PAGE.write_text(before + markdown() + (f"\n{after}" if after else ""))


if __name__ == "__main__":
    main()
