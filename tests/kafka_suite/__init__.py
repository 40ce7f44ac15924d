"""Apache Kafka's own compiled integration tests, run against nodes of this checkout."""
