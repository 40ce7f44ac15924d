"""The lock files: every package has its version and digests, and the build's part of them is enough to compile."""

import subprocess
import sys

from tools import lock
from tools.tree import ROOT


def test_every_package_has_digests() -> None:
    for name in lock.LOCKS:
        entries = lock.parse((ROOT / name).read_text())
        assert len(entries) >= 4
        assert [package for package, entry in entries.items() if "--hash=sha256:" not in entry] == []
        assert all(pin.startswith(f"{package}==") for package, pin in zip(entries, lock.pins(entries), strict=True))


def test_entries_keep_their_markers() -> None:
    text = "# head\na==1 \\\n    --hash=sha256:00\nb==2 ; python_version < '3.12' \\\n    --hash=sha256:01\n"
    entries = lock.parse(text)
    assert list(entries) == ["a", "b"]
    assert lock.pins(entries) == ["a==1", "b==2 ; python_version < '3.12'"]


def test_the_part_that_a_build_needs() -> None:
    """A Python without any packages runs it, as the environment is new when the list is printed."""
    done = subprocess.run([sys.executable, "-I", ROOT / "tools" / "lock.py", "--build-only"], check=True,
                          stdout=subprocess.PIPE, text=True)
    entries = lock.parse(done.stdout)
    assert set(entries) == {"cython", "setuptools"}
    whole = lock.parse((ROOT / lock.LOCK).read_text())
    assert all(entry == whole[name] for name, entry in entries.items())
