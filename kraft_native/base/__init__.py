"""Constants, bytes, clocks, errors, checksums and the primitives of Kafka's messages."""
