"""Conversion of a fault that nogil code found to an exception of `errors`."""

from libc.stdio cimport snprintf

from kraft_native.base.errors import BY_CODE


cdef str fault_text(const Fault* fault):
    cdef char text[512]
    snprintf(text, sizeof(text), fault.what, <long long>fault.a, <long long>fault.b)
    return text.decode("utf-8", "replace")


cdef int raise_fault(const Fault* fault) except -1:
    message = fault_text(fault)
    error = BY_CODE.get(fault.code)
    if error is None:
        raise AssertionError(f"fault without an exception class: code {fault.code}: {message}")
    raise error(message)
