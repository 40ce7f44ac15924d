"""Addresses that are known before a node runs, and remain reserved while it does not."""

import os
import socket
from typing import Final

FIRST_HOST: Final = (127 << 24) + 10


def host_of(index: int) -> str:
    """Loopback address of a cluster's node. Each node has its own, so that every packet shows its sender."""
    return socket.inet_ntoa((FIRST_HOST + index).to_bytes(4, "big"))


class ReservedPort:
    """A port on `host` that no other process gets until `close`; the system chooses it when it is 0. Raises OSError,
    which names the address, when it is in use.

    The socket is bound and never listens. With SO_REUSEADDR on both sides a node can bind the same port and listen on
    it. While none does, connections are refused, as they should be when a node is dead.
    """

    def __init__(self, host: str, port: int = 0) -> None:
        self.host = host
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((host, port))
        except OSError as error:
            self._socket.close()
            raise OSError(error.errno, os.strerror(error.errno or 0), f"{host}:{port}") from error
        self.port: int = self._socket.getsockname()[1]

    def close(self) -> None:
        self._socket.close()
