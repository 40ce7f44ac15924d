"""Batches of a format newer than ours at the end of a segment; for compiled callers only."""
