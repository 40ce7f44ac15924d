"""A real installation: `pip install` of the sources into an empty environment outside the tree, used from elsewhere."""

import subprocess
import venv
from pathlib import Path

import pytest

from kraft import __version__
from tools import lock
from tools.tree import ROOT, files

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_800)]

PROGRAM = """
import pathlib, sys, kraft, kraft_native.facade.log
from kraft import Log
assert kraft.__file__.startswith(sys.prefix) and kraft_native.facade.log.__file__.startswith(sys.prefix)
assert pathlib.Path(kraft_native.facade.log.__file__).with_name("log.pyi").exists()
with Log("log") as log:
    log.append_record(b"one")
    print([record.value for record in log.records()])
"""


def run(directory: Path, *command: object) -> str:
    done = subprocess.run([*map(str, command)], cwd=directory, env={"PATH": "/usr/bin:/bin", "HOME": str(directory)},
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3_000:]
    return done.stdout


def test_an_installation_from_the_sources(tmp_path: Path) -> None:
    """Only the sources are copied, without the build products in the tree."""
    sources, elsewhere, environment = tmp_path / "sources", tmp_path / "elsewhere", tmp_path / "environment"
    elsewhere.mkdir()
    for path in files():
        target = sources / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    venv.create(environment, with_pip=True)
    versions = tmp_path / "versions.txt"  # without the digests, which a directory cannot have
    versions.write_text("\n".join(lock.pins(lock.parse((ROOT / lock.LOCK).read_text()))))
    run(elsewhere, environment / "bin" / "python", "-m", "pip", "install", "--quiet", "-c", versions, sources)
    assert run(elsewhere, environment / "bin" / "kraft", "--version").startswith(f"kraft {__version__}\ncore: release")
    assert run(elsewhere, environment / "bin" / "python", "-c", PROGRAM) == "[b'one']\n"
