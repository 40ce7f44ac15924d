"""Compiled functions that have no Python form, called through the addresses that Cython exports for other modules.

`function(module, "file_size", c_int64, c_int)` is the cdef function of that name; argument types are ctypes', and it is
called with the GIL held. An exception that it raises comes through.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import ModuleType
from typing import Any

_name = ctypes.pythonapi.PyCapsule_GetName
_name.restype, _name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def address(capsule: object) -> int:
    found: int = _pointer(capsule, _name(capsule))
    return found


def function(module: ModuleType, name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    """A cdef function that the module's `.pxd` declares."""
    exported = module.__pyx_capi__
    return ctypes.PYFUNCTYPE(result, *arguments)(address(exported[name]))


def method(cls: type, index: int, result: Any, *arguments: Any) -> Callable[..., Any]:
    """The cdef method at this index of the class's `.pxd`, counted from 0. Its first argument is the object."""
    table = ctypes.cast(address(cls.__dict__["__pyx_vtable__"]), ctypes.POINTER(ctypes.c_void_p))
    found = table[index]
    assert found is not None
    return ctypes.PYFUNCTYPE(result, ctypes.py_object, *arguments)(found)
