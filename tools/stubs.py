"""Type stubs of the compiled modules, `x.pyi` beside `x.pyx`: made by every build, and checked against the modules.

`python -m tools.stubs` writes what differs from the sources, then runs mypy's stubtest over all of them.
"""

import ast
import subprocess
import sys
from pathlib import Path

from tools import stub_text
from tools.tree import ROOT

NATIVE = "kraft_native"
ALLOWLIST = ROOT / "tools" / "stub_allowlist.txt"


def sources() -> list[Path]:
    """Return the `.pyx` of every compiled module."""
    return sorted((ROOT / NATIVE).glob("*/*.pyx"))


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def homes() -> dict[str, str]:
    """Return the module of each class of the core, and of each type of its Python modules, by name."""
    found: dict[str, str] = {}
    for path in sorted((ROOT / NATIVE).glob("*/*.p[yx]*")):
        if path.suffix in (".pyx", ".pxd"):
            found |= dict.fromkeys(stub_text.classes(stub_text.parse(path)), module_name(path))
        elif path.suffix == ".py":
            for node in ast.parse(path.read_text("utf-8")).body:
                if isinstance(node, ast.ClassDef):
                    found[node.name] = module_name(path)
                elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                    found[node.target.id] = module_name(path)
    return found


def texts() -> dict[Path, str]:
    """Return every stub with its text."""
    known = homes()
    return {path.with_suffix(".pyi"): stub_text.stub(path, module_name(path), known) for path in sources()}


def is_current() -> bool:
    """Return whether every stub is newer than all that the stubs are made from."""
    stubs = [path.with_suffix(".pyi") for path in sources()]
    made_from = [*(ROOT / NATIVE).glob("*/*.py"), *(ROOT / NATIVE).glob("*/*.p[yx][xd]"), Path(__file__),
                 Path(stub_text.__file__)]
    return (all(path.exists() for path in stubs)
            and min(path.stat().st_mtime_ns for path in stubs) > max(path.stat().st_mtime_ns for path in made_from))


def write() -> None:
    """Write the stubs, unless nothing has changed, and remove those whose module was removed."""
    for path in (ROOT / NATIVE).glob("*/*.pyi"):
        if not path.with_suffix(".pyx").exists():
            path.unlink()
    if not is_current():
        for path, text in texts().items():
            path.write_text(text, "utf-8")


def is_built(path: Path) -> bool:
    """Return whether a module was compiled: one is omitted where OpenSSL's headers are missing."""
    return any(path.parent.glob(f"{path.stem}.*.so"))


def stubtest() -> subprocess.CompletedProcess[str]:
    """Compare the stubs with the modules; the exit code is 0 when they agree."""
    command = [sys.executable, "-m", "mypy.stubtest", "--concise", "--ignore-unused-allowlist", "--allowlist",
               str(ALLOWLIST), *(module_name(path) for path in sources() if is_built(path))]
    return subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)


def main() -> int:
    write()
    done = stubtest()
    print(done.stdout + done.stderr, end="")
    print(f"stubs: {len(sources())} modules")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
