"""File descriptors: as many as the system lets the process have, shared between logs and connections."""

import errno
import os
import resource
from typing import Final

from kraft_native.errors import StorageError

# What connections leave for logs, and logs for connections: a quarter where descriptors are few.
RESERVED: Final = 1024
UNLIMITED: Final = 1 << 20


def raise_limit() -> None:
    """Takes as many as the system lets this process have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def shared_max() -> int:
    """How many either side may take at most: all but the reserve of the other."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return UNLIMITED
    return max(1, min(UNLIMITED, soft - min(RESERVED, soft // 4)))


def need_one(directory: str) -> None:
    """Raises StorageError (EMFILE) when one more log would leave too few for connections: a node that nobody can ask
    helps nobody. The lowest free descriptor tells how many are taken, at least."""
    try:
        lowest = os.open("/", os.O_PATH | os.O_CLOEXEC)
        os.close(lowest)
    except OSError as error:
        raise StorageError(directory, error.errno or errno.EMFILE, "opening a log") from error
    if lowest >= shared_max():
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        raise StorageError(directory, errno.EMFILE, f"opening a log with {lowest} of at most {soft} descriptors taken, "
                                                    "the others being kept for connections")
