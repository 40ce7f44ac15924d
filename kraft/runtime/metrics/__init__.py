"""Metrics of a node: their names, and their values over HTTP."""
