/* Whether a part of a file is in the page cache, so that reading it waits for no disk. */
#ifndef KRAFT_RESIDENT_H
#define KRAFT_RESIDENT_H

#include <stddef.h>
#include <stdint.h>

/* `data` is where the file's bytes from `position` on are mapped; they are not touched. A part that cannot be judged
 * counts as present: the check must never be what keeps a reader from its data. */
int kf_resident(int fd, int64_t position, const void *data, size_t size);

#endif
