"""One blocking connection to one node: a request, then its response."""

import socket
import ssl
import time
from typing import Final, Self, TypeVar

from kraft._version import __version__
from kraft.client.sasl import SaslError, authenticate, login_of
from kraft.client.security import Security, current
from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.headers import decode_response_header, encode_request_header
from kraft.protocol.message import Message
from kraft.protocol.messages.api_versions_request import ApiVersionsRequest
from kraft.protocol.messages.api_versions_response import ApiVersionsResponse
from kraft.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kraft.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from kraft.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from kraft.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from kraft_native.base.errors import KraftError, UnsupportedVersionError

RESPONSE_BYTES_MAX: Final = 1 << 30
RECEIVE_STEP_BYTES: Final = 8 << 20
TIMEOUT_SECONDS_DEFAULT: Final = 30.0
# An address that does not answer by then counts as dead; the same limit holds for the other side's part of TLS.
CONNECT_SECONDS: Final = 4.0
# Share of a session after which it is renewed, as in Kafka's clients.
SESSION_SHARE: Final = 0.85
# A server refuses it and lists those that it has.
NO_MECHANISM: Final = "NONE"

Response = TypeVar("Response", bound=Message)


class ConnectionFailedError(KraftError, ConnectionError):
    """The node could not be reached, closed the connection, or did not answer in time; the message names it."""


class UnreachableError(ConnectionFailedError):
    """No process accepts connections at the address."""


class ClosedError(ConnectionFailedError):
    """The node closed the connection."""


class AuthenticationError(ConnectionFailedError):
    """The server's certificate is not trusted, the server does not accept the user, or its listener has another
    security protocol; a retry does not help."""


