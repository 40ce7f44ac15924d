"""Replies on their way into one write: small parts joined, large ones handed over where they are."""

from typing import final

@final
class Outgoing:
    """What one connection sends at once. Compiled code only."""

    total_bytes: int
