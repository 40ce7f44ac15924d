from collections.abc import Callable
from typing import Any, final

from kraft_native.net.frames import RequestMemory
from kraft_native.request.client_quotas import ClientQuotas
from kraft_native.request.endpoint import Endpoint
from kraft_native.request.reply import Reply, RequestHandler
from kraft_native.request.slices import SliceQueue
from kraft_native.request.times import RequestTimes

@final
class RequestChannel:
    """Shared state of the connections of one kind of listener. Loop thread only; counters may be read at any time.

    `on_request(reply, api_key, api_version, body)` gets requests without a compiled handler. It answers `reply` now or
    later. Unless the api is `pipelined`, it gets a request when all before it on its connection are answered, and
    nothing further is processed until it is answered. A `ProtocolError` from it, before it returns, closes the
    connection as malformed. `on_failure(exception)` gets everything else that it or a handler raises: an internal
    error, after which the connection is closed and the node should stop. `call_soon` and `call_later` are the loop's;
    the second is for connections that are muted because their client exceeded a quota. `slices`: the queue of all
    channels of the loop; None: one of its own.
    """

    name: str
    memory: RequestMemory
    times: RequestTimes
    slices: SliceQueue
    connections: dict[Endpoint, None]
    """Open connections, in the order of their arrival, which is also the order of `sweep`, `drain` and `abort`."""
    now_ms: int
    """The time of the last sweep."""
    request_bytes_max: int
    answer_bytes_max: int
    requests_in_progress_max: int
    frame_timeout_ms: int
    idle_timeout_ms: int
    reply_timeout_ms: int
    rate_min_bytes_per_second: int
    bytes_in: int
    bytes_out: int
    connections_opened: int
    requests_in_progress: int
    closed: dict[str, int]
    """Connections closed, by reason.

    - `peer`: the peer did it.
    - Refused: `connections`, `connections_per_ip`, `connection_rate`.
    - Time-outs: `frame_timeout`, `idle`, `slow_reader`.
    - Peer's fault: `frame_size`, `header`, `api_key`, `api_version`, `malformed`, `answer_size` and the reasons with
      which handlers refuse.
    - Ours: `drained`, `shutdown`, `failure`.
    """
    failed: bool
    """True once `on_failure` was called."""

    def __init__(
        self,
        name: str,
        memory: RequestMemory,
        *,
        on_request: Callable[[Reply, int, int, bytes], object],
        on_failure: Callable[[BaseException], object],
        call_soon: Callable[[Callable[[], None]], Any],
        call_later: Callable[[float, Callable[[], None]], Any] | None = None,
        slices: SliceQueue | None = None,
        request_bytes_max: int = 104857600,
        answer_bytes_max: int = 104857600,
        requests_in_progress_max: int = 256,
        frame_timeout_ms: int = 10_000,
        idle_timeout_ms: int = 600_000,
        reply_timeout_ms: int = 30_000,
        rate_min_bytes_per_second: int = 16384,
    ) -> None:
        """Set the limits of connections.

        `answer_bytes_max`: of one reply, without pages of the log; a larger one is not sent, and its connection is
        closed. `frame_timeout_ms`: from a frame's first byte to its last. `reply_timeout_ms`: how long a peer may leave
        replies unread. Both grow with the bytes that passed, at `rate_min_bytes_per_second`, so that slow lines may
        carry large frames. `idle_timeout_ms`: without any request; -1: unlimited.
        """

    def serve(
        self,
        api_key: int,
        first_version: int,
        last_version: int,
        flexible_from: int,
        handler: RequestHandler | None = None,
        *,
        pipelined: bool = False,
    ) -> None:
        """Serve an api, by a compiled handler or by `on_request`. `flexible_from` is the first version with request
        header version 2 (32767: none). `pipelined`: `on_request` gets a request at once, and further requests of its
        connection are processed meanwhile; replies keep their order. Takes effect with the next request."""

    def withdraw(self, api_key: int) -> None:
        """Close connections that send requests of this key from now on."""

    def serve_api_versions(
        self, answers: dict[int, bytes], invalid: dict[int, bytes], unsupported: bytes, flexible_from: int = 3
    ) -> None:
        """Set the bodies by version that answer ApiVersions. There is the answer, the one with INVALID_REQUEST for a
        client with an invalid name, and, in version 0, the one with UNSUPPORTED_VERSION for any other version. May be
        called again when features change."""

    def limit_clients(self, quotas: ClientQuotas) -> None:
        """Charge the time of ApiVersions to these quotas; handlers, `on_request` too, charge for what they serve."""

    def run_turn(self) -> None: ...
    def fail_later(self, cause: BaseException) -> None: ...
    def sweep(self, now_ms: int) -> None: ...
    def drain(self) -> None: ...
    def abort(self, reason: str) -> None: ...
    def requests(self) -> dict[int, int]: ...
