"""A load generator for any server that speaks Kafka's frames; `_c/bench/load_generator.h` describes how it works.

The caller opens the connections and builds the requests. The core sends, receives and measures without the interpreter
lock, so its cost is small beside a server's. Positions in requests and replies come from the caller, which finds them
with the codecs.
"""

import errno
import os
from typing import NamedTuple

cimport cython
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from kraft_native.base.crc cimport crc32c_chosen

from kraft_native.base.errors import InvalidArgumentError, OperationError

cdef int64_t DRAIN_NS = 35_000_000_000      # longer than any server holds a request back here
cdef int IN_FLIGHT_MAX = 1 << 20
cdef int RECORDS_POSITION_MAX = 1024        # names and numbers before the records of one partition


class LoadSpec(NamedTuple):
    """One connection's work. Positions count from the first byte after the length; -1: none.

    `frame` is the request with its length in front. `interval_ns` 0 is a closed loop with `in_flight` requests in
    progress; otherwise a request is due every `interval_ns`. A Fetch reads on from `first_offset` and, with `wrap`,
    starts there again at the log's end; its reply must end with the records.
    """

    fileno: int
    frame: bytes
    in_flight: int = 1
    interval_ns: int = 0
    no_reply: bool = False
    error_position: int = -1
    fetch_offset_position: int = -1
    records_position: int = -1
    first_offset: int = 0
    wrap: bool = False
    batch_position: int = -1
    batch_bytes: int = 0
    stamp_position: int = -1
    reads_stamps: bool = False


class LoadResult(NamedTuple):
    """Result of one run. Latencies are (nanoseconds, count) pairs, ascending, each within 0.1 % of the measured one."""

    requests: int
    errors: int
    first_error: int
    records_bytes: int
    records: int
    bytes_sent: int
    bytes_received: int
    elapsed_ns: int
    latency: list[tuple[int, int]]
    end_to_end: list[tuple[int, int]]
    slot_requests: list[int]


cdef list pairs(uint64_t* counts):
    cdef uint32_t bucket
    return [(kf_load_value(bucket), counts[bucket]) for bucket in range(<uint32_t>KF_LOAD_BUCKETS) if counts[bucket]]


