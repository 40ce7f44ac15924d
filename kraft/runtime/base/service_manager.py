"""Reports to the service manager that has started this process: systemd's protocol of notifications (sd_notify(3)).

    manager = ServiceManager.of(os.environ)     # None without one
    manager.notify(READY, status="ready")

A notification is one datagram of lines `NAME=VALUE` to the socket that `NOTIFY_SOCKET` names. Nothing answers, and a
manager that cannot be reached changes nothing.
"""

import logging
import os
import socket
from collections.abc import Mapping, MutableMapping
from typing import Final

log = logging.getLogger(__name__)

SOCKET: Final = "NOTIFY_SOCKET"
WATCHDOG_US: Final = "WATCHDOG_USEC"
WATCHDOG_PID: Final = "WATCHDOG_PID"

READY: Final = "READY=1"
"""The start has ended, and the node serves."""
STOPPING: Final = "STOPPING=1"
"""The node ends."""
ALIVE: Final = "WATCHDOG=1"
"""The node's loop runs."""
EXTENDED_SECONDS: Final = 30
EXTENDED: Final = f"EXTEND_TIMEOUT_USEC={EXTENDED_SECONDS * 1_000_000}"
"""The start or the stop continues, and may take as long again."""


def encode(*assignments: str, status: str = "") -> bytes:
    """Return one notification. `status` is a text for operators; a line break in it becomes a space."""
    lines = [*assignments, *([f"STATUS={' '.join(status.split())}"] if status else [])]
    return "\n".join(lines).encode()


def watchdog_seconds(environment: Mapping[str, str], pid: int) -> float | None:
    """Return the time after which a process without a sign of life is killed; None without a watchdog on `pid`."""
    texts = environment.get(WATCHDOG_US, ""), environment.get(WATCHDOG_PID, "")
    if not texts[0].isascii() or not texts[0].isdecimal() or int(texts[0]) == 0:
        return None
    return None if texts[1] and texts[1] != str(pid) else int(texts[0]) / 1e6


class ServiceManager:
    """The manager at one socket. Any thread; no call waits. `watchdog_seconds`: see the function of that name."""

    def __init__(self, address: str, watchdog_seconds: float | None = None) -> None:
        """`address`: a path, or `@` and a name in the abstract name space."""
        self.watchdog_seconds = watchdog_seconds
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._has_failed = False

    @classmethod
    def of(cls, environment: MutableMapping[str, str], pid: int | None = None) -> "ServiceManager | None":
        """Return the manager that the environment names; None without one. Its variables are removed, so that child
        processes do not report in this one's name."""
        address = environment.pop(SOCKET, "")
        seconds = watchdog_seconds(environment, os.getpid() if pid is None else pid)
        for name in (WATCHDOG_US, WATCHDOG_PID):
            environment.pop(name, None)
        return cls(address, seconds) if address.startswith(("/", "@")) else None

    def notify(self, *assignments: str, status: str = "") -> None:
        """Send one notification."""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:
                sender.connect(self._address)
                sender.send(encode(*assignments, status=status))
        except OSError as error:
            if not self._has_failed:
                log.warning("the service manager cannot be notified: %s", error)
            self._has_failed = True
        else:
            self._has_failed = False
