/* CRC-32C (Castagnoli), the checksum of record batches. One function, bound to the best kernel at import. */
#ifndef KRAFT_CRC32C_H
#define KRAFT_CRC32C_H
#include <stddef.h>
#include <stdint.h>
typedef uint32_t (*crc32c_fn)(uint32_t seed, const uint8_t *data, size_t size);
uint32_t crc32c_table(uint32_t seed, const uint8_t *data, size_t size);
#endif
