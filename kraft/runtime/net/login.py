"""Login of this node to a listener of another, before the connection is given to its user.

A session of limited time (KIP-368) is not renewed on its connection: the connection is closed before the session ends,
and its user opens another one at once.
"""

import asyncio
import contextlib
import random
import secrets
from collections.abc import Awaitable, Callable, Generator
from typing import Final, TypeVar, cast

from kraft.config.sasl_settings import Credentials
from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.headers import decode_response_header, encode_request_header
from kraft.protocol.message import Message
from kraft.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kraft.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from kraft.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from kraft.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from kraft.raft.types import Endpoint
from kraft.runtime.net.dialer import LoginError
from kraft.security.sasl.client import MechanismErrors, SaslLogin, sasl_client
from kraft_native.base.errors import KraftError

LOGIN_SECONDS_MAX: Final = 10.0
VERSION: Final = 1
CLIENT_ID: Final = "kraft-login"
NONCE_BYTES: Final = 18
RESPONSE_BYTES_MAX: Final = 1 << 20
WINDOW_BYTES: Final = 4_096
SESSION_SHARES: Final = 0.85, 0.95
"""Shares of a session between which its connection is closed, at random: not all connections at once."""

Response = TypeVar("Response", bound=Message)


class LoginProtocol(asyncio.BufferedProtocol):
    """One request at a time on a connection that has no user yet, plain or encrypted."""

    def __init__(self) -> None:
        self._window = bytearray(WINDOW_BYTES)
        self._received = bytearray()
        self._frame: asyncio.Future[bytes] | None = None
        self._transport: asyncio.Transport | None = None
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, _size_hint: int) -> bytearray:
        return self._window

    def buffer_updated(self, count: int) -> None:
        """Complete the awaited frame."""
        self._received += self._window[:count]
        size = int.from_bytes(self._received[:4], "big", signed=True)
        if len(self._received) >= 4 and not 0 <= size <= RESPONSE_BYTES_MAX:
            self.connection_lost(None)
        elif self._frame is not None and not self._frame.done() and len(self._received) >= size + 4 > 4:
            self._frame.set_result(bytes(self._received[4:size + 4]))
            del self._received[:size + 4]

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - whatever it was, it is lost
        """End the wait for a frame."""
        self.is_lost = True
        if self._frame is not None and not self._frame.done():
            self._frame.set_exception(ConnectionResetError("the connection was closed during the login"))

    def check_open(self) -> None:
        """Raise ConnectionResetError when the other node has closed the connection."""
        if self.is_lost:
            raise ConnectionResetError("the connection was closed during the login")

    async def request(self, message: Message, response: type[Response]) -> Response:
        """Send a request, and return its answer."""
        self.check_open()
        assert self._transport is not None
        api = API_BY_KEY[message.API_KEY]
        content = encode_request_header(api, VERSION, 0, CLIENT_ID) + message.encode(VERSION)
        self._frame = asyncio.get_running_loop().create_future()
        self._transport.write(len(content).to_bytes(4, "big") + content)
        _, body = decode_response_header(await self._frame, api, VERSION)
        return response.decode(body, VERSION)


class LoginIdentity:
    """Identity of this node for the listeners of one name. Tokens are fetched by one thread at a time: connections
    wait for it on the loop. Loop thread only."""

    def __init__(self, login: Credentials) -> None:
        self._login = login
        self._fetching = asyncio.Lock()

    async def get(self) -> SaslLogin:
        """Return the identity, with a valid token where it needs one. Raises `LoginError`."""
        login = self._login
        if login.token is None:
            return SaslLogin(login.mechanism, login.username, login.password, by_token=login.by_token)
        # Imported here: a node without OAUTHBEARER starts without its libraries.
        from kraft.oauth.http import ProviderError
        from kraft.oauth.token_source import source_of
        async with self._fetching:
            try:
                token = await asyncio.get_running_loop().run_in_executor(None, source_of(login.token).token)
            except ProviderError as error:
                raise LoginError(f"no token for {login.username!r}: {error}") from error
        return SaslLogin(login.mechanism, login.username, token=token, extensions=login.token.extensions)

    async def log_in(self, endpoint: Endpoint, make: Callable[[], asyncio.BaseProtocol],
                     connect: Callable[[Callable[[], asyncio.BaseProtocol]], Awaitable[asyncio.Transport]]
                     ) -> asyncio.Transport:
        """Connect by `connect`, log in, and give the connection to the protocol of `make`. Raises OSError, with the
        connection closed, and nothing else."""
        identity = await self.get()
        exchange = LoginProtocol()
        return await _log_in(endpoint, await connect(lambda: exchange), exchange, identity, make)


async def _log_in(endpoint: Endpoint, transport: asyncio.Transport, exchange: LoginProtocol, login: SaslLogin,
                 make: Callable[[], asyncio.BaseProtocol]) -> asyncio.Transport:
    """Log in, then connect the protocol of `make`. Raises OSError, with the connection closed, and nothing else."""
    what = f"{endpoint.host}:{endpoint.port}: user {login.username!r} by {login.mechanism}"
    unreadable = ""
    lifetime_ms = 0
    try:
        async with asyncio.timeout(LOGIN_SECONDS_MAX):
            lifetime_ms = await _exchange(exchange, login, what)
        exchange.check_open()
    except KraftError as error:        # its traceback holds views of the answer: it ends here
        unreadable = str(error)
    except BaseException:
        transport.abort()
        raise
    if unreadable:
        transport.abort()
        raise LoginError(f"{what}: {unreadable}")
    protocol = make()
    transport.pause_reading()          # event loops choose how to read when they begin to
    transport.set_protocol(protocol)
    transport.resume_reading()
    protocol.connection_made(transport)
    if lifetime_ms > 0:
        share = random.uniform(*SESSION_SHARES)
        asyncio.get_running_loop().call_later(lifetime_ms / 1000 * share, transport.abort)
    return transport


async def _exchange(exchange: LoginProtocol, login: SaslLogin, what: str) -> int:
    """Run the mechanism. Returns the life of the session; 0: no limit."""
    answer = await exchange.request(SaslHandshakeRequest(mechanism=login.mechanism), SaslHandshakeResponse)
    if answer.error_code:
        offered = f"only {', '.join(answer.mechanisms)}" if answer.mechanisms else "no SASL"
        raise LoginError(f"{what}: the listener has {offered}")
    run = sasl_client(login, secrets.token_urlsafe(NONCE_BYTES))
    message: bytes | None = _next(run, None, what)
    lifetime_ms = 0
    while message is not None:
        found = await exchange.request(SaslAuthenticateRequest(auth_bytes=message), SaslAuthenticateResponse)
        if found.error_code:
            raise LoginError(f"{what}: {found.error_message or found.error_code}")
        lifetime_ms = found.session_lifetime_ms
        # Thousands of hashes, which would keep the loop from everything else.
        message = await asyncio.get_running_loop().run_in_executor(None, _next, run, found.auth_bytes, what)
    return lifetime_ms


def _next(run: Generator[bytes, bytes, None], answer: bytes | None, what: str) -> bytes | None:
    """Return the next message, None when the run is complete. The first one needs no answer."""
    try:
        with contextlib.suppress(StopIteration):
            return next(run) if answer is None else run.send(answer)
    except MechanismErrors as error:
        raise LoginError(f"{what}: {error}") from error
    return None
