#include "crc32c.h"
uint32_t crc32c_table(uint32_t seed, const uint8_t *data, size_t size) {
    uint32_t crc = ~seed;
    for (size_t i = 0; i < size; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (0x82F63B78u & (0u - (crc & 1u)));
    }
    return ~crc;
}
