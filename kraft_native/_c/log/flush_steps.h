/* The flusher's remaining steps for one log, in order. The caller holds the flusher's lock. */
#ifndef KRAFT_FLUSH_STEPS_H
#define KRAFT_FLUSH_STEPS_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum step_kind { STEP_NOTHING, STEP_FILE, STEP_DIRECTORY };

/* One call to make. When it and all steps before it are done, everything below `end` is durable. */
typedef struct step {
    enum step_kind kind;
    int fd;
    char *path;
    int64_t end;
} step;

typedef struct step_list {
    step *items;
    int count;
    int capacity;
} step_list;

static inline void clear_steps(step_list *list) {
    for (int i = 0; i < list->count; i++) free(list->items[i].path);
    list->count = 0;
}

static inline int add_step(step_list *list, enum step_kind kind, int fd, char *path, int64_t end) {
    if (list->count == list->capacity) {
        int capacity = list->capacity ? 2 * list->capacity : 4;
        step *grown = realloc(list->items, (size_t)capacity * sizeof(step));
        if (!grown) return -ENOMEM;
        list->items = grown;
        list->capacity = capacity;
    }
    list->items[list->count++] = (step){.kind = kind, .fd = fd, .path = path, .end = end};
    return 0;
}

static inline bool has_file(const step_list *list, int fd) {
    for (int i = list->count - 1; i >= 0; i--)
        if (list->items[i].kind == STEP_FILE && list->items[i].fd == fd) return true;
    return false;
}

static inline bool has_directory(const step_list *list, const char *path) {
    for (int i = 0; i < list->count; i++)
        if (list->items[i].kind == STEP_DIRECTORY && strcmp(list->items[i].path, path) == 0) return true;
    return false;
}

static inline void clamp_steps(step_list *list, int64_t end) {
    for (int i = 0; i < list->count; i++)
        if (list->items[i].end > end) list->items[i].end = end;
}

/* Removes the file from steps from `first` on. A step stays, doing nothing, because its end still has to be passed. */
static inline void void_steps(step_list *list, int first, int fd) {
    for (int i = first; i < list->count; i++)
        if (list->items[i].kind == STEP_FILE && list->items[i].fd == fd) list->items[i].kind = STEP_NOTHING;
}

#endif
