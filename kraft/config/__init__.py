"""Settings: Kafka's tables of them, the checks of their values, and the value in force."""
