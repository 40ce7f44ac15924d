#define _GNU_SOURCE
#include "bench/load_generator.h"

#include "base/batch_layout.h"
#include "bench/stamp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    LENGTH_BYTES = 4,
    CORRELATION_IN_REQUEST = 4,     /* after the length: key, version, correlation id */
    COPY_BYTES_MAX = 16 << 10,      /* smaller frames are gathered, so that many go with one system call */
    OUT_BYTES = 256 << 10,
    IN_BYTES = 256 << 10,
    REPLY_BYTES_MAX = 1 << 30,
    SCAN_BYTES = 2 << 10,           /* read at once where the next batch header is expected among large batches */
    LARGE_BATCH_BYTES = 8 << 10,
    WAKE_BYTES = 256 << 10,         /* bytes of a large reply that may gather before they are processed */
    EVENTS_MAX = 256,
};

typedef struct connection_state {
    uint8_t *out;           /* gathered frames */
    const uint8_t *in_place; /* or the one large frame that is being sent */
    size_t out_begin, out_end, out_capacity;
    bool large;             /* frames go from their own memory */
    uint8_t *in;
    size_t in_end, in_capacity;
    int64_t *due;           /* ring: when each request in progress was due */
    int64_t sent, answered; /* requests; `sent` counts those put out, even if not yet on the wire */
    int64_t first_frame;    /* place in the pool of request 0 */
    int64_t next_due;
    int64_t next_offset;
    bool wants_write;
    /* A Fetch reply that is processed as it arrives: the bytes left to consume, the part of them that is records, and
     * the bytes to drop next. */
    bool in_reply;
    size_t reply_left, records_left, drop;
    size_t scan_bytes;
    int wake_bytes;         /* the socket becomes readable from this many bytes on */
} connection_state;

typedef struct load_run {
    kf_load_connection *connections;
    int count;
    int epoll;
    kf_load_crc_fn crc;
    kf_load_result *result;
    int64_t begin, end;
    int64_t sent, sent_max;
} load_run;

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void watch(load_run *run, kf_load_connection *connection, int operation, bool write) {
    struct epoll_event event = {.events = EPOLLIN | (write ? EPOLLOUT : 0), .data.ptr = connection};
    ((connection_state *)connection->state)->wants_write = write;
    epoll_ctl(run->epoll, operation, connection->fd, &event);
}

static kf_load_frame *frame_of(const kf_load_connection *connection, int64_t request) {
    const connection_state *state = connection->state;
    return &connection->frames[(state->first_frame + request) % connection->frame_count];
}

/* Puts correlation id, counter, offset and stamp of the next request into its frame. */
static void prepare(load_run *run, kf_load_connection *connection, kf_load_frame *frame, int64_t due) {
    connection_state *state = connection->state;
    const kf_load_shape *shape = connection->shape;
    uint8_t *body = frame->bytes + LENGTH_BYTES;
    store_be32(body + CORRELATION_IN_REQUEST, (uint32_t)state->sent);
    if (shape->fetch_offset >= 0) {
        store_be64(body + shape->fetch_offset, (uint64_t)state->next_offset);
    }
    if (shape->counter >= 0) {
        store_be32(body + shape->counter, connection->counter);
    }
    connection->counter++;
    if (frame->stamp >= 0 && frame->batch >= 0) {
        uint8_t *batch = body + frame->batch;
        store_be64(batch + frame->stamp, (uint64_t)due);
        size_t checked = (size_t)frame->batch_bytes - BATCH_ATTRIBUTES;
        store_be32(batch + BATCH_CRC, run->crc(0, batch + BATCH_ATTRIBUTES, checked));
    }
}

static int flush_out(load_run *run, kf_load_connection *connection) {
    connection_state *state = connection->state;
    const uint8_t *from = state->in_place != NULL ? state->in_place : state->out;
    while (state->out_begin < state->out_end) {
        ssize_t count = send(connection->fd, from + state->out_begin, state->out_end - state->out_begin, MSG_NOSIGNAL);
        if (count < 0) {
            if (errno == EINTR) {
                continue;
            }
            if (errno != EAGAIN) {
                return -errno;
            }
            if (!state->wants_write) {
                watch(run, connection, EPOLL_CTL_MOD, true);
            }
            return 0;
        }
        state->out_begin += (size_t)count;
        run->result->bytes_sent += count;
    }
    state->out_begin = state->out_end = 0;
    state->in_place = NULL;
    if (state->wants_write) {
        watch(run, connection, EPOLL_CTL_MOD, false);
    }
    return 0;
}

