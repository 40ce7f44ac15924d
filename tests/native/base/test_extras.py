"""A module of an extra that is not installed: one sentence with what to do."""

import subprocess
import sys

import pytest

from kraft_native.base.extras import extra_module
from tools.tree import ROOT


def test_an_installed_module() -> None:
    assert extra_module("json.decoder", "arrow") is sys.modules["json.decoder"]


def test_a_missing_package() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"^no_such_package is not installed: pip install 'kraft\[arrow\]'$"):
        extra_module("no_such_package.part", "arrow")


def test_a_package_that_lacks_something_itself(tmp_path, monkeypatch) -> None:
    (tmp_path / "broken_package.py").write_text("import no_such_package\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'no_such_package'$"):
        extra_module("broken_package", "arrow")


@pytest.mark.parametrize(("package", "use"), [
    ("pyarrow", "next(log.arrow())"),
    ("pyarrow", "log.append_columns([b'x'])"),
    ("numpy", "ColumnReader(('value',)).read(log.read(0)).numpy('value')"),
])
def test_a_log_says_it(package: str, use: str) -> None:
    program = f"""
import sys, tempfile
sys.modules[{package!r}] = None
from kraft import Log
from kraft_native.columns.reader import ColumnReader
with tempfile.TemporaryDirectory() as directory, Log(directory) as log:
    log.append_record(b"one")
    {use}
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False, capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == \
        f"ModuleNotFoundError: {package} is not installed: pip install 'kraft[arrow]'"
