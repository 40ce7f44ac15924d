"""Whole nodes, beside Apache Kafka's."""