static bool may_send(const load_run *run, const kf_load_connection *connection, int64_t now) {
    const connection_state *state = connection->state;
    return now < run->end && (run->sent_max == 0 || run->sent < run->sent_max) &&
           state->sent - state->answered < connection->in_flight &&
           (connection->interval_ns == 0 || state->next_due <= now);
}

/* Counts the content of a request that the server accepted. */
static void count_accepted(load_run *run, const kf_load_connection *connection, int64_t request) {
    const kf_load_frame *frame = frame_of(connection, request);
    run->result->accepted_records += frame->records;
    run->result->accepted_bytes += frame->batch_bytes;
}

static void count_request(load_run *run, int64_t now) {
    kf_load_result *result = run->result;
    result->requests++;
    if (result->slot_ns > 0) {
        int64_t slot = (now - run->begin) / result->slot_ns;
        if (slot >= 0 && slot < result->slots) {
            result->slot_requests[slot]++;
        }
    }
}

/* Sends due requests. Small frames are gathered; a large one goes from its own memory, one at a time. */
static int pump(load_run *run, kf_load_connection *connection, int64_t now) {
    connection_state *state = connection->state;
    while (may_send(run, connection, now)) {
        kf_load_frame *frame = frame_of(connection, state->sent);
        if (state->large ? state->out_end > 0 : state->out_end + frame->size > state->out_capacity) {
            int status = flush_out(run, connection);
            if (status < 0 || state->out_end > 0) {
                return status;
            }
            continue;
        }
        int64_t due = connection->interval_ns ? state->next_due : now;
        prepare(run, connection, frame, due);
        state->next_due += connection->interval_ns;
        state->due[state->sent % connection->in_flight] = due;
        state->sent++;
        run->sent++;
        if (state->large) {
            state->in_place = frame->bytes;
            state->out_end = frame->size;
        } else {
            memcpy(state->out + state->out_end, frame->bytes, frame->size);
            state->out_end += frame->size;
        }
        if (connection->no_reply) {
            count_accepted(run, connection, state->answered);
            state->answered++;
            count_request(run, now);
        }
    }
    return state->out_end > 0 ? flush_out(run, connection) : 0;
}

/* Reads a batch's header: the offset after it. Returns the batch's size. */
static size_t take_batch_header(load_run *run, connection_state *state, const uint8_t *batch) {
    state->next_offset = (int64_t)load_be64(batch) + (int32_t)load_be32(batch + BATCH_LAST_OFFSET_DELTA) + 1;
    run->result->records += load_be32(batch + BATCH_RECORD_COUNT);
    return LOG_OVERHEAD_BYTES + (size_t)load_be32(batch + BATCH_LENGTH);
}

/* Begins with the records of a reply of `size` bytes, which has arrived at least up to the records. */
static int begin_records(load_run *run, kf_load_connection *connection, const uint8_t *reply, size_t size,
                         size_t *records_bytes) {
    size_t position = (size_t)connection->shape->records + 4;
    if (position > size) {
        return -EPROTO;
    }
    int32_t announced = (int32_t)load_be32(reply + connection->shape->records);
    *records_bytes = announced > 0 ? (size_t)announced : 0;
    if (*records_bytes > size - position) {
        return -EPROTO;
    }
    if (*records_bytes == 0 && connection->wrap) {
        ((connection_state *)connection->state)->next_offset = connection->first_offset;
    }
    run->result->records_bytes += (int64_t)*records_bytes;
    return 0;
}

/* Walks the batches of a Fetch reply: finds where to read on, and how long ago each was due. */
static int take_records(load_run *run, kf_load_connection *connection, const uint8_t *reply, size_t size, int64_t now) {
    const kf_load_shape *shape = connection->shape;
    size_t left;
    int status = begin_records(run, connection, reply, size, &left);
    const uint8_t *batch = reply + shape->records + 4;
    while (status == 0 && left >= BATCH_HEADER_BYTES) {
        if (LOG_OVERHEAD_BYTES + (size_t)load_be32(batch + BATCH_LENGTH) > left) {
            break;  /* a batch that was cut at the reply's limit */
        }
        size_t batch_bytes = take_batch_header(run, connection->state, batch);
        const uint8_t *stamp = connection->reads_stamps ? find_stamp(batch, batch_bytes) : NULL;
        if (stamp != NULL) {
            int64_t due = (int64_t)load_be64(stamp);
            if (due >= run->begin && due <= now) {
                run->result->end_to_end[kf_load_bucket((uint64_t)(now - due))]++;
            }
        }
        batch += batch_bytes;
        left -= batch_bytes;
    }
    return status;
}

