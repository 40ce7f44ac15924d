"""Ports for nodes whose addresses must be known before they run."""

import errno
import fcntl
import itertools
import os
import socket
import tempfile
from pathlib import Path
from typing import Final

FIRST: Final = 10_000
AFTER_LAST: Final = 32_768
"""First port of the ephemeral range (the default of `net.ipv4.ip_local_port_range`).

The system gives these ports to connections without a port of their own. One of them may therefore be taken between the
choice and the node's start.
"""


def free_ports(count: int) -> list[int]:
    """Return `count` different free ports of the loopback address.

    No other process gets one of them from here before all the others have been given out. Raises RuntimeError when so
    many are not free.
    """
    counter = Path(tempfile.gettempdir()) / f"kraft-test-ports-{os.getuid()}"
    with open(counter, "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        start = int(file.read() or FIRST)
        in_order = (*range(start, AFTER_LAST), *range(FIRST, start))
        ports = list(itertools.islice(filter(_is_free, in_order), count))
        if len(ports) < count:
            raise RuntimeError(f"{len(ports)} of the ports {FIRST} to {AFTER_LAST - 1} are free, not {count}")
        file.truncate(0)
        file.write(str(ports[-1] + 1))
    return ports


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return False
    return True
