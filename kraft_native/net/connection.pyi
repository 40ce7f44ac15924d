from typing import Protocol, final

from kraft_native.net.channel import RequestChannel
from kraft_native.net.frames import ReadWindow
from kraft_native.request.endpoint import Endpoint

class _Transport(Protocol):
    """The methods of an asyncio transport in use here."""

    def get_extra_info(self, name: str, /) -> object: ...
    def set_write_buffer_limits(self, high: int) -> None: ...
    def get_write_buffer_size(self) -> int: ...
    def writelines(self, parts: list[bytes | memoryview], /) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...

class _Listener(Protocol):
    """Creator of connections."""

    def admit(self, connection: Connection, /) -> str | None:
        """Return why the connection may not stay, as a word to count; None when it may."""

    def left(self, connection: Connection, /) -> None:
        """Note that the connection is closed, whether it was admitted or not."""

@final
class Connection(Endpoint):
    """An asyncio BufferedProtocol; pass a function that creates one to `loop.create_server`. Loop thread only."""

    channel: RequestChannel
    listener: _Listener
    peer_host: str
    """Empty before the connection is made."""
    peer_port: int
    reason: str | None
    """Reason for which it is closed or being closed; None while it is open. See `RequestChannel.closed`."""
    transport: _Transport | None
    """None before the connection is made, and after it is lost."""
    in_progress: int
    """Requests whose replies have not left."""

    def __init__(self, channel: RequestChannel, listener: _Listener) -> None: ...
    def connection_made(self, transport: _Transport) -> None: ...
    def connection_lost(self, exception: Exception | None) -> None: ...
    def get_buffer(self, size_hint: int) -> ReadWindow: ...
    def buffer_updated(self, count: int) -> None: ...
    def eof_received(self) -> bool: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...
    def delay(self, throttle_ms: int) -> int:
        """Process no request for this long."""
    def unmute(self) -> None: ...
    def hold(self) -> None:
        """Process no further input, until the connection is closed."""
    def close(self, reason: str) -> None:
        """Close at once, without replies; `reason` is counted."""
