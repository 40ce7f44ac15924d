"""Slices of bounded length for work that shares the event loop with requests."""

import asyncio
import time
from typing import Final

# Length of a slice; then the loop serves requests again.
TURN_SECONDS: Final = 0.005


class Turn:
    """A slice of work, which yields to the loop when it has lasted long enough."""

    def __init__(self) -> None:
        self.until = time.monotonic() + TURN_SECONDS

    async def give_way(self) -> None:
        """Yield between two units of work, if the slice has ended."""
        if time.monotonic() >= self.until:
            await asyncio.sleep(0)
            self.until = time.monotonic() + TURN_SECONDS
