"""Memory that ends at a protected page: a parser that reads one byte too far ends the process."""

import ctypes
import mmap
from collections.abc import Iterator
from contextlib import contextmanager

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_PROT_NONE = 0


class GuardedMemory:
    """`put(data)` returns a view of a copy of `data` whose last byte is the last readable one."""

    def __init__(self, size: int) -> None:
        self.readable = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        self.map = mmap.mmap(-1, self.readable + mmap.PAGESIZE)
        self.whole = (ctypes.c_ubyte * (self.readable + mmap.PAGESIZE)).from_buffer(self.map)
        self.address = ctypes.addressof(self.whole)
        if _libc.mprotect(self.address + self.readable, mmap.PAGESIZE, _PROT_NONE) != 0:
            raise OSError(ctypes.get_errno(), "mprotect")

    def put(self, data: bytes) -> memoryview:
        at = self.readable - len(data)
        ctypes.memmove(self.address + at, data, len(data))
        return memoryview((ctypes.c_ubyte * len(data)).from_address(self.address + at)).cast("B")

    def close(self) -> None:
        _libc.mprotect(self.address + self.readable, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE)
        del self.whole
        self.map.close()


@contextmanager
def guarded(size: int) -> Iterator[GuardedMemory]:
    memory = GuardedMemory(size)
    try:
        yield memory
    finally:
        memory.close()
