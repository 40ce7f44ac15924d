"""The files of the source tree: everything that is ours, nothing that a build or a test run made."""

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Directories that hold made things, by name, at any depth.
MADE_DIRECTORIES = frozenset({
    ".benchmarks", ".cache", ".git", ".hypothesis", ".idea", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".venv",
    "__pycache__", "build", "dist", "htmlcov", "out", "target",
})
MADE_SUFFIXES = frozenset({".so", ".pyc", ".html", ".egg-info"})


def is_made(path: Path) -> bool:
    """True for what a build writes: extensions, annotated HTML, and the C and the type stub beside a `.pyx`."""
    return path.suffix in MADE_SUFFIXES or (path.suffix in (".c", ".pyi") and path.with_suffix(".pyx").exists())


def files(top: Path = ROOT) -> Iterator[Path]:
    """Source files below `top`, in sorted order. Uses no version control, so that it works in an unpacked archive."""
    for path in sorted(top.iterdir()):
        if path.is_symlink() or (path.is_dir() and path.name in MADE_DIRECTORIES) or is_made(path):
            continue
        if path.is_dir():
            yield from files(path)
        elif path.name != ".git":
            yield path
