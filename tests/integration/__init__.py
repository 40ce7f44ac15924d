"""A real node in a process of its own, used by unmodified clients."""
