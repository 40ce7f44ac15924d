from typing import final

@final
class ReadWindow:
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
    def waiting_users(self) -> int: ...

@final
class FrameReader: ...
