"""Findings and actions of opening a log."""

from libc.stdint cimport int64_t


cdef class RecoveryReport:
    """Findings and actions of opening a log. `recovery_report.pyi` describes the fields."""
    cdef readonly str directory
    cdef readonly str marks_from
    cdef readonly bint clean
    cdef readonly int64_t log_start_offset
    cdef readonly int64_t log_end_offset
    cdef readonly int64_t recovery_point
    cdef readonly int64_t segments
    cdef readonly int64_t segments_scanned
    cdef readonly int64_t bytes_scanned
    cdef readonly int64_t cut_bytes
    cdef readonly double elapsed_ms
    cdef readonly list cut
    cdef readonly list damage
    cdef readonly list lost_ranges
    cdef readonly list changed
    cdef readonly list rebuilt
    cdef readonly list ignored
    cdef readonly list removed
