"""Batches of a format younger than ours at the end of a segment; for compiled callers only."""