/* Records that the oldest request was answered. */
static void count_reply(load_run *run, kf_load_connection *connection, int64_t now) {
    connection_state *state = connection->state;
    int64_t due = state->due[state->answered % connection->in_flight];
    state->answered++;
    if (!connection->reads_stamps) {  /* a reader beside producers waits for them: that is no latency of a request */
        run->result->latency[kf_load_bucket((uint64_t)(now > due ? now - due : 0))]++;
        count_request(run, now);
    }
}

/* Checks that a reply of `size` bytes is the next one. 1 when it has an error code, which is counted; else 0. */
static int check_reply(load_run *run, kf_load_connection *connection, const uint8_t *reply, size_t size) {
    const connection_state *state = connection->state;
    const kf_load_shape *shape = connection->shape;
    if (size < 4 || state->answered == state->sent || load_be32(reply) != (uint32_t)state->answered) {
        return -EPROTO;
    }
    if (shape->error < 0) {
        return 0;
    }
    if ((size_t)shape->error + 2 > size) {
        return -EPROTO;
    }
    int16_t error = (int16_t)(reply[shape->error] << 8 | reply[shape->error + 1]);
    if (error != 0) {
        run->result->errors++;
        run->result->first_error = error;
    }
    return error != 0;
}

static int take_reply(load_run *run, kf_load_connection *connection, const uint8_t *reply, size_t size, int64_t now) {
    int status = check_reply(run, connection, reply, size);
    if (status < 0) {
        return status;
    }
    if (status == 0) {
        count_accepted(run, connection, ((connection_state *)connection->state)->answered);
    }
    count_reply(run, connection, now);
    return status == 0 && connection->shape->records >= 0 ? take_records(run, connection, reply, size, now) : 0;
}

static int grow_in(connection_state *state, size_t wanted) {
    if (wanted <= state->in_capacity) {
        return 0;
    }
    uint8_t *in = realloc(state->in, wanted);
    if (in == NULL) {
        return -ENOMEM;
    }
    state->in = in;
    state->in_capacity = wanted;
    return 0;
}

/* Takes every whole reply out of the buffer and moves the rest to its front. */
static int take_replies(load_run *run, kf_load_connection *connection, int64_t now) {
    connection_state *state = connection->state;
    size_t position = 0;
    while (state->in_end - position >= LENGTH_BYTES) {
        size_t size = load_be32(state->in + position);
        if (size > REPLY_BYTES_MAX) {
            return -EPROTO;
        }
        if (state->in_end - position < LENGTH_BYTES + size) {
            int status = grow_in(state, LENGTH_BYTES + size);
            if (status < 0) {
                return status;
            }
            break;
        }
        int status = take_reply(run, connection, state->in + position + LENGTH_BYTES, size, now);
        if (status < 0) {
            return status;
        }
        position += LENGTH_BYTES + size;
    }
    if (position > 0) {
        memmove(state->in, state->in + position, state->in_end - position);
        state->in_end -= position;
    }
    return 0;
}

/* Begins with the reply at `at`, of which `have` bytes have arrived: 0 when that is too little, else the bytes to skip.
 * */
static ssize_t begin_scan(load_run *run, kf_load_connection *connection, const uint8_t *at, size_t have) {
    connection_state *state = connection->state;
    size_t records = (size_t)connection->shape->records + 4;
    if (have < LENGTH_BYTES) {
        return 0;
    }
    size_t size = load_be32(at);
    if (size > REPLY_BYTES_MAX) {
        return -EPROTO;
    }
    size_t head = size < records ? size : records;
    if (have < LENGTH_BYTES + head) {
        return 0;
    }
    int status = check_reply(run, connection, at + LENGTH_BYTES, size);
    state->records_left = 0;
    if (status == 0) {
        status = begin_records(run, connection, at + LENGTH_BYTES, size, &state->records_left);
    }
    state->in_reply = true;
    state->reply_left = size - head;
    return status < 0 ? status : (ssize_t)(LENGTH_BYTES + head);
}

/* Consumes the arrived part of Fetch replies. Of a batch it reads the header; `drop` is the part of the batch that is
 * still to come and of no interest. */
