"""A gate in the hook of `file_io`: it holds each call until the test releases it. "While a flush runs" is then a
state that the test controls, not a matter of luck. (`kraft_native.file.faults` records and fails calls; it does not
hold them.)"""

import ctypes
import queue
from typing import Self

from kraft_native.file import file_io

DATASYNC, SYNC_DIRECTORY, READ = 6, 8, 12  # enum kf_op of _c/file/file_io.h
SOON = 20.0


class Event(ctypes.Structure):
    _fields_ = [("op", ctypes.c_int), ("fd", ctypes.c_int), ("a", ctypes.c_int64), ("b", ctypes.c_int64),
                ("path", ctypes.c_char_p)]


HOOK = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.POINTER(Event), ctypes.c_void_p)


class Gate:
    """Gate at which calls of the given operations stop. `arrived()` returns the next one's descriptor, or its path
    where it has none. `let_go(result)` decides it: 0 lets it happen, -errno makes it fail."""

    def __init__(self, *operations: int) -> None:
        self.operations = operations
        self.calls: queue.Queue[int | bytes] = queue.Queue()
        self.verdicts: queue.Queue[int] = queue.Queue()
        self.hook = HOOK(self.decide)
        self.set_hook = ctypes.PyDLL(file_io.__file__).kf_set_hook
        self.set_hook.argtypes = [ctypes.c_void_p, ctypes.c_void_p]

    def decide(self, event: "ctypes._Pointer[Event]", context: object) -> int:
        if event[0].op not in self.operations:
            return 0
        self.calls.put(event[0].fd if event[0].fd >= 0 else event[0].path)
        return self.verdicts.get(timeout=SOON)

    def arrived(self) -> int | bytes:
        return self.calls.get(timeout=SOON)

    def let_go(self, result: int = 0) -> None:
        self.verdicts.put(result)

    def __enter__(self) -> Self:
        self.set_hook(ctypes.cast(self.hook, ctypes.c_void_p), None)
        return self

    def __exit__(self, *exception: object) -> None:
        for _ in range(100):
            self.verdicts.put(0)  # no call may stay behind the gate when a test failed
        self.set_hook(None, None)
