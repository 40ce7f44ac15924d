"""Partitions: role, high watermark, waiting requests, reads from the device."""
