"""The load generator's core: see `_c/bench/load_generator.h`."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

cdef extern from "bench/load_generator.h" nogil:
    enum:
        KF_LOAD_BUCKETS
    ctypedef uint32_t (*kf_load_crc_fn)(uint32_t seed, const uint8_t* data, size_t size)
    ctypedef struct kf_load_shape:
        int64_t error
        int64_t fetch_offset
        int64_t records
        int64_t counter
    ctypedef struct kf_load_frame:
        uint8_t* bytes
        size_t size
        int64_t batch
        int64_t batch_bytes
        int64_t stamp
        int64_t records
    ctypedef struct kf_load_connection:
        int fd
        const kf_load_shape* shape
        kf_load_frame* frames
        int frame_count
        int next_frame
        uint32_t counter
        bint no_reply
        bint reads_stamps
        int in_flight
        int64_t interval_ns
        int64_t first_offset
        bint wrap
        void* state
    ctypedef struct kf_load_result:
        int64_t requests
        int64_t errors
        int64_t accepted_records
        int64_t accepted_bytes
        int64_t records_bytes
        int64_t records
        int64_t bytes_sent
        int64_t bytes_received
        int64_t elapsed_ns
        int32_t first_error
        int32_t failed_fd
        uint64_t* latency
        uint64_t* end_to_end
        int64_t slot_ns
        int64_t slots
        uint64_t* slot_requests
    int kf_load_run(kf_load_connection* connections, int count, int64_t duration_ns, int64_t requests_max,
                    int64_t drain_ns, kf_load_crc_fn crc, const int* stop, kf_load_result* result)
    uint64_t kf_load_value(uint32_t bucket)


cdef class Load:
    cdef kf_load_connection* connections
    cdef kf_load_shape* shapes
    cdef int count
    cdef int stopping
    cdef bint running
    cdef kf_load_result result     # of the current run
    cdef list buffers              # bytearrays that the frames point into

    cdef int take(self, int index, object spec) except -1
    cdef object found(self)