static int scan_replies(load_run *run, kf_load_connection *connection) {
    connection_state *state = connection->state;
    size_t position = 0;
    for (;;) {
        const uint8_t *at = state->in + position;
        size_t have = state->in_end - position;
        if (state->drop > 0) {
            size_t count = state->drop < have ? state->drop : have;
            position += count;
            state->drop -= count;
            if (state->drop > 0) {
                break;
            }
        } else if (!state->in_reply) {
            ssize_t count = begin_scan(run, connection, at, have);
            if (count <= 0) {
                if (count < 0) {
                    return (int)count;
                }
                break;
            }
            position += (size_t)count;
        } else if (state->records_left >= BATCH_HEADER_BYTES) {
            if (have < BATCH_HEADER_BYTES) {
                break;
            }
            size_t batch_bytes = LOG_OVERHEAD_BYTES + (size_t)load_be32(at + BATCH_LENGTH);
            bool whole = batch_bytes <= state->records_left;     /* the last may be cut at the reply's limit */
            state->drop = whole ? take_batch_header(run, state, at) : state->records_left;
            state->records_left -= state->drop;
            state->reply_left -= state->drop;
            state->scan_bytes = batch_bytes < LARGE_BATCH_BYTES ? IN_BYTES : SCAN_BYTES;
        } else if (state->reply_left > 0) {
            state->drop = state->reply_left;
            state->records_left = state->reply_left = 0;
        } else {
            state->in_reply = false;
            count_reply(run, connection, now_ns());
        }
    }
    memmove(state->in, state->in + position, state->in_end - position);
    state->in_end -= position;
    return 0;
}

/* Sleeps on while a reply arrives: waking a client that copies nothing, for each segment, costs the server much. */
static void set_wake(kf_load_connection *connection) {
    connection_state *state = connection->state;
    size_t left = state->in_reply ? state->drop + state->reply_left - state->in_end : 1;
    int wanted = left > WAKE_BYTES ? WAKE_BYTES : left > 0 ? (int)left : 1;
    if (wanted != state->wake_bytes) {
        setsockopt(connection->fd, SOL_SOCKET, SO_RCVLOWAT, &wanted, sizeof wanted);
        state->wake_bytes = wanted;
    }
}

/* Receives Fetch replies without reading their batches. Most bytes are discarded in place: on loopback a copy of them
 * would cost as much as the server's part. */
static int receive_scanned(load_run *run, kf_load_connection *connection) {
    connection_state *state = connection->state;
    for (;;) {
        size_t room = state->drop > 0 ? state->drop : state->scan_bytes - state->in_end;
        ssize_t count = state->drop > 0 ? recv(connection->fd, NULL, room, MSG_TRUNC)
                                        : recv(connection->fd, state->in + state->in_end, room, 0);
        if (count < 0 && errno == EAGAIN) {
            set_wake(connection);
            return 0;
        }
        if (count <= 0) {
            return count == 0 ? -ECONNRESET : errno == EINTR ? 0 : -errno;
        }
        run->result->bytes_received += count;
        if (state->drop > 0) {
            state->drop -= (size_t)count;
        } else {
            state->in_end += (size_t)count;
        }
        int status = state->drop > 0 ? 0 : scan_replies(run, connection);
        if (status < 0) {
            return status;
        }
    }
}

static int receive(load_run *run, kf_load_connection *connection) {
    connection_state *state = connection->state;
    if (connection->shape->records >= 0 && !connection->reads_stamps) {
        return receive_scanned(run, connection);
    }
    for (;;) {
        size_t room = state->in_capacity - state->in_end;
        ssize_t count = recv(connection->fd, state->in + state->in_end, room, 0);
        if (count < 0) {
            return errno == EAGAIN || errno == EINTR ? 0 : -errno;
        }
        if (count == 0) {
            return -ECONNRESET;
        }
        state->in_end += (size_t)count;
        run->result->bytes_received += count;
        int status = take_replies(run, connection, now_ns());
        if (status < 0 || (size_t)count < room) {
            return status;
        }
    }
}

static int start_connection(load_run *run, kf_load_connection *connection, int index) {
    connection_state *state = calloc(1, sizeof *state);
    connection->state = state;
    if (state == NULL) {
        return -ENOMEM;
    }
    for (int i = 0; i < connection->frame_count; i++) {
        state->large = state->large || connection->frames[i].size > COPY_BYTES_MAX;
    }
    state->first_frame = connection->next_frame;
    state->out_capacity = state->large ? 0 : OUT_BYTES;
    state->in_capacity = IN_BYTES;
    state->scan_bytes = SCAN_BYTES;
    state->wake_bytes = 1;
    state->out = state->large ? NULL : malloc(OUT_BYTES);
    state->in = malloc(IN_BYTES);
    state->due = calloc((size_t)connection->in_flight, sizeof *state->due);
    if ((!state->large && state->out == NULL) || state->in == NULL || state->due == NULL) {
        return -ENOMEM;
    }
    state->next_offset = connection->first_offset;
    /* Due times of the connections are spread over one interval, so that they do not come in bursts. */
    state->next_due = run->begin + connection->interval_ns * index / run->count;
    watch(run, connection, EPOLL_CTL_ADD, false);
    return 0;
}

