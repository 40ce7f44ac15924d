"""Loads any server that speaks Kafka's protocol, and measures it: what `kraft bench` runs."""
