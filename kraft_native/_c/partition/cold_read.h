/* One thread that brings mapped file pages into memory, so that the thread that serves requests never waits for a disk.
 *
 * A range is submitted with an opaque owner and comes back through `kf_cold_take` once its pages were read. The caller
 * keeps the range mapped until then. All functions but the thread's own are for one caller's thread.
 */
#ifndef KRAFT_COLDREAD_H
#define KRAFT_COLDREAD_H

#include <stddef.h>

typedef struct kf_cold_reader kf_cold_reader;

/* NULL with *error set when memory, a descriptor or the thread is not available. */
kf_cold_reader *kf_cold_start(int *error);
/* 0 or -errno. `ahead`: bytes after the range that are mapped too and likely to be wanted next; they are requested and
 * not waited for. */
int kf_cold_submit(kf_cold_reader *reader, const void *data, size_t size, size_t ahead, void *owner);
/* The owner of a range that is done, in order of submission; NULL when none is. *error: 0, or the errno of a range that
 * must not be touched, because the device or the file fails there. */
void *kf_cold_take(kf_cold_reader *reader, int *error);
/* Becomes readable when ranges are done. The reader owns it. */
int kf_cold_eventfd(const kf_cold_reader *reader);
/* Ends the thread after the range it is at. Every owner not taken yet comes out of `kf_cold_take` afterwards. */
void kf_cold_stop(kf_cold_reader *reader);
/* Call it for a stopped and emptied reader. */
void kf_cold_free(kf_cold_reader *reader);

#endif
