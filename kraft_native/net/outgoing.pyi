"""Replies gathered for one write: small parts joined, large ones sent from where they are."""

from typing import final

@final
class Outgoing:
    """One write of a connection. Compiled code only."""

    total_bytes: int
