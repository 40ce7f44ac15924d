"""A load generator for any server that speaks Kafka's frames; `_c/bench/load_generator.h` describes how it works.

The caller opens the connections and builds the requests, of which each connection has a pool. The core sends, receives
and measures without the interpreter lock, so its cost is small beside a server's. Positions in requests and replies
come from the caller, which finds them with the codecs.
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


class LoadFrame(NamedTuple):
    """A further request of a connection: its frame, and the batch in it. Positions are those of `LoadSpec`."""

    frame: bytes
    batch_position: int = -1
    batch_bytes: int = 0
    stamp_position: int = -1
    records: int = 0


class LoadSpec(NamedTuple):
    """One connection's work. Positions count from the first byte after the length; -1: none.

    `frame` is the request with its length in front. The requests of `more` follow it, and then the pool begins again.
    `records` and `batch_bytes` are those of the batch in `frame`. A stamp is the first 8 bytes of the batch's first
    value. At `counter_position` of each request is an int32 that counts them over all runs. `interval_ns` 0 is a closed
    loop with `in_flight` requests in progress; otherwise a request is due every `interval_ns`. A Fetch reads on from
    `first_offset` and, with `wrap`, starts there again at the log's end; its reply must end with the records.
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
    records: int = 0
    counter_position: int = -1
    more: Sequence[LoadFrame] = ()


class LoadResult(NamedTuple):
    """Result of one run. Latencies are (nanoseconds, count) pairs, ascending, each within 0.1 % of the measured one.
    `accepted_records` and `accepted_bytes` are those of batches that were sent, `records` those that were read."""

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
    accepted_records: int = 0
    accepted_bytes: int = 0


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
        self.buffers = []
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
        frames = [LoadFrame(spec.frame, spec.batch_position, spec.batch_bytes, spec.stamp_position, spec.records),
                  *spec.more]
        connection.frames = <kf_load_frame*>PyMem_Calloc(len(frames), sizeof(kf_load_frame))
        if connection.frames == NULL:
            raise MemoryError
        connection.frame_count = <int>len(frames)
        for place, frame in enumerate(frames):
            data = bytearray(frame.frame)
            self.buffers.append(data)
            connection.frames[place].bytes = <uint8_t*>(<char*>data)
            connection.frames[place].size = len(data)
            connection.frames[place].batch = frame.batch_position
            connection.frames[place].batch_bytes = frame.batch_bytes
            connection.frames[place].stamp = frame.stamp_position
            connection.frames[place].records = frame.records
        shape.error = spec.error_position
        shape.fetch_offset = spec.fetch_offset_position
        shape.records = spec.records_position
        shape.counter = spec.counter_position
        connection.fd = spec.fileno
        connection.shape = shape
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
        self.stopping = 0
        try:
            self.result = new_result(counts, duration_ns // parts if parts else 0, parts)
            self.running = True
            try:
                with nogil:
                    status = kf_load_run(self.connections, self.count, duration_ns, requests, DRAIN_NS, crc32c_chosen,
                                         &self.stopping, &self.result)
                if status < 0:
                    raise OperationError(failure(status, self.result.failed_fd))
                return self.found()
            finally:
                self.running = False
                PyMem_Free(self.result.latency)
                PyMem_Free(self.result.end_to_end)
        finally:
            PyMem_Free(counts)

    def progress(self) -> LoadResult | None:
        """Return the counts of the run in progress so far, None between runs. Any thread. `elapsed_ns` is 0, and single
        counts may be a few requests apart."""
        return self.found() if self.running else None

    cdef object found(self):
        cdef kf_load_result* result = &self.result
        return LoadResult(
            result.requests, result.errors, result.first_error, result.records_bytes, result.records,
            result.bytes_sent, result.bytes_received, result.elapsed_ns, pairs(result.latency),
            pairs(result.end_to_end), [result.slot_requests[slot] for slot in range(result.slots)],
            result.accepted_records, result.accepted_bytes)

    def stop(self) -> None:
        """End a run early: nothing new is sent. Any thread."""
        self.stopping = 1

    def __dealloc__(self):
        if self.connections != NULL:
            for index in range(self.count):
                PyMem_Free(self.connections[index].frames)
        PyMem_Free(self.connections)
        PyMem_Free(self.shapes)


cdef kf_load_result new_result(uint64_t* counts, int64_t slot_ns, int64_t slots) except *:
    cdef kf_load_result result
    result.requests = result.errors = result.records_bytes = result.records = 0
    result.bytes_sent = result.bytes_received = result.elapsed_ns = 0
    result.accepted_records = result.accepted_bytes = 0
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
    if not 1 <= spec.in_flight <= IN_FLIGHT_MAX:
        raise InvalidArgumentError(f"in_flight: {spec.in_flight} is not in 1 to {IN_FLIGHT_MAX}")
    if spec.interval_ns < 0:
        raise InvalidArgumentError(f"interval_ns: {spec.interval_ns} is below 0")
    if spec.records_position > RECORDS_POSITION_MAX:
        raise InvalidArgumentError(f"records_position: {spec.records_position} is above {RECORDS_POSITION_MAX}")
    if spec.fetch_offset_position >= 0 and spec.in_flight != 1:
        raise InvalidArgumentError(f"in_flight: {spec.in_flight}, but a Fetch reads on from its last reply: only 1")
    for frame in (spec, *spec.more):
        check_frame(spec, frame)
    return 0


cdef int check_frame(object spec, object frame) except -1:
    """Check one frame of a connection: a `LoadFrame`, or the `LoadSpec` for its first."""
    size = len(frame.frame) - 4
    if size < 8 or int.from_bytes(frame.frame[:4], "big") != size:
        raise InvalidArgumentError(f"frame: {len(frame.frame)} bytes do not begin with their own length")
    if spec.fetch_offset_position > size - 8:
        raise InvalidArgumentError(f"fetch_offset_position: {spec.fetch_offset_position} is outside the frame")
    if spec.counter_position > size - 4:
        raise InvalidArgumentError(f"counter_position: {spec.counter_position} is outside the frame")
    if frame.records < 0 or frame.batch_bytes < 0:
        raise InvalidArgumentError(f"records, batch_bytes: {frame.records}, {frame.batch_bytes}; none may be below 0")
    if frame.batch_position >= 0:
        if frame.batch_bytes < 61 or frame.batch_position + frame.batch_bytes > size:
            raise InvalidArgumentError(f"batch_position: {frame.batch_position} and {frame.batch_bytes} bytes are "
                                       "outside the frame")
        if not 21 <= frame.stamp_position <= frame.batch_bytes - 8:
            raise InvalidArgumentError(f"stamp_position: {frame.stamp_position} is outside what the checksum covers")
    return 0


cdef str failure(int status, int fd):
    if status == -errno.EPROTO:
        return f"connection {fd}: a reply is malformed or out of order"
    if status == -errno.ECONNRESET:
        return f"connection {fd}: the server closed it"
    if status == -errno.ETIMEDOUT:
        return "replies did not come: the server no longer answers"
    return f"connection {fd}: {os.strerror(-status)}"
