"""A real node in a process of its own, met by unmodified clients."""
