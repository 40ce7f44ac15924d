"""Hostile and amplifying requests against a node, while a second client's latency is watched."""
