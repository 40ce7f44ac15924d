"""The bill of materials of a release, in CycloneDX's format: `make sbom` writes `dist/kraft.cdx.json`.

    python -m tools.sbom [FILE]

It lists what a node installs: the package itself, and each locked package of its dependencies and of the extra `node`.
Each has its version, its digests and the address by which registries know it. cyclonedx-bom writes and validates it,
and makes the same bytes each time.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tools import lock
from tools.tree import ROOT

FILE: Final = ROOT / "dist" / "kraft.cdx.json"
SPEC: Final = "1.6"


def write_sbom(target: Path, requirements: Iterable[str]) -> None:
    """Write the bill of everything that the requirements need, direct and transitive."""
    with tempfile.TemporaryDirectory() as directory:
        wanted = Path(directory, "requirements.txt")
        wanted.write_text(lock.part_for(requirements))
        made = Path(directory, "sbom.json")
        subprocess.run([sys.executable, "-m", "cyclonedx_py", "requirements", "--output-reproducible", "--spec-version",
                        SPEC, "--output-format", "JSON", "--mc-type", "application", "--pyproject",
                        ROOT / "pyproject.toml", "--output-file", made, wanted], check=True)
        found = json.loads(made.read_text())
    # The package's version is in a file of its own, which the tool does not read.
    found["metadata"]["component"]["version"] = version()
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(found, indent=2, sort_keys=True) + "\n")


def version() -> str:
    """Return the package's version."""
    namespace: dict[str, str] = {}
    exec((ROOT / "kraft" / "_version.py").read_text(), namespace)  # noqa: S102 - our own file
    return namespace["__version__"]


def main() -> int:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    write_sbom(target, lock.node_requirements())
    print(f"{target}: {len(json.loads(target.read_text())['components'])} components")
    return 0


if __name__ == "__main__":
    sys.exit(main())
