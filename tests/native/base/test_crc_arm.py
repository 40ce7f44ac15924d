"""The checksum kernel for ARM on another machine: cross-compiled and run by an emulator, where both exist.

On ARM itself `test_crc.py` tests it, like every kernel that runs there.
"""

import platform
import shutil
import subprocess

import pytest

from tools.tree import ROOT

COMPILER = shutil.which("aarch64-linux-gnu-gcc")
EMULATOR = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
SOURCES = ("base/crc32c.c", "base/crc32c_table.c", "base/crc32c_arm.c")


@pytest.mark.skipif(platform.machine() == "aarch64", reason="test_crc.py tries the kernel itself")
@pytest.mark.skipif(COMPILER is None or EMULATOR is None, reason="needs gcc for aarch64 and qemu-user")
def test_every_length_at_every_offset(tmp_path):
    native = ROOT / "kraft_native" / "_c"
    program = tmp_path / "crc_arm"
    subprocess.run([COMPILER, "-O2", "-std=c11", "-Wall", "-Werror", "-static", f"-I{native}", "-o", program,
                    ROOT / "tests/native/base/crc_arm.c", *(native / name for name in SOURCES)], check=True)
    done = subprocess.run([EMULATOR, program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    kernel, compared = done.stdout.split()
    assert kernel == "arm"
    assert int(compared) > 64 * 4097
