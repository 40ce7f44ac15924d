"""The state of one open log, and what changes it: flusher, append, lookup, trim, recovery."""
