"""The same requests to our node and to Kafka's: every answer must be the same."""
