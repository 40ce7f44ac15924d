"""Connections of the HTTP servers in memory: what a protocol of uvicorn receives and what it writes."""

import asyncio
from typing import Any


class Transport(asyncio.Transport):
    """A connection that keeps what is written."""

    def __init__(self) -> None:
        super().__init__({"peername": ("a", 1), "sockname": ("b", 2)})
        self.written = b""
        self.unsent = 0
        self.closed = asyncio.Event()
        self.aborted = asyncio.Event()

    def write(self, data: Any) -> None:
        self.written += data

    def close(self) -> None:
        self.closed.set()

    def abort(self) -> None:
        self.aborted.set()

    def is_closing(self) -> bool:
        return self.closed.is_set() or self.aborted.is_set()

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


def connected(kind: type[Any], app: Any) -> tuple[Any, Transport]:
    import uvicorn
    from uvicorn.server import ServerState

    config = uvicorn.Config(app, http=kind, ws="none", lifespan="off", log_config=None, log_level="error")
    protocol, transport = kind(config=config, server_state=ServerState(), app_state={}), Transport()
    protocol.connection_made(transport)
    return protocol, transport