static void end_connection(kf_load_connection *connection) {
    connection_state *state = connection->state;
    if (state != NULL) {
        state->in_reply = false;
        set_wake(connection);
        connection->next_frame = (int)((state->first_frame + state->sent) % connection->frame_count);
        connection->first_offset = connection->wrap ? connection->first_offset : state->next_offset;
        free(state->out);
        free(state->in);
        free(state->due);
        free(state);
        connection->state = NULL;
    }
}

/* Nanoseconds until the next request is due or the run ends, whichever comes first. */
static int64_t time_to_wait(const load_run *run, int64_t now, int64_t deadline) {
    int64_t until = now < run->end ? run->end : deadline;
    for (int i = 0; now < run->end && i < run->count; i++) {
        const connection_state *state = run->connections[i].state;
        bool full = state->sent - state->answered >= run->connections[i].in_flight;
        if (run->connections[i].interval_ns > 0 && !full && state->next_due < until) {
            until = state->next_due;
        }
    }
    return until > now ? until - now : 0;
}

static bool all_answered(const load_run *run) {
    for (int i = 0; i < run->count; i++) {
        const connection_state *state = run->connections[i].state;
        if (state->sent > state->answered || state->out_end > 0) {
            return false;
        }
    }
    return true;
}

static int pump_all(load_run *run, int64_t now) {
    for (int i = 0; i < run->count; i++) {
        int status = pump(run, &run->connections[i], now);
        if (status < 0) {
            run->result->failed_fd = run->connections[i].fd;
            return status;
        }
    }
    return 0;
}

static int serve_events(load_run *run, int64_t wait_ns) {
    struct epoll_event events[EVENTS_MAX];
    struct timespec wait = {.tv_sec = wait_ns / 1000000000, .tv_nsec = wait_ns % 1000000000};
    int count = epoll_pwait2(run->epoll, events, EVENTS_MAX, &wait, NULL);
    if (count < 0) {
        return errno == EINTR ? 0 : -errno;
    }
    for (int i = 0; i < count; i++) {
        kf_load_connection *connection = events[i].data.ptr;
        int status = 0;
        if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
            status = receive(run, connection);
        }
        if (status == 0 && (events[i].events & EPOLLOUT)) {
            status = flush_out(run, connection);
        }
        if (status == 0) {
            status = pump(run, connection, now_ns());
        }
        if (status < 0) {
            run->result->failed_fd = connection->fd;
            return status;
        }
    }
    return 0;
}

int kf_load_run(kf_load_connection *connections, int count, int64_t duration_ns, int64_t requests_max,
                int64_t drain_ns, kf_load_crc_fn crc, const volatile int *stop, kf_load_result *result) {
    load_run run = {.connections = connections, .count = count, .crc = crc, .result = result, .sent_max = requests_max};
    run.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (run.epoll < 0) {
        return -errno;
    }
    result->failed_fd = -1;
    run.begin = now_ns();
    run.end = run.begin + duration_ns;
    int status = 0;
    for (int i = 0; i < count && status == 0; i++) {
        status = start_connection(&run, &connections[i], i);
    }
    int64_t deadline = run.end + drain_ns;
    while (status == 0) {
        int64_t now = now_ns();
        if (*stop || (requests_max > 0 && run.sent >= requests_max)) {
            run.end = now < run.end ? now : run.end;
            deadline = run.end + drain_ns;
        }
        if (now >= run.end && all_answered(&run)) {
            break;
        }
        if (now >= deadline) {
            status = -ETIMEDOUT;
            break;
        }
        status = pump_all(&run, now);
        if (status == 0) {
            int64_t wait = time_to_wait(&run, now_ns(), deadline);
            status = serve_events(&run, wait < 100000000 ? wait : 100000000);
        }
    }
    int64_t ended = now_ns();
    result->elapsed_ns += (ended < run.end ? ended : run.end) - run.begin;
    for (int i = 0; i < count; i++) {
        end_connection(&connections[i]);
    }
    close(run.epoll);
    return status;
}
