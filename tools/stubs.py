"""Type stubs against the compiled modules: `python -m tools.stubs` runs mypy's stubtest over all of them."""

import subprocess
import sys

from tools.layers import NATIVE, compiled_modules
from tools.tree import ROOT

ALLOWLIST = ROOT / "tools" / "stub_allowlist.txt"


def missing() -> list[str]:
    """Compiled modules without a stub."""
    return [name for name in compiled_modules()
            if not (ROOT / NATIVE / name.replace(".", "/")).with_suffix(".pyi").exists()]


def stubtest(names: list[str]) -> subprocess.CompletedProcess[str]:
    """Compares stubs with modules; the exit code is 0 when they agree."""
    command = [sys.executable, "-m", "mypy.stubtest", "--concise", "--ignore-unused-allowlist", "--allowlist",
               str(ALLOWLIST), *(f"{NATIVE}.{name}" for name in names)]
    return subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)


def main() -> int:
    absent = missing()
    for name in absent:
        print(f"{NATIVE}.{name}: no stub")
    present = [name for name in compiled_modules() if name not in absent]
    done = stubtest(present)
    print(done.stdout + done.stderr, end="")
    print(f"stubs: {len(present)} modules, {len(absent)} without a stub")
    return 1 if absent or done.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
