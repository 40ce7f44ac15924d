"""Time limit of the servers that browsers and devices reach: until the head of a request is complete.

The server's own limit is one for connections between two requests. It ends with the first byte of the next one.
"""

import asyncio
from typing import Final

HEAD_SECONDS: Final = 30.0
"""Time for the line and the headers of a request, from the connection or from the first byte after an answer on."""


class HeadTimer:
    """Timer of one connection, which it closes. Used on the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport) -> None:
        """Start the timer: the connection was made."""
        self._loop = loop
        self._transport = transport
        self._timer: asyncio.TimerHandle | None = None
        self.note(is_idle=True)

    def note(self, *, is_idle: bool) -> None:
        """Take note of bytes that came. `is_idle`: no request is in progress, so they are part of a head."""
        if not is_idle:
            self.cancel()
        elif self._timer is None and not self._transport.is_closing():
            self._timer = self._loop.call_later(HEAD_SECONDS, self._transport.abort)

    def cancel(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
