"""File descriptors: as many as the system allows the process, shared between logs and connections."""

import errno
import os
import resource
from typing import Final

from kraft_native.base.errors import StorageError

# Descriptors that connections leave for logs; logs leave half of them for connections. A quarter where few exist.
RESERVED: Final = 1024
UNLIMITED: Final = 1 << 20


def raise_limit() -> None:
    """Raise the limit to the system's maximum for this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _reserve(soft: int) -> int:
    return min(RESERVED, soft // 4)


def default_connections_max() -> int:
    """Number of descriptors, less the reserve."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return UNLIMITED
    return max(1, min(UNLIMITED, soft - _reserve(soft)))


def logs_max(soft: int) -> int:
    """Number of descriptors in use, for whatever, up to which a log may open one more. Above the maximum of
    connections."""
    return soft - _reserve(soft) // 2


def need_one(directory: str) -> None:
    """Raise StorageError (EMFILE) when one more log would leave too few descriptors for connections: a node that no
    client can reach is of no use. The lowest free descriptor shows how many are in use, at least."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return
    try:
        lowest = os.open("/", os.O_PATH | os.O_CLOEXEC)
        os.close(lowest)
    except OSError as error:
        raise StorageError(directory, error.errno or errno.EMFILE, "opening a log") from error
    if lowest >= logs_max(soft):
        raise StorageError(directory, errno.EMFILE, f"opening a log with {lowest} of at most {soft} descriptors taken, "
                                                    "the others being kept for connections")
