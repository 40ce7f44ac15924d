"""Nothing for Python callers."""
