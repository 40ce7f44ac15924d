"""Batches to columns and back: Arrow, numpy, lines of JSON."""
