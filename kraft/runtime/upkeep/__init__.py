"""Upkeep of the logs between requests: retention, compaction, checkpoints."""
