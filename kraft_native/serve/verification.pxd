"""Answers of a transaction's coordinator, as a Produce reports them."""

from libc.stdint cimport int16_t

from kraft_native.serve.produce_wire cimport PartitionData, ProduceData

cdef enum:
    ADDS_FROM = 12                 # version of Produce that adds its partitions to the transaction

cdef bint is_transactional(const PartitionData* part) noexcept
# Reads the batches of the places `first` to the end: sets `transactional_place` and `identity_error`.
cdef int note_identity(ProduceData data, Py_ssize_t first) noexcept
# The error of a partition whose coordinator answered `code`.
cdef int16_t produce_error(int code, int version) noexcept
# What to report with it; None: nothing but the code.
cdef bytes why_refused(int error, int code)
