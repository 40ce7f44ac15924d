"""Large objects freed in steps, so that a loop can serve others between them.

The last reference to a hundred thousand objects frees all of them at once. That takes ten milliseconds, and several
times as long in a process whose memory is fragmented. `free_steps` frees the elements of lists, dictionaries, sets and
structs a few hundred at a time.

The local variables of a generator end with it, so its last step frees all that only they refer to. `containers_of`
finds these containers while the generator is suspended. Its driver keeps them, and frees them in steps later. An object
is owned when all references to it come from owned objects, as in the interpreter's garbage collection. The generator
itself is owned, and so are generators that it delegates to, its functions and their closures.
"""

from collections import Counter, defaultdict, deque

from cpython.ref cimport PyObject

cimport cython

cdef extern from "Python.h":
    ctypedef int (*visitproc)(PyObject* found, void* context) noexcept
    ctypedef int (*traverseproc)(PyObject* object, visitproc visit, void* context) noexcept
    ctypedef struct PyTypeObject:
        traverseproc tp_traverse
    Py_ssize_t Py_REFCNT(PyObject* object) noexcept
    PyTypeObject* Py_TYPE(PyObject* object) noexcept
    bint PyObject_IS_GC(PyObject* object) noexcept
    bint PyType_Check(PyObject* object) noexcept
    bint PyModule_Check(PyObject* object) noexcept
    bint PyAnySet_Check(PyObject* object) noexcept
    bint PyDict_Check(PyObject* object) noexcept
    bint PyList_Check(PyObject* object) noexcept
    bint PyTuple_Check(PyObject* object) noexcept
    Py_ssize_t PyObject_Size(PyObject* object) except -1

cdef enum:
    STEP_FREED = 256               # elements of one step
    SHORT_MAX = 32                 # elements of a container that is freed at once, and read for larger ones inside
    DEPTH_MAX = 4                  # of structs and tuples inside one another
    FOUND_MAX = 256                # objects that one call examines; those beyond are freed at once

cdef type DEQUE = deque
cdef frozenset DICTS = frozenset((dict, defaultdict, Counter))


@cython.final
cdef class Freeing:
    """Iterator that frees what is in `held`, a step each time."""

    def __init__(self, list held not None: list[object]):
        self.held = held

    def __iter__(self) -> Freeing:
        return self

    def __next__(self) -> None:
        cdef Py_ssize_t left = STEP_FREED
        while len(self.held) > 0:
            left = free_some(self.held, left)
            if left <= 0 and len(self.held) > 0:
                return
        raise StopIteration


def free_steps(list held not None: list[object]) -> Freeing:
    """Free the messages and containers in `held`, and those inside of them, a few hundred elements at a time. Objects
    with other references stay alive and unchanged. Yields after each step."""
    return Freeing(held)


cdef Py_ssize_t free_some(list held, Py_ssize_t left) except? -1:
    """Free at most `left` elements of the last object; return how many are left."""
    cdef list values
    one = held.pop()
    left -= 1
    if Py_REFCNT(<PyObject*>one) > 1:
        return left
    if type(one) is tuple or type(one) is frozenset:
        one = list(one)
    if type(one) is list:
        values = <list>one
        while len(values) > 0 and left > 0:
            add_inside(held, values.pop(), 1, DEPTH_MAX)
            left -= 1
    elif type(one) in DICTS:
        while len(one) > 0 and left > 0:
            add_inside(held, dict.popitem(one), 1, DEPTH_MAX)
            left -= 1
    elif type(one) is set or type(one) is DEQUE:
        while len(one) > 0 and left > 0:
            add_inside(held, one.pop(), 1, DEPTH_MAX)
            left -= 1
    else:
        add_inside(held, one, 1, DEPTH_MAX)
        return left
    if len(one) > 0:
        held.append(one)
    return left


cdef int add_inside(list held, object value, Py_ssize_t references, int depth) except -1:
    """Add the containers in a value to which there are only these references; the rest of it is freed with it."""
    cdef object kind = type(value)
    cdef object names
    if Py_REFCNT(<PyObject*>value) > references or not PyObject_IS_GC(<PyObject*>value):
        return 0
    if kind is list or kind is set or kind is DEQUE or kind in DICTS:
        if size_of(<PyObject*>value) > SHORT_MAX or is_nested(value):
            held.append(value)
    elif PyTuple_Check(<PyObject*>value):
        if len(<tuple>value) > SHORT_MAX and kind is tuple:
            held.append(value)
        elif depth > 0:
            for inside in <tuple>value:
                add_inside(held, inside, 2, depth - 1)
    elif depth > 0:
        names = getattr(kind, "__slots__", None)
        if type(names) is tuple:
            for name in <tuple>names:
                add_inside(held, getattr(value, name, None), 2, depth - 1)
    return 0


cdef bint is_nested(object container) except -1:
    """Return whether a short container may have long ones inside: by one element of a list, always for others."""
    if type(container) is list:
        return len(<list>container) > 0 and PyObject_IS_GC(<PyObject*>(<list>container)[0])
    return len(container) > 0


cdef struct Look:
    Py_ssize_t count
    PyObject* found[FOUND_MAX]
    Py_ssize_t references[FOUND_MAX]   # from owned objects
    bint read[FOUND_MAX]               # its own references are counted


cdef int note(PyObject* found, void* context) noexcept:
    """Count a reference."""
    cdef Look* look = <Look*>context
    cdef Py_ssize_t place
    if not PyObject_IS_GC(found) or PyType_Check(found) or PyModule_Check(found):
        return 0
    place = look.count - 1
    while place >= 0 and look.found[place] != found:
        place -= 1
    if place < 0:
        if look.count == FOUND_MAX:
            return 0
        place = look.count
        look.count += 1
        look.found[place] = found
        look.references[place] = 0
        look.read[place] = False
    look.references[place] += 1
    return 0


cdef bint is_in(list held, PyObject* one) except -1:
    for other in held:
        if <PyObject*>other == one:
            return True
    return False


cdef Py_ssize_t size_of(PyObject* one) except -1:
    """Return the size of a container, 0 for other objects."""
    if PyList_Check(one) or PyTuple_Check(one) or PyDict_Check(one) or PyAnySet_Check(one) \
            or type(<object>one) is DEQUE:
        return PyObject_Size(one)
    return 0


cpdef list containers_of(object work, list before=None):  # type: (object, list[object] | None) -> list[object]
    """Return the containers with many elements that only `work` owns, a suspended generator. `before` is an earlier
    result that is still referred to. Nothing is called and nothing changes."""
    cdef Look look
    cdef list held = []
    cdef PyObject* one
    cdef Py_ssize_t place = 0, extra
    cdef bint again = True
    look.count = 0
    note(<PyObject*>work, &look)
    while again:
        again = False
        place = 0
        while place < look.count:
            one = look.found[place]
            if not look.read[place]:
                extra = Py_REFCNT(one) - look.references[place]
                if place == 0 or extra == 0 or (extra == 1 and before is not None and is_in(before, one)):
                    look.read[place] = again = True
                    if size_of(one) > SHORT_MAX:
                        held.append(<object>one)
                    elif Py_TYPE(one).tp_traverse != NULL and type(<object>one) is not Freeing:
                        Py_TYPE(one).tp_traverse(one, note, &look)
            place += 1
    return held
