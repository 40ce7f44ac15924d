"""Settings: Kafka's tables of them, what may be set, and which value counts."""
