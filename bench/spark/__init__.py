"""The Spark data source beside Spark's own Kafka connector, and beside the core without Spark."""
