"""The type stubs follow the sources of the compiled modules, and describe the modules."""

import ast
from pathlib import Path

import pytest

from tools import stub_text, stubs

HEADER = """
from libc.stdint cimport int64_t

cdef enum:
    LIMIT = 7

cdef class Counter:
    cdef readonly int64_t total    # of all calls
    cdef readonly dict by_name     # type: dict[str, int]  # name -> calls
    # type: Callable[[int], None] | None
    cdef public object on_change
    cdef int hidden
"""
MODULE = """
cimport cython
from kraft_native.base.limits cimport HIGH

NAMES = ("a", "b")
LOWEST, HIGHEST = LIMIT, HIGH
TABLE: dict[int, str] = {}
cdef int calls = 0


@cython.final
cdef class Counter:
    def __cinit__(self, str name not None, *, int64_t start=-1, Counter parent=None, double rate=0.5, bint loud=True):
        pass

    def __len__(self):
        return 0

    def __getitem__(self, str name) -> int:
        return 0

    @property
    def mean(self) -> float:
        return 0.0

    def count(self, data not None: Buffer, origin: Literal["x", "y"] = "x", *rest) -> list[Counter]:
        pass

    cpdef bint note(self, list names, object text=b"") except -1:  # type: (list[str], bytes) -> bool
        return True

    cdef int inner(self) except -1:
        return 0

    def _private(self):
        pass


def first(values: Iterable[_T], int64_t[::1] places, const uint8_t[::1] data) -> _T:
    pass
"""
STUB = """
from collections.abc import Callable, Iterable
from kraft_native.base.hints import Array
from typing import Final, Literal, Self, TypeVar, final
from typing_extensions import Buffer
_T = TypeVar("_T")
NAMES: Final[tuple[str, ...]]
LOWEST: Final[int]
HIGHEST: Final[int]
TABLE: Final[dict[int, str]]

@final
class Counter:
    @property
    def total(self) -> int: ...
    @property
    def by_name(self) -> dict[str, int]: ...
    on_change: Callable[[int], None] | None
    def __new__(cls, name: str, *, start: int = -1, parent: Counter | None = None, rate: float = 0.5,
                loud: bool = True) -> Self: ...
    def __len__(self) -> int: ...
    def __getitem__(self, name: str, /) -> int: ...
    @property
    def mean(self) -> float: ...
    def count(self, data: Buffer, origin: Literal["x", "y"] = "x", *rest: object) -> list[Counter]: ...
    def note(self, names: list[str], text: bytes = ...) -> bool: ...

def first(values: Iterable[_T], places: Array, data: Buffer) -> _T: ...
"""
HOMES = {"Array": "kraft_native.base.hints", "Counter": "kraft_native.x.counter"}


def stub(directory: Path, module: str, header: str = "") -> str:
    path = directory / "counter.pyx"
    path.write_text(module)
    path.with_suffix(".pxd").write_text(header)
    return stub_text.stub(path, "kraft_native.x.counter", HOMES)


def test_a_stub_follows_from_the_sources(tmp_path: Path) -> None:
    assert ast.unparse(ast.parse(stub(tmp_path, MODULE, HEADER))) == ast.unparse(ast.parse(STUB))


@pytest.mark.parametrize(("module", "message"), [
    ("def f(a) -> int:\n    pass\n", "f(a): 'no type' does not say enough"),
    ("def f(list a) -> int:\n    pass\n", "f(a): 'list' does not say enough"),
    ("def f():\n    pass\n", "f: a result without a type"),
    ("def f() -> list:\n    pass\n", "f: the result 'list' does not say of what"),
    ("X = f()\n", "X: a constant without an annotation"),
    ("def f(a: Unknown) -> int:\n    pass\n", "no module is known for the name 'Unknown' of an annotation"),
    ("cdef class C:\n    cdef public object a\n", "a: 'object' does not say enough"),
])
def test_a_public_name_without_a_type_is_refused(tmp_path: Path, module: str, message: str) -> None:
    with pytest.raises(stub_text.StubError) as raised:
        stub(tmp_path, module)
    assert str(raised.value).endswith(message)


@pytest.mark.house
def test_stubs_are_those_of_the_sources() -> None:
    assert [path.name for path, text in stubs.texts().items() if path.read_text("utf-8") != text] == []


@pytest.mark.house
def test_stubs_agree_with_the_modules() -> None:
    done = stubs.stubtest()
    assert done.returncode == 0, done.stdout + done.stderr
