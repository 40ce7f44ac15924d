/* A load generator: one thread, many connections, each with a pool of requests that it sends one after the other,
 * repeatedly.
 *
 * Closed loop: every connection keeps `in_flight` requests in progress. Open loop: every connection has a request due
 * every `interval_ns`. Latency counts from the moment a request was due, not from when it could be sent. So a server
 * that stalls cannot hide the requests that it kept from being sent.
 *
 * The core handles frames (int32 length, replies in order, correlation id first) and some positions from its caller:
 *
 * - of the error code in a reply,
 * - of the offset in a Fetch, and of the records in its reply,
 * - of the time in a batch at which it was due,
 * - of a number that differs in each request.
 *
 * The caller knows which API that is.
 *
 * Of Fetch replies it reads only the batches' headers. The bytes between them are received without being copied
 * (MSG_TRUNC). A large reply is received in pieces of 256 KiB (SO_RCVLOWAT), unless its stamps are to be read. So a
 * figure of Fetch is the server's and not the core's own copying and waking.
 */
#ifndef KRAFT_LOADGEN_H
#define KRAFT_LOADGEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KF_LOAD_SUB_BITS = 10, KF_LOAD_BUCKETS = (64 - KF_LOAD_SUB_BITS + 1) << KF_LOAD_SUB_BITS };

typedef uint32_t (*kf_load_crc_fn)(uint32_t seed, const uint8_t *data, size_t size);

/* Positions count from the frame's first byte after its length; -1: none. */
typedef struct kf_load_shape {
    int64_t error;          /* in the reply: int16 error code */
    int64_t fetch_offset;   /* in the request: int64 */
    int64_t records;        /* in the reply: int32 length of the records, then batches, to the reply's end */
    int64_t counter;        /* in the request: int32 that counts the connection's requests, over all of its runs */
} kf_load_shape;

/* One request of a pool, length in front; changed in place. */
typedef struct kf_load_frame {
    uint8_t *bytes;
    size_t size;
    int64_t batch;          /* position of its record batch, -1: none */
    int64_t batch_bytes;
    int64_t stamp;          /* in the batch: int64, nanoseconds of the monotonic clock at which it was due; -1: none */
    int64_t records;        /* in the batch */
} kf_load_frame;

typedef struct kf_load_connection {
    int fd;
    const kf_load_shape *shape;
    kf_load_frame *frames;
    int frame_count;
    int next_frame;         /* where the next run begins in the pool */
    uint32_t counter;       /* requests of all runs */
    bool no_reply;          /* acks=0: a request is done when it is sent */
    bool reads_stamps;      /* a consumer: the age of each batch, by its stamp, goes to `end_to_end` */
    int in_flight;
    int64_t interval_ns;    /* 0: closed loop */
    int64_t first_offset;   /* of a Fetch: where reading starts again at the log's end */
    bool wrap;              /* a Fetch that returns nothing starts again there */
    void *state;            /* the core's */
} kf_load_connection;

typedef struct kf_load_result {
    int64_t requests;       /* answered; those of readers of stamps do not count */
    int64_t errors;         /* of these with an error code */
    int64_t accepted_records; /* in the batches of requests that were answered without an error or have no answer */
    int64_t accepted_bytes; /* of these batches */
    int64_t records_bytes;  /* of Fetch replies */
    int64_t records;        /* of Fetch replies, by the counts in their batches' headers */
    int64_t bytes_sent;
    int64_t bytes_received;
    int64_t elapsed_ns;
    int32_t first_error;    /* an error code that was seen, 0: none */
    int32_t failed_fd;      /* the connection that ended the run, -1: none */
    uint64_t *latency;      /* given: KF_LOAD_BUCKETS counters */
    uint64_t *end_to_end;   /* given, likewise */
    int64_t slot_ns;        /* given: requests are counted per slot of this length, 0: not */
    int64_t slots;          /* given: the number of slots */
    uint64_t *slot_requests;
} kf_load_result;

/* Loads for `duration_ns` or until `requests_max` were sent (0: no bound), then waits for requests in progress, at most
 * `drain_ns`. `stop` ends it early. Counts are added to `result`. Returns 0 or -errno: -EPROTO for a reply out of order
 * or malformed, -ECONNRESET for a connection that was closed, -ETIMEDOUT when the drain took too long. */
int kf_load_run(kf_load_connection *connections, int count, int64_t duration_ns, int64_t requests_max,
                int64_t drain_ns, kf_load_crc_fn crc, const volatile int *stop, kf_load_result *result);

/* The middle of a bucket's values. */
static inline uint64_t kf_load_value(uint32_t bucket) {
    uint32_t octave = bucket >> KF_LOAD_SUB_BITS, rest = bucket & ((1u << KF_LOAD_SUB_BITS) - 1);
    if (octave == 0) {
        return rest;
    }
    return (((uint64_t)rest | (1u << KF_LOAD_SUB_BITS)) << (octave - 1)) + ((1ull << (octave - 1)) >> 1);
}

static inline uint32_t kf_load_bucket(uint64_t value) {
    if (value < (1u << KF_LOAD_SUB_BITS)) {
        return (uint32_t)value;
    }
    uint32_t octave = 64u - (uint32_t)__builtin_clzll(value) - KF_LOAD_SUB_BITS;
    return (octave << KF_LOAD_SUB_BITS) | (uint32_t)((value >> (octave - 1)) & ((1u << KF_LOAD_SUB_BITS) - 1));
}

#endif
