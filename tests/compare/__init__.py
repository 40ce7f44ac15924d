"""The same questions to our node and to Kafka's: every answer must say the same."""
