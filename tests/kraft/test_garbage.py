"""The collector stays off while modules are imported, and is afterwards as it was."""

import gc
import importlib
from contextlib import suppress

import pytest

from kraft.garbage import collections_off


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_the_collector_is_left_as_it_was(enabled: bool, fails: bool) -> None:
    before = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        with suppress(ImportError), collections_off():
            assert not gc.isenabled()
            if fails:
                importlib.import_module("kraft.no_such_module")
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()
