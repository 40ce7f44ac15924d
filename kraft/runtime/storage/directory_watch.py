"""Watch on the directories that a node has open: one that is removed, emptied or unmounted is noticed within seconds.

Open files outlive their directory, so that appends would succeed long after the disk with their names is missing. A
directory counts as lost in three cases:

- Its path leads to another directory, or to none.
- `meta.properties` in it is missing.
- The device does not answer for `DEADLINE_SECONDS`, such as a network file system whose server is dead.

Each check of a directory has its own thread. A device that hangs thus stops neither the loop, nor the checks of the
other directories, nor the end of the process.
"""

import _thread
import asyncio
import errno
import logging
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from kraft.runtime.storage.formatting import META_PROPERTIES
from kraft_native.base.errors import StorageError

log = logging.getLogger(__name__)

PERIOD_SECONDS: Final = 1.0
# Longer than a fail-over of a network file system or a busy disk takes: a lost directory returns only at the next
# start.
DEADLINE_SECONDS: Final = 30.0

Identity = tuple[int, int]


def identity(path: Path) -> Identity:
    """Identity of the directory at a path; another one in its place differs. Raises `OSError` when it is missing."""
    found = os.stat(path)
    return found.st_dev, found.st_ino


class DirectoryWatch:
    """The periodic checks. Loop thread only. `on_lost(path, cause)` is called once for each lost directory. All
    directories must exist at the start."""

    def __init__(self, paths: Iterable[Path], on_lost: Callable[[Path, StorageError], object]) -> None:
        self._known = {path: identity(path) for path in paths}
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._tasks = [self._loop.create_task(self._run(path)) for path in self._known]

    async def close(self) -> None:
        """Stop, even while a check waits for its device. May be called again."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, path: Path) -> None:
        while path in self._known:
            await asyncio.sleep(PERIOD_SECONDS)
            await self._check(path)

    async def look(self) -> None:
        """Check every directory once."""
        await asyncio.gather(*map(self._check, list(self._known)))

    async def _check(self, path: Path) -> None:
        if path not in self._known:
            return
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                cause = await self._begin(path, self._known[path])
        except TimeoutError:
            cause = StorageError(os.fspath(path), errno.ETIMEDOUT,
                                 f"no answer within {DEADLINE_SECONDS:g} s, looking for the directory")
        if cause is not None and self._known.pop(path, None) is not None:
            log.error("directory %s is lost: %s", path, cause)
            self._on_lost(path, cause)

    def _begin(self, path: Path, known: Identity) -> "asyncio.Future[StorageError | None]":
        """Check a directory in a thread; return the future result."""
        found: asyncio.Future[StorageError | None] = self._loop.create_future()

        def work() -> None:
            cause = _loss(path, known)
            with suppress(RuntimeError):           # the check outlasted the loop, which is closed
                self._loop.call_soon_threadsafe(_settle, found, cause)

        # `Thread.start` would make the loop wait until the system runs the thread.
        _thread.start_new_thread(work, ())
        return found


def _settle(found: "asyncio.Future[StorageError | None]", cause: StorageError | None) -> None:
    if not found.done():
        found.set_result(cause)


def _loss(path: Path, known: Identity) -> StorageError | None:
    try:
        if identity(path) != known:
            return StorageError(os.fspath(path), errno.ENOENT, "another directory has taken its place")
        os.stat(path / META_PROPERTIES)
    except OSError as error:
        return StorageError(str(error.filename or path), error.errno or errno.EIO, "looking for the directory")
    return None
