"""Turns of bounded length for work that shares the event loop with requests."""

import asyncio
import time
from typing import Final

# The loop serves requests again after this long.
TURN_SECONDS: Final = 0.005


class Turn:
    """Gives way to the loop when a turn has lasted long enough."""

    def __init__(self) -> None:
        self.until = time.monotonic() + TURN_SECONDS

    async def give_way(self) -> None:
        """Between two units of work."""
        if time.monotonic() >= self.until:
            await asyncio.sleep(0)
            self.until = time.monotonic() + TURN_SECONDS
