"""The type stubs describe the compiled modules."""

from tools import stubs
from tools.layers import compiled_modules


def test_every_module_has_a_stub() -> None:
    assert not stubs.missing()


def test_stubs_agree_with_the_modules() -> None:
    done = stubs.stubtest(compiled_modules())
    assert done.returncode == 0, done.stdout + done.stderr
