/* The message of the flusher for one log when a flush has ended. The caller holds the flusher's lock. So a caller that
 * withdraws a message knows whether it has left: it is small, and a socket accepts it at once or not at all. */
#ifndef KRAFT_FLUSH_MESSAGE_H
#define KRAFT_FLUSH_MESSAGE_H

#include "log/flusher.h"

#include <string.h>
#include <sys/socket.h>

typedef struct flush_message {
    int64_t end;  /* when this is durable, it is sent */
    int fd;
    int size;     /* 0: no message waits */
    bool sent;    /* the last one was */
    char data[KF_FLUSH_MESSAGE_BYTES_MAX];
} flush_message;

static inline void drop_message(flush_message *message) { message->size = 0; }

static inline void put_message(flush_message *message, int64_t end, int fd, const char *data, int size) {
    message->end = end;
    message->fd = fd;
    message->size = size;
    message->sent = false;
    memcpy(message->data, data, (size_t)size);
}

/* A message that the socket accepted only in part cannot be completed: the peer sees the connection end. */
static inline void send_message(flush_message *message, int64_t durable) {
    if (!message->size || durable < message->end) return;
    ssize_t sent = send(message->fd, message->data, (size_t)message->size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0 && sent < message->size) shutdown(message->fd, SHUT_RDWR);
    message->sent = sent > 0;
    message->size = 0;
}

static inline bool take_message(flush_message *message) {
    bool sent = message->sent;
    message->sent = false;
    message->size = 0;
    return sent;
}

#endif
