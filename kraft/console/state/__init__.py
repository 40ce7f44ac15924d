"""View models: what a page shows, read by the protocol of Kafka. No module here knows HTTP."""
