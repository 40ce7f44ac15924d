"""The audit of a node: its settings, the queues of its events, and the files that they are written to."""