@cython.final
cdef class Load:
    """Connections ready for repeated runs. One thread calls `run`; any may call `stop`.

    The descriptors stay the caller's and must stay open and non-blocking. Raises `InvalidArgumentError` for a
    connection whose frame or positions do not fit together.
    """

    def __cinit__(self):
        self.connections = NULL
        self.shapes = NULL

    def __init__(self, specs: Iterable[LoadSpec]):
        specs = list(specs)
        if not specs:
            raise InvalidArgumentError("specs: no connection is given")
        self.count = <int>len(specs)
        self.frames = []
        self.connections = <kf_load_connection*>PyMem_Calloc(self.count, sizeof(kf_load_connection))
        self.shapes = <kf_load_shape*>PyMem_Calloc(self.count, sizeof(kf_load_shape))
        if self.connections == NULL or self.shapes == NULL:
            raise MemoryError
        for index, spec in enumerate(specs):
            self.take(index, spec)

    cdef int take(self, int index, object spec) except -1:
        cdef kf_load_connection* connection = &self.connections[index]
        cdef kf_load_shape* shape = &self.shapes[index]
        check_spec(spec)
        frame = bytearray(spec.frame)
        self.frames.append(frame)
        shape.error = spec.error_position
        shape.fetch_offset = spec.fetch_offset_position
        shape.records = spec.records_position
        shape.batch = spec.batch_position
        shape.batch_bytes = spec.batch_bytes
        shape.stamp = spec.stamp_position
        connection.fd = spec.fileno
        connection.shape = shape
        connection.frame = <uint8_t*>(<char*>frame)
        connection.frame_bytes = len(frame)
        connection.no_reply = spec.no_reply
        connection.reads_stamps = spec.reads_stamps
        connection.in_flight = spec.in_flight
        connection.interval_ns = spec.interval_ns
        connection.first_offset = spec.first_offset
        connection.wrap = spec.wrap
        return 0

    def run(self, seconds: float, *, requests_max: int = 0, slots: int = 0) -> LoadResult:
        """Load for `seconds`, or until `requests_max` requests were sent when that is not 0, then wait for requests in
        progress. `slots` counts requests per equal part of the time.

        Raises `OperationError` naming the connection when one was closed or its replies were wrong.
        """
        cdef kf_load_result result
        cdef uint64_t* counts
        cdef int status
        cdef int64_t duration_ns = <int64_t>(<double>seconds * 1e9), requests = requests_max, parts = slots
        if duration_ns <= 0:
            raise InvalidArgumentError(f"seconds: {seconds} is not above 0")
        if requests < 0:
            raise InvalidArgumentError(f"requests_max: {requests_max} is below 0")
        if parts < 0:
            raise InvalidArgumentError(f"slots: {slots} is below 0")
        if self.running:
            raise OperationError("this load is running already")
        counts = <uint64_t*>PyMem_Calloc(parts + 1, sizeof(uint64_t))
        if counts == NULL:
            raise MemoryError
        self.running = True
        self.stopping = 0
        try:
            result = new_result(counts, duration_ns // parts if parts else 0, parts)
            try:
                with nogil:
                    status = kf_load_run(self.connections, self.count, duration_ns, requests, DRAIN_NS, crc32c_chosen,
                                         &self.stopping, &result)
                if status < 0:
                    raise OperationError(failure(status, result.failed_fd))
                return LoadResult(
                    result.requests, result.errors, result.first_error, result.records_bytes, result.records,
                    result.bytes_sent, result.bytes_received, result.elapsed_ns, pairs(result.latency),
                    pairs(result.end_to_end), [counts[slot] for slot in range(parts)])
            finally:
                PyMem_Free(result.latency)
                PyMem_Free(result.end_to_end)
        finally:
            self.running = False
            PyMem_Free(counts)

    def stop(self) -> None:
        """End a run early: nothing new is sent. Any thread."""
        self.stopping = 1

    def __dealloc__(self):
        PyMem_Free(self.connections)
        PyMem_Free(self.shapes)


cdef kf_load_result new_result(uint64_t* counts, int64_t slot_ns, int64_t slots) except *:
    cdef kf_load_result result
    result.requests = result.errors = result.records_bytes = result.records = 0
    result.bytes_sent = result.bytes_received = result.elapsed_ns = 0
    result.first_error = 0
    result.failed_fd = -1
    result.slot_ns = slot_ns
    result.slots = slots
    result.slot_requests = counts
    result.latency = <uint64_t*>PyMem_Calloc(KF_LOAD_BUCKETS, sizeof(uint64_t))
    result.end_to_end = <uint64_t*>PyMem_Calloc(KF_LOAD_BUCKETS, sizeof(uint64_t))
    if result.latency == NULL or result.end_to_end == NULL:
        raise MemoryError
    return result


cdef int check_spec(object spec) except -1:
    """Check that every position lies inside of its frame, else raise `InvalidArgumentError`."""
    size = len(spec.frame) - 4
    if size < 8 or int.from_bytes(spec.frame[:4], "big") != size:
        raise InvalidArgumentError(f"frame: {len(spec.frame)} bytes do not begin with their own length")
    if not 1 <= spec.in_flight <= IN_FLIGHT_MAX:
        raise InvalidArgumentError(f"in_flight: {spec.in_flight} is not in 1 to {IN_FLIGHT_MAX}")
    if spec.interval_ns < 0:
        raise InvalidArgumentError(f"interval_ns: {spec.interval_ns} is below 0")
    if spec.fetch_offset_position > size - 8:
        raise InvalidArgumentError(f"fetch_offset_position: {spec.fetch_offset_position} is outside the frame")
    if spec.records_position > RECORDS_POSITION_MAX:
        raise InvalidArgumentError(f"records_position: {spec.records_position} is above {RECORDS_POSITION_MAX}")
    if spec.fetch_offset_position >= 0 and spec.in_flight != 1:
        raise InvalidArgumentError(f"in_flight: {spec.in_flight}, but a Fetch reads on from its last reply: only 1")
    if spec.batch_position >= 0:
        if spec.batch_bytes < 61 or spec.batch_position + spec.batch_bytes > size:
            raise InvalidArgumentError(f"batch_position: {spec.batch_position} and {spec.batch_bytes} bytes are "
                                       "outside the frame")
        if not 21 <= spec.stamp_position <= spec.batch_bytes - 8:
            raise InvalidArgumentError(f"stamp_position: {spec.stamp_position} is outside what the checksum covers")
    return 0


cdef str failure(int status, int fd):
    if status == -errno.EPROTO:
        return f"connection {fd}: a reply is malformed or out of order"
    if status == -errno.ECONNRESET:
        return f"connection {fd}: the server closed it"
    if status == -errno.ETIMEDOUT:
        return "replies did not come: the server no longer answers"
    return f"connection {fd}: {os.strerror(-status)}"
