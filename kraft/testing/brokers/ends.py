"""The two ends of a simulated connection, as transports of the compiled protocols on them."""

from collections import deque
from typing import Final, Protocol

from kraft.testing.brokers.frames import SIZE_BYTES, Decode
from kraft.testing.brokers.wire import Connection
from kraft_native.net.channel import RequestChannel
from kraft_native.net.connection import Connection as Server
from kraft_native.net.frames import ReadWindow
from kraft_native.replica.replica_fetch import ReplicaFetcher


class Receiver(Protocol):
    """A compiled protocol that reads into its own memory."""

    def get_buffer(self, size_hint: int, /) -> ReadWindow: ...
    def buffer_updated(self, count: int, /) -> None: ...


def receive(receiver: Receiver, data: bytes) -> None:
    """Deliver bytes as an event loop does."""
    while data:
        with memoryview(receiver.get_buffer(len(data))) as room:
            count = min(len(room), len(data))
            room[:count] = data[:count]
        receiver.buffer_updated(count)
        data = data[count:]


class _Listener:
    """A listener that admits every connection."""

    def admit(self, _connection: Server, /) -> str | None:
        return None

    def left(self, _connection: Server, /) -> None: ...


LISTENER: Final = _Listener()


class ServerEnd:
    """The end at the broker that accepted the connection."""

    def __init__(self, connection: Connection, channel: RequestChannel) -> None:
        self._connection = connection
        self._unanswered: deque[tuple[int, Decode | None]] = deque()
        self._unread: deque[bytes] = deque()
        self._is_reading = True
        self._server = Server(channel, LISTENER)
        self._server.connection_made(self)

    @property
    def is_to_follower(self) -> bool:
        """Return whether the next answer is sent as it is."""
        return self._unanswered[0][1] is None

    def serve(self, number: int, frame: bytes, decode: Decode | None) -> None:
        """Receive the frame of request `number`. `decode` translates the answer; None: it is sent as it is."""
        self._unanswered.append((number, decode))
        self._unread.append(frame)
        self._read()

    def _read(self) -> None:
        while self._unread and self._is_reading:
            receive(self._server, self._unread.popleft())

    def left(self) -> None:
        """React to the end of the connection at the other side."""
        self._server.connection_lost(None)

    # --- the transport of the server ---

    def get_extra_info(self, _name: str, /) -> object:
        return None

    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def writelines(self, parts: list[bytes | memoryview], /) -> None:
        data = b"".join(parts)
        while data:
            size = int.from_bytes(data[:SIZE_BYTES], "big")
            self._answer(data[:SIZE_BYTES + size])
            data = data[SIZE_BYTES + size:]

    def _answer(self, frame: bytes) -> None:
        number, decode = self._unanswered.popleft()
        self._connection.reply(number, frame if decode is None else decode(frame[SIZE_BYTES:]))

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        self._read()

    def close(self) -> None:
        self._connection.reset_soon()

    def abort(self) -> None:
        self._connection.reset_soon()


class FetcherEnd:
    """The end at the follower that opened the connection, broker `owner_id`."""

    def __init__(self, connection: Connection, fetcher: ReplicaFetcher) -> None:
        self._connection = connection
        self._fetcher = fetcher
        self.owner_id = connection.source.id
        connection.on_lost = self._lost
        fetcher.connection_made(self)  # type: ignore[arg-type]

    def _lost(self) -> None:
        self._fetcher.connection_lost(None)

    def _answered(self, answer: object) -> None:
        if isinstance(answer, bytes):
            receive(self._fetcher, answer)

    def get_extra_info(self, _name: str, /) -> object:
        return None

    def write(self, request: bytes) -> None:
        if self._connection.is_open:
            self._connection.request(request, self._answered)

    def abort(self) -> None:
        self._connection.close()
        self._lost()
