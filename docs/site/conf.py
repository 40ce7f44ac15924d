"""Configuration of the documentation site: `make docs` writes it to build/site, and fails on every warning.

The pages are the Markdown files of the repository as they are. A link to a file that is no page becomes a download.
"""

import runpy
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from tools.documents import navigation  # noqa: E402

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "kraft"
release = runpy.run_path(str(ROOT / "kraft" / "_version.py"))["__version__"]    # without the compiled core
root_doc = "README"
include_patterns = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/**"]
exclude_patterns = [".*", "*.egg-info", "bench", "build", "kraft", "kraft_native", "pyspark_kraft", "tests", "tools"]
source_suffix = {".md": "markdown"}

extensions = ["myst_parser", "sphinxcontrib.mermaid"]
myst_heading_anchors = 6
myst_fence_as_directive = ["mermaid"]
nitpicky = True

html_theme = "furo"
html_title = f"kraft {release}"
html_copy_source = False
html_show_copyright = False


def add_navigation(_: "Sphinx", docname: str, content: list[str]) -> None:
    """Append the navigation to the root page, so that the README needs no syntax of the generator."""
    if docname == root_doc:
        content[0] += "".join(f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(names) + "\n```\n"
                              for caption, names in navigation().items())


def write_index(app: "Sphinx", error: Exception | None) -> None:
    """Serve the root page at the address of the site, too."""
    if error is None and app.builder.format == "html":
        shutil.copyfile(Path(app.outdir, f"{root_doc}.html"), Path(app.outdir, "index.html"))


def setup(app: "Sphinx") -> None:
    app.connect("source-read", add_navigation)
    app.connect("build-finished", write_index)