class Connection:
    """Connection that the constructor opens, including the query for the server's versions; a context manager. One
    thread uses it at a time.

    `security` None means the `current` one. Raises `UnreachableError` when no process answers at the address within
    `connect_timeout` seconds, `ConnectionFailedError` when the node itself does not within `timeout`, and
    `AuthenticationError`.
    """

    def __init__(self, host: str, port: int, *, client_id: str = "kraft", timeout: float = TIMEOUT_SECONDS_DEFAULT,
                 security: Security | None = None, connect_timeout: float = CONNECT_SECONDS) -> None:
        self.host, self.port = host, port
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        security = current() if security is None else security
        self.client_id = security.client_id or client_id
        self.timeout = timeout
        self._frame = bytearray()
        """Memory of the previous answer, reused because new pages for each answer cost as much as receiving it.
        Messages copy what they keep."""
        self._correlation_id = 0
        self._security = security
        self._authenticate_at: float | None = None
        """Time of the monotonic clock at which the session is to be renewed; None: never, or just being renewed."""
        self._served = bool(security.mechanism)
        """Set once a request was answered that a listener with SASL refuses to unknown clients."""
        try:
            self.socket = socket.create_connection((host, port), min(timeout, connect_timeout))
        except OSError as error:
            raise UnreachableError(f"{self.address}: cannot connect: {error}") from error
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            if security.tls:
                self.socket = self._encrypted(security, host)
            self.versions = self._first_answer()
            if security.mechanism:
                self._authenticate(security)
        except BaseException:
            self.socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket. May be called twice."""
        self.socket.close()

    def version(self, api_key: int, at_most: int | None = None) -> int:
        """Return the newest version of an API that both sides support, not above `at_most`.

        Raises `UnsupportedVersionError` when there is none.
        """
        api = API_BY_KEY[api_key]
        low, high = self.versions.get(api_key, (0, -1))
        ours = api.versions
        best = min(high, ours.stop - 1, api.latest_stable, *(() if at_most is None else (at_most,)))
        if best < max(low, ours.start):
            offered = f"versions {low} to {high}" if high >= 0 else "none"
            raise UnsupportedVersionError(f"{self.address}: {api.name} is needed in versions {ours.start} to "
                                          f"{ours.stop - 1}; the server offers {offered}")
        return best

    def send(self, request: Message, response: type[Response], *, version: int | None = None,
             timeout: float | None = None) -> Response:
        """Send `request` and wait for its answer, by default in the newest common version.

        Raises `ConnectionFailedError` when the connection ends or `timeout` passes. It then closes the connection,
        because a late answer would be mistaken for the next one. Raises `MalformedMessageError` for an unreadable
        answer.
        """
        version = self.version(request.API_KEY) if version is None else version
        self.post(request, version, timeout=timeout)
        return self.answer(request, response, version, timeout=timeout)

    def post(self, request: Message, version: int, *, timeout: float | None = None) -> None:
        """Send `request` only; call `answer` for it before the next request. Raises as `send`."""
        if self._authenticate_at is not None and time.monotonic() >= self._authenticate_at:
            self._authenticate_at = None
            self._authenticate(self._security)
        self._correlation_id += 1
        try:
            self.socket.settimeout(self.timeout if timeout is None else timeout)
            self.socket.sendall(self.frame(request, version, self._correlation_id))
        except OSError as error:
            raise self._failed(request, error) from error

    def answer(self, request: Message, response: type[Response], version: int, *,
               timeout: float | None = None) -> Response:
        """Wait for the answer to the posted request. Raises as `send`."""
        try:
            body = self._answer(request, version, self.timeout if timeout is None else timeout)
        except ClosedError as error:
            is_query = request.API_KEY == SaslHandshakeRequest.API_KEY     # that of `_offered` itself
            if not self._served and not is_query and (mechanisms := self._offered()):
                raise AuthenticationError(f"{self.address}: the listener requires SASL ({', '.join(mechanisms)}), and "
                                          f"security.protocol is {self._security.protocol}") from error
            raise
        self._served = self._served or request.API_KEY != ApiVersionsRequest.API_KEY
        return response.decode(body, version)

    def frame(self, request: Message, version: int, correlation_id: int = 0) -> bytes:
        """Encode `request` for the wire, with its length in front."""
        api = API_BY_KEY[request.API_KEY]
        content = encode_request_header(api, version, correlation_id, self.client_id) + request.encode(version)
        return len(content).to_bytes(4, "big") + content

    def _answer(self, request: Message, version: int, timeout: float) -> memoryview:
        deadline = time.monotonic() + timeout
        try:
            size = int.from_bytes(self._receive(4, deadline), "big", signed=True)
            if not 4 <= size <= RESPONSE_BYTES_MAX:
                raise ConnectionFailedError(f"{self.address}: announced an answer of {size} bytes")
            frame = self._receive(size, deadline)
        except OSError as error:
            raise self._failed(request, error) from error
        header, body = decode_response_header(frame, API_BY_KEY[request.API_KEY], version)
        if header.correlation_id != self._correlation_id:
            self.close()
            raise ConnectionFailedError(f"{self.address}: answered request {header.correlation_id}, "
                                        f"not {self._correlation_id}")
        return body

    def _failed(self, request: Message, error: OSError) -> ConnectionFailedError:
        """Close the connection and return the error that describes the failure."""
        self.close()
        if isinstance(error, ConnectionFailedError):
            return error
        if is_alert(error):
            return AuthenticationError(f"{self.address}: the server ended TLS: {error}")
        if isinstance(error, ConnectionResetError | BrokenPipeError | ssl.SSLEOFError):
            return ClosedError(f"{self.address}: {type(request).__name__}: {error}")
        return ConnectionFailedError(f"{self.address}: {type(request).__name__}: {error}")

    def _receive(self, size: int, deadline: float) -> memoryview:
        frame = self._frame if len(self._frame) >= size else bytearray(min(size, RECEIVE_STEP_BYTES))
        received = 0
        while received < size:
            if received == len(frame):  # grows with the received bytes, not with the announced length
                frame.extend(bytes(min(len(frame), size - received)))
            self.socket.settimeout(max(deadline - time.monotonic(), 0.001))
            with memoryview(frame) as view:
                count = self.socket.recv_into(view[received:size])
            if not count:
                raise ClosedError(f"{self.address}: closed the connection")
            received += count
        if len(frame) <= RECEIVE_STEP_BYTES:
            self._frame = frame
        return memoryview(frame)[:size]

    def _encrypted(self, security: Security, host: str) -> ssl.SSLSocket:
        try:
            self.socket.settimeout(min(self.timeout, CONNECT_SECONDS))
            return security.context().wrap_socket(self.socket, server_hostname=host)
        except ssl.SSLCertVerificationError as error:
            raise AuthenticationError(f"{self.address}: the server's certificate is not trusted: "
                                      f"{error.verify_message}") from error
        except OSError as error:
            raise AuthenticationError(f"{self.address}: no TLS connection, is this a listener with TLS? {error}"
                                      ) from error

    def _authenticate(self, security: Security) -> None:
        what = f"{self.address}: user {security.username!r} by {security.mechanism}"
        if SaslHandshakeRequest.API_KEY not in self.versions:
            raise AuthenticationError(f"{what}: the listener has no SASL")
        answer = self.send(SaslHandshakeRequest(mechanism=security.mechanism), SaslHandshakeResponse)
        if answer.error_code:
            offered = f"only {', '.join(answer.mechanisms)}" if answer.mechanisms else "no SASL"
            raise AuthenticationError(f"{what}: the listener has {offered}")

        lifetime_ms = 0

        def exchange(message: bytes) -> bytes:
            nonlocal lifetime_ms
            found = self.send(SaslAuthenticateRequest(auth_bytes=message), SaslAuthenticateResponse)
            if found.error_code:
                raise AuthenticationError(f"{what}: not accepted: {found.error_message or found.error_code}")
            lifetime_ms = found.session_lifetime_ms
            return found.auth_bytes

        try:
            authenticate(login_of(security), exchange)
        except SaslError as error:
            raise AuthenticationError(f"{what}: {error}") from error
        if lifetime_ms > 0:
            self._authenticate_at = time.monotonic() + lifetime_ms / 1000 * SESSION_SHARE

    def _first_answer(self) -> dict[int, tuple[int, int]]:
        """Query the server's versions. A listener with TLS ends the connection when it receives a plain request, or
        misses the client's certificate. The alert that explains it may be lost."""
        try:
            return self._request_versions()
        except ClosedError as error:
            if self._security.tls and not self._security.has_certificate:
                raise AuthenticationError(f"{error}; does the listener require a client certificate "
                                          "(ssl.keystore.location)?") from error
            if not self._security.tls and speaks_tls(self.host, self.port):
                raise AuthenticationError(f"{self.address}: the listener requires TLS, and security.protocol is "
                                          f"{self._security.protocol}") from error
            raise

    def _offered(self) -> list[str]:
        """Return the SASL mechanisms of the listener, queried on another connection; none when it has no SASL."""
        try:
            with Connection(self.host, self.port, client_id=self.client_id, timeout=min(self.timeout, CONNECT_SECONDS),
                            security=self._security) as other:
                return other.send(SaslHandshakeRequest(mechanism=NO_MECHANISM), SaslHandshakeResponse).mechanisms
        except KraftError:
            return []

    def _request_versions(self) -> dict[int, tuple[int, int]]:
        """Query the server's versions in our newest version, then in the oldest if the server does not know that one.
        """
        request = ApiVersionsRequest(client_software_name="kraft", client_software_version=__version__)
        for version in (API_BY_KEY[request.API_KEY].latest_stable, 0):
            self.post(request, version)
            body = self._answer(request, version, self.timeout)
            if body[:2] == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big") and version:
                continue
            answer = ApiVersionsResponse.decode(body, version)
            return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
        raise ConnectionFailedError(f"{self.address}: does not report its versions")


def is_alert(error: OSError) -> bool:
    """Return whether the error is an alert of TLS: a message of the other side, not the loss of the connection."""
    return isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or "")


def speaks_tls(host: str, port: int) -> bool:
    """Return whether the address answers in TLS. Neither side is authenticated, and nothing is sent afterwards."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection((host, port), CONNECT_SECONDS) as plain, \
                context.wrap_socket(plain, server_hostname=host):
            return True
    except OSError as error:
        return is_alert(error)
