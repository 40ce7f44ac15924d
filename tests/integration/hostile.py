"""Raw connections to a node, and what hostile peers send over them."""

import contextlib
import re
import resource
import socket
import struct
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from kraft.protocol.apis import API_BY_NAME
from kraft.protocol.headers import decode_response_header, encode_request_header
from kraft.protocol.message import Message
from tests.integration.process import NodeProcess

CLOSE_SECONDS: Final = 10.0


def framed(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def request(name: str, version: int, body: bytes, correlation_id: int = 7) -> bytes:
    """Frame a request with a proper header and any body."""
    return framed(encode_request_header(API_BY_NAME[name], version, correlation_id, "hostile") + body)


class Peer:
    """One connection. `source` is the local address that it connects from."""

    def __init__(self, node: NodeProcess, source: str = "127.0.0.1") -> None:
        self.socket = socket.create_connection(("127.0.0.1", node.port), 5, source_address=(source, 0))
        self.socket.settimeout(CLOSE_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Send all data, unless the node has closed the connection meanwhile."""
        with contextlib.suppress(ConnectionError):
            self.socket.sendall(data)

    def rest(self) -> bytes:
        """Return all that comes until the node closes the connection. Raise `TimeoutError` if it does not close."""
        parts: list[bytes] = []
        with contextlib.suppress(ConnectionError):
            while part := self.socket.recv(1 << 16):
                parts.append(part)
        return b"".join(parts)

    def reply(self) -> bytes:
        """Return the next reply, without its length."""
        size = int.from_bytes(self._exactly(4), "big")
        return self._exactly(size)

    def exchange(self, message: Message, version: int) -> Message:
        """Return the answer to a proper request."""
        api = API_BY_NAME[type(message).__name__.removesuffix("Request")]
        self.send(request(api.name, version, message.encode(version)))
        header, body = decode_response_header(self.reply(), api, version)
        assert header.correlation_id == 7
        return api.response.decode(body, version, exact=True)

    def _exactly(self, count: int) -> bytes:
        parts = b""
        while len(parts) < count:
            part = self.socket.recv(count - len(parts))
            assert part, f"the node closed after {len(parts)} of {count} bytes"
            parts += part
        return parts


def closed_without_a_word(node: NodeProcess, data: bytes) -> None:
    """Check that the node closes the connection and sends nothing."""
    with Peer(node) as peer:
        peer.send(data)
        assert peer.rest() == b""


def descriptors(node: NodeProcess) -> Counter[str]:
    """Count the open descriptors of the node's process by what they refer to: a file, or a kind of other object."""
    found: Counter[str] = Counter()
    for path in Path(f"/proc/{node.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):    # closed meanwhile
            found[re.sub(r"\[\d+\]$", "", str(path.readlink()))] += 1
    return found


def peak_bytes(node: NodeProcess) -> int:
    """Return the largest memory that the process ever had, mapped files included."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{node.pid}/status").read_text("ascii"))
    assert found is not None
    return int(found.group(1)) * 1024


@contextlib.contextmanager
def many_descriptors(count: int) -> Iterator[None]:
    """Let this process and those that it starts open so many descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        count = min(count, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def seconds_of(function: object) -> float:
    """Return the seconds that a call without arguments takes."""
    assert callable(function)
    began = time.monotonic()
    function()
    return time.monotonic() - began
