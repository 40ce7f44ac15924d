"""Deadline of work that is not due at any time."""

from typing import Final

NEVER_MS: Final = 1 << 62
"""Later than every time, and still an int64 after a time-out was added."""
