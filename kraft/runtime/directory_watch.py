"""Watches directories that a node has open: one that is removed, emptied or unmounted is noticed within seconds.

Files that are open outlive their directory, so that appends would succeed long after the disk with their names is
missing. A directory counts as lost when its path leads to another one or to none, or when `meta.properties` in it is
missing. A thread of its own looks: a device that hangs does not stop the loop.
"""

import asyncio
import errno
import logging
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final

from kraft.runtime.storage import META_PROPERTIES
from kraft_native.errors import StorageError

log = logging.getLogger(__name__)

PERIOD_SECONDS: Final = 1.0

Identity = tuple[int, int]


def identity(path: Path) -> Identity:
    """What tells the directory of that path from another one that takes its place. `OSError` when it is missing."""
    found = os.stat(path)
    return found.st_dev, found.st_ino


class DirectoryWatch:
    """Loop thread only. `on_lost(path, cause)` is called once for each directory that is lost. They must exist now."""

    def __init__(self, paths: Iterable[Path], on_lost: Callable[[Path, StorageError], object]) -> None:
        self._known = {path: identity(path) for path in paths}
        self._on_lost = on_lost
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kraft-directories")
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Ends it. May be called again."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        self._thread.shutdown(wait=False)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(PERIOD_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Looks at every directory once."""
        for path, cause in await asyncio.get_running_loop().run_in_executor(self._thread, self._find_lost):
            if self._known.pop(path, None) is not None:
                log.error("directory %s is lost: %s", path, cause)
                self._on_lost(path, cause)

    def _find_lost(self) -> list[tuple[Path, StorageError]]:
        return [(path, cause) for path, known in list(self._known.items()) if (cause := _loss(path, known)) is not None]


def _loss(path: Path, known: Identity) -> StorageError | None:
    try:
        if identity(path) != known:
            return StorageError(os.fspath(path), errno.ENOENT, "another directory has taken its place")
        os.stat(path / META_PROPERTIES)
    except OSError as error:
        return StorageError(str(error.filename or path), error.errno or errno.EIO, "looking for the directory")
    return None
