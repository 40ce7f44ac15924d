"""Fault injection: which file operations the engine does, in order, and what happens when one of them fails.

    with fail_at(3, error=errno.ENOSPC, kinds={"write"}, suffix=".log"):
        log.append(...)          # the third write to a .log file fails as on a full disk

    with Trace(directory) as trace:
        log.append(...)
        trace.mark("acknowledged")
    for event in trace.events(): ...

Both see every operation that goes through `file_io`, of every thread of the process, and nothing else: other
libraries' files and the shared page of `live` are invisible. While no trace and no plan is
active the engine pays one predictable branch per system call. For tests of code that embeds the engine; not for
production.
"""

import errno
import os

cimport cython
from libc.string cimport memset
from libc.stdint cimport int64_t, uint32_t

from kraft_native.file.file_io cimport file_set_hook, kf_hook_fn
from kraft_native.base.errors import InvalidArgumentError

cdef extern from "file/faults.h" nogil:
    enum: KF_OPEN
    enum: KF_OPENED
    enum: KF_CLOSED
    enum: KF_WRITE
    enum: KF_TRUNCATE
    enum: KF_DATASYNC
    enum: KF_SYNC
    enum: KF_SYNC_DIR
    enum: KF_RENAME
    enum: KF_UNLINK
    enum: KF_MKDIR
    enum: KF_READ
    enum: KF_ALLOCATE
    enum: KF_MARK
    ctypedef void (*kf_install_fn)(kf_hook_fn hook, void* context) noexcept nogil
    void kf_faults_init(kf_install_fn install)
    int kf_trace_start(kf_trace* trace)
    void kf_trace_stop(kf_trace* trace)
    void kf_trace_mark(kf_trace* trace, int64_t value)
    void kf_trace_free(kf_trace* trace)
    int kf_rule_add(kf_rule* rule)
    void kf_rule_remove(kf_rule* rule)

kf_faults_init(file_set_hook)

cdef dict KIND_OPS = {
    "open": KF_OPEN, "write": KF_WRITE, "truncate": KF_TRUNCATE, "datasync": KF_DATASYNC, "sync": KF_SYNC,
    "sync_directory": KF_SYNC_DIR, "rename": KF_RENAME, "unlink": KF_UNLINK, "mkdir": KF_MKDIR, "read": KF_READ,
    "allocate": KF_ALLOCATE,
}
cdef dict OP_KINDS = {op: kind for kind, op in KIND_OPS.items()} | {
    KF_OPENED: "open", KF_CLOSED: "close", KF_MARK: "mark",
}

KINDS: frozenset[str] = frozenset(KIND_OPS)                  # kinds that a plan can fail
MUTATIONS: frozenset[str] = KINDS - {"read"}                 # all but reading
FLUSHES_AND_WRITES = frozenset({"write", "datasync", "sync", "sync_directory"})


@cython.final
cdef class Event:
    """One file operation as it was carried out (or refused), or a mark. Fields that a kind lacks are 0 or empty."""

    def __repr__(self):
        parts = [self.kind]
        if self.path:
            parts.append(self.path)
        if self.target:
            parts.append(f"-> {self.target}")
        if self.kind in ("write", "truncate", "allocate"):
            parts.append(f"@{self.offset}")
        if self.kind == "write":
            parts.append(f"+{len(self.data)}")
        if self.begun:
            parts.append("(begun)")
        if self.error:
            parts.append(errno.errorcode.get(self.error, str(self.error)))
        if self.kind == "mark":
            parts.append(repr(self.mark))
        return f"<{' '.join(parts)}>"


@cython.final
cdef class Trace:
    """Record of mutating file operations of the whole process, in the order in which they took effect.

    `under`: only those on paths that start with it (a rename counts by its source). A write is recorded with its bytes
    when it returned. A flush is recorded twice, when it began and when it returned: it covers what was written before
    the first and promises it only after the second. Use as a context manager, once; one trace can be active at a time.
    Starting, stopping, marking and reading are for threads that hold the GIL; recorded operations may be of any.
    """

    def __cinit__(self, under: FilePath = ""):
        memset(&self.trace, 0, sizeof(kf_trace))
        self.under = os.fsencode(under)
        self.trace.under = self.under
        self.marks = []
        self.active = False

    def __dealloc__(self):
        kf_trace_free(&self.trace)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self) -> None:
        """Begin to record, after what is recorded already. ValueError when a trace is active."""
        if kf_trace_start(&self.trace) < 0:
            raise InvalidArgumentError("another Trace is active; there is one per process")
        self.active = True

    def stop(self) -> None:
        """End recording; harmless when it has ended."""
        kf_trace_stop(&self.trace)
        self.active = False

    def mark(self, label: object) -> None:
        """Put an object of the caller into the order, between the operations before and after this call."""
        if not self.active:
            raise InvalidArgumentError("the Trace is not active: a mark would have no place in the order")
        self.marks.append(label)
        kf_trace_mark(&self.trace, len(self.marks) - 1)

    def __len__(self):
        return self.trace.count

    def events(self) -> list[Event]:
        """All recorded events, oldest first. Stop the trace before. MemoryError when it could not hold them all."""
        if self.active:
            raise InvalidArgumentError("stop the Trace before reading it")
        if self.trace.out_of_memory:
            raise MemoryError("the trace lost events for lack of memory")
        cdef size_t at
        return [self.event(&self.trace.entries[at]) for at in range(self.trace.count)]

    cdef Event event(self, const kf_entry* entry):
        cdef Event event = Event.__new__(Event)
        cdef const char* text = self.trace.bytes + entry.text_at
        event.kind = OP_KINDS[entry.op]
        event.path = os.fsdecode(text[:entry.path_size])
        text += entry.path_size
        event.target = os.fsdecode(text[:entry.path2_size])
        text += entry.path2_size
        event.data = text[:entry.data_size]
        event.fd = entry.fd
        event.begun = entry.begun
        event.error = <int>-entry.result if entry.result < 0 else 0
        event.thread = entry.thread
        if entry.op == KF_WRITE or entry.op == KF_TRUNCATE:
            event.offset = entry.a
        elif entry.op == KF_ALLOCATE:
            event.offset = entry.a
            event.size = entry.b
        elif entry.op == KF_OPENED:
            event.flags = <int>entry.a
            event.created = entry.b != 0
        elif entry.op == KF_MARK:
            event.mark = self.marks[entry.a]
        return event


