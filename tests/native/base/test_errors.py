"""Exceptions travel between processes: pickled or copied they are the same error with the same fields."""

import copy
import errno
import inspect
import pickle
import re

import pytest

from kraft.protocol.error_codes import ErrorCode
from kraft_native.base import errors
from tools.tree import ROOT

MADE = {
    errors.StorageError: lambda: errors.StorageError("/log/x", errno.ENOSPC, "writing"),
    errors.LogReadOnlyError: lambda: errors.LogReadOnlyError("read-only", errors.StorageError("/log/x", errno.EIO)),
    errors.CorruptLogError: lambda: errors.CorruptLogError("/log/x", 100, 7, 9, "a wrong CRC"),
    errors.InvalidRecordError: lambda: errors.InvalidRecordError("bad", ((1, "no key"),)),
    errors.InvalidTimestampError: lambda: errors.InvalidTimestampError("late", ((0, "a year off"), (3, "two"))),
}
CLASSES = [each for _, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, errors.KraftError)]
WAYS = {
    "copy": copy.copy, "deepcopy": copy.deepcopy,
    **{f"pickle {protocol}": lambda error, protocol=protocol: pickle.loads(pickle.dumps(error, protocol))
       for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1)},
}


def fields(error: BaseException) -> dict[str, object]:
    return {name: repr(value) for name, value in vars(error).items()}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_the_copy_is_the_same_error(kind: type[errors.KraftError], way: str) -> None:
    error = MADE.get(kind, lambda: kind("what happened"))()
    error.add_note("while reading")
    restored = WAYS[way](error)
    assert type(restored) is kind and restored.code == error.code
    assert str(restored) == str(error) and restored.args == error.args
    assert fields(restored) == fields(error) and restored.__notes__ == ["while reading"]


def test_every_class_with_fields_of_its_own_is_tried() -> None:
    assert {kind for kind in CLASSES if "__init__" in vars(kind)} == set(MADE)


def test_the_codes_of_the_compiled_core_are_kafkas() -> None:
    text = (ROOT / "kraft_native" / "base" / "fault.pxd").read_text()
    found = {name: int(number) for name, number in re.findall(r"^    ERROR_(\w+) = (-?\d+)$", text, re.MULTILINE)}
    assert len(found) > 25
    assert found == {name: ErrorCode[name] for name in found}
