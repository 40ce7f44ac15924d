"""Hostile and amplifying requests against a node, measured by a second client's latency."""