@cython.final
cdef class Plan:
    """A fault that happens, or a count that runs, while the plan is entered. Created by `fail_at`, `delay`,
    `count_operations`."""

    def __cinit__(self):
        memset(&self.rule, 0, sizeof(kf_rule))
        self.active = False

    def __dealloc__(self):
        kf_rule_remove(&self.rule)

    def __enter__(self):
        if self.active:
            raise InvalidArgumentError("the plan is active already")
        if kf_rule_add(&self.rule) < 0:
            raise InvalidArgumentError("too many active plans; 16 is the limit")
        self.active = True
        return self

    def __exit__(self, *_):
        kf_rule_remove(&self.rule)
        self.active = False

    @property
    def seen(self) -> int:
        """Matching operations that were about to start while the plan was active."""
        return self.rule.seen

    @property
    def fired(self) -> int:
        """Count of those that were failed, shortened or delayed."""
        return self.rule.fired


cdef Plan make_plan(int64_t at, int error, int64_t short_bytes, bint persistent, kinds, under, suffix):
    cdef Plan plan = Plan.__new__(Plan)
    unknown = set(kinds) - KINDS
    if unknown:
        raise InvalidArgumentError(f"kinds: {sorted(unknown)} unknown; allowed: {sorted(KINDS)}")
    for kind in kinds:
        plan.rule.kinds |= <uint32_t>1 << <int>KIND_OPS[kind]
    plan.under = os.fsencode(under)
    plan.suffix = os.fsencode(suffix)
    plan.rule.under = plan.under
    plan.rule.suffix = plan.suffix
    plan.rule.at = at
    plan.rule.error = error
    plan.rule.short_bytes = short_bytes
    plan.rule.persistent = persistent
    return plan


def fail_at(int64_t k, *, int error=errno.EIO, kinds: Collection[str] = MUTATIONS, under: FilePath = "",
            suffix: str | bytes = "", int64_t short_bytes=0, bint persistent=False) -> Plan:
    """Create a plan that fails the k-th matching operation (counted from 1 over all threads) with `error`, undone.

    `kinds`: which operations count, a subset of KINDS. `under`, `suffix`: only those whose path (of a rename: either
    path) starts and ends with them. `short_bytes` > 0: if the k-th is a write, the system accepts only that many bytes
    of it. The next match, normally the engine's write of the rest, then fails with `error` as on a full
    disk; with `error=0` nothing fails and the engine must finish the write. `persistent`: whatever matches after the
    first failure fails too (a dead disk). `plan.fired == 0` afterwards means that the k-th never came.
    """
    if k < 1:
        raise InvalidArgumentError(f"k: {k}; allowed: 1 and more")
    if error < 0 or short_bytes < 0:
        raise InvalidArgumentError(f"error, short_bytes: {error}, {short_bytes}; allowed: 0 and more")
    if error == 0 and (short_bytes == 0 or persistent):
        raise InvalidArgumentError("error: 0 is allowed only for one short write")
    return make_plan(k, error, short_bytes, persistent, kinds, under, suffix)


def delay(int64_t delay_ms, *, kinds: Collection[str] = FLUSHES_AND_WRITES, under: FilePath = "",
          suffix: str | bytes = "") -> Plan:
    """Create a plan of a slow disk: every matching operation starts `delay_ms` later. The caller waits, as for a
    disk."""
    if delay_ms < 1:
        raise InvalidArgumentError(f"delay_ms: {delay_ms}; allowed: 1 and more")
    cdef Plan plan = make_plan(0, 0, 0, False, kinds, under, suffix)
    plan.rule.delay_us = delay_ms * 1000
    return plan


def count_operations(*, kinds: Collection[str] = MUTATIONS, under: FilePath = "", suffix: str | bytes = "") -> Plan:
    """Create a plan that fails nothing; `seen` is then the number of operations: the range of k for `fail_at`."""
    return make_plan(0, 0, 0, False, kinds, under, suffix)
