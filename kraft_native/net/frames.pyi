"""Frames out of a byte stream in bounded memory, and the memory of all streams together."""

from typing import final

@final
class ReadWindow:
    """Writable memory for one read."""

    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class RequestMemory:
    """Memory that the requests of all connections hold together: partial frames, frames that wait their turn, bodies
    that the Python side processes, and answers until they are sent. One per node; loop thread only."""

    limit_bytes: int
    used_bytes: int
    """Limited to `limit_bytes` and one largest frame, apart from the last few kilobytes of each connection."""
    peak_bytes: int
    unread_bytes: int
    """Answers that clients leave unread; at most half of `limit_bytes`."""
    cut_total: int
    """Connections that were closed to keep that bound."""

    def __init__(self, limit_bytes: int) -> None: ...
    @property
    def waiting_users(self) -> int:
        """Connections that are not read because memory is used up."""

@final
class FrameReader:
    """One connection's stream, cut into frames. Compiled code only."""
