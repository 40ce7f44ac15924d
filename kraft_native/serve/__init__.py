"""Produce and Fetch."""
