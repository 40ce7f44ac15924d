"""File descriptors: as many as the system lets the process have, shared between logs and connections."""

import errno
import os
import resource
from typing import Final

from kraft_native.errors import StorageError

# What connections leave for logs, of which logs leave a half for connections. A quarter where descriptors are few.
RESERVED: Final = 1024
UNLIMITED: Final = 1 << 20


def raise_limit() -> None:
    """Takes as many as the system lets this process have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _reserve(soft: int) -> int:
    return min(RESERVED, soft // 4)


def default_connections_max() -> int:
    """As many as there are, less the reserve."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return UNLIMITED
    return max(1, min(UNLIMITED, soft - _reserve(soft)))


def logs_max(soft: int) -> int:
    """How many may be taken, by whomever, when a log takes one more. Above what connections take at most."""
    return soft - _reserve(soft) // 2


def need_one(directory: str) -> None:
    """Raises StorageError (EMFILE) when one more log would leave too few for connections: a node that nobody can ask
    helps nobody. The lowest free descriptor tells how many are taken, at least."""
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
