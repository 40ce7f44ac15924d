"""SASL on the listeners of a node: requests of the exchange, failures and their delay, counts and the log."""

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

from kraft.config.effective import BrokerLayers, broker_integer
from kraft.config.node_config import NodeConfig
from kraft.config.oauth_settings import TokenRules
from kraft.config.sasl_settings import sasl_settings
from kraft.metadata.image import MetadataImage
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.error_names import bounded
from kraft.protocol.message import Message
from kraft.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kraft.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from kraft.runtime.base.bounded_log import BoundedLog
from kraft.runtime.net.gates import OnRequest
from kraft.runtime.net.requests import now_ms as wall_clock_ms
from kraft.runtime.net.server import Server
from kraft.security.principal import Principal
from kraft.security.sasl.exchange import RAW, Answer, Exchange, SaslListener, credentials_in
from kraft.security.sasl.mechanism import Work
from kraft.security.sasl.oauthbearer import Check
from kraft.security.sasl.scram import ScramCredential, TokenCredential
from kraft.security.sasl.tokens import token_credential
from kraft.security.tokens import parse_principal
from kraft_native.net.channel import RequestChannel
from kraft_native.net.connection import Connection
from kraft_native.request.reply import Reply

if TYPE_CHECKING:
    from kraft.runtime.audit.node_audit import NodeAudit
    from kraft.runtime.net.token_checks import TokenChecks

log = logging.getLogger(__name__)

NONCE_BYTES: Final = 18
SECRET_BYTES: Final = 32
LOGGED_PER_SECOND: Final = 10
NO_SESSION_END: Final = -1
OF_EXCHANGE: Final = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.API_VERSIONS)
"""Requests that are served here. ApiVersions arrives only where a token is expected."""
TOKENS_KEPT: Final = 1_024
"""Derived credentials of delegation tokens that are kept."""
BEFORE_A_HANDSHAKE: Final = "none"
"""Mechanism under which failures before a handshake are counted."""


def new_nonce() -> str:
    """Draw the server's part of a nonce."""
    return secrets.token_urlsafe(NONCE_BYTES)


class AuthenticationLog:
    """Failed authentications of all listeners in the log, at a bounded rate: peers cannot fill the disk. `audit`
    returns the node's audit, which has those that succeeded, too."""

    def __init__(self, clock_ms: Callable[[], int], audit: "Callable[[], NodeAudit | None]" = lambda: None) -> None:
        self._audit = audit
        self._log = BoundedLog(log, clock_ms, period_ms=1000, lines_max=LOGGED_PER_SECOND,
                               omitted="%d more failed authentications are not logged")

    def failed(self, connection: Connection, listener: str, mechanism: str, why: str, claimed: str = "") -> None:
        """Log one failure, unless this second has had its share. `claimed`: the user that the client claimed to be."""
        if (audit := self._audit()) is not None:
            audit.login_failed(listener, connection.peer_host, connection.peer_port, mechanism, why, claimed)
        self._log.put("authentication of %s:%d on listener %s by %s failed: %s", connection.peer_host,
                          connection.peer_port, listener, mechanism, bounded(why))

    def succeeded(self, reply: Reply, listener: str, mechanism: str, principal: Principal) -> None:
        """Note a success, which is not logged."""
        if (audit := self._audit()) is not None:
            audit.logged_in(reply, listener, mechanism, principal)


class SaslGate:
    """Authentication on one listener. Loop thread only.

    `serve` serves all other requests. `listener` may be replaced: the next exchange uses it. `successes` and `failures`
    count since the start, by mechanism.
    """

    def __init__(self, listener: SaslListener, serve: OnRequest, failures: AuthenticationLog,
                 clock_ms: Callable[[], int], *, timeout_ms: int, failure_delay_ms: int) -> None:
        self.listener = listener
        self.successes: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self._serve = serve
        self._log = failures
        self._clock_ms = clock_ms
        self._timeout_ms = timeout_ms
        self._failure_delay_ms = failure_delay_ms
        self._working: set[asyncio.Task[None]] = set()

    def admit(self, connection: Connection) -> None:
        """Demand that a new connection authenticates itself."""
        connection.exchange = Exchange(self.listener)
        self._demand(connection)

    def on_request(self, reply: Reply, api_key: int, version: int, body: bytes) -> None:
        """Serve a request of the exchange here, and others elsewhere. A malformed one raises `ProtocolError`."""
        connection = reply.sink
        if api_key not in OF_EXCHANGE or not isinstance(connection, Connection):
            self._serve(reply, api_key, version, body)
            return
        exchange = connection.exchange
        assert isinstance(exchange, Exchange)
        if api_key == ApiKey.API_VERSIONS:
            self._answer(connection, exchange, reply, version, exchange.api_versions())
            return
        now_ms = self._clock_ms()
        if exchange.is_open:
            if connection.is_authenticated and not (api_key == ApiKey.SASL_HANDSHAKE
                                                    and exchange.may_begin_again(now_ms)):
                self._serve(reply, api_key, version, body)
                return
            exchange.listener = self.listener
            self._demand(connection)
        if api_key == ApiKey.SASL_HANDSHAKE:
            wanted = SaslHandshakeRequest.decode(body, version).mechanism
            answer = exchange.handshake(version, wanted)
        elif version == RAW:
            answer = exchange.raw(body, now_ms, wall_clock_ms())
        else:
            message = SaslAuthenticateRequest.decode(body, version).auth_bytes
            answer = exchange.authenticate(version, message, now_ms, wall_clock_ms())
        self._answer(connection, exchange, reply, version, answer)

    def _answer(self, connection: Connection, exchange: Exchange, reply: Reply, version: int, answer: Answer) -> None:
        """Send the answer, now or after the work that it needs: until then the connection is not read."""
        if answer.work is not None:
            task = asyncio.ensure_future(self._work(connection, exchange, reply, version, answer.work))
            self._working.add(task)
            task.add_done_callback(self._working.discard)
            return
        if answer.failure is not None:
            self._fail(connection, exchange, reply, answer)
            return
        if exchange.is_open:
            assert exchange.principal is not None
            self.successes[exchange.mechanism] += 1
            self._log.succeeded(reply, self.listener.settings.listener, exchange.mechanism, exchange.principal)
            ends_ms = exchange.began_ms + exchange.session_ms if exchange.session_ms else NO_SESSION_END
            connection.authenticated(exchange.principal, ends_ms)
        elif exchange.is_raw:
            connection.expect_tokens()
        else:
            connection.pass_api_versions()
        _send(reply, answer)

    async def _work(self, connection: Connection, exchange: Exchange, reply: Reply, version: int,
                    work: Work) -> None:
        if work.ready is not None:
            await work.ready()
        result = await asyncio.get_running_loop().run_in_executor(None, work.run)
        answer = exchange.worked(work, result, version, self._clock_ms(), wall_clock_ms())
        self._answer(connection, exchange, reply, version, answer)

    def _demand(self, connection: Connection) -> None:
        connection.demand_exchange(self._clock_ms() + self._timeout_ms, self.listener.settings.receive_bytes_max)

    def _fail(self, connection: Connection, exchange: Exchange, reply: Reply, answer: Answer) -> None:
        """Answer and close after the delay: a client that guesses passwords has to wait for each answer."""
        assert answer.failure is not None
        mechanism = exchange.mechanism or BEFORE_A_HANDSHAKE
        self.failures[mechanism] += 1
        self._log.failed(connection, self.listener.settings.listener, mechanism, answer.failure, exchange.claimed)
        asyncio.get_running_loop().call_later(self._failure_delay_ms / 1000, _end, connection, reply, answer)


class SaslGates:
    """Gates of a node's listeners with SASL. `image` returns the metadata that has the credentials of SCRAM."""

    def __init__(self, config: NodeConfig, server: Server, image: Callable[[], MetadataImage]) -> None:
        self._config = config
        self._server = server
        self._image = image
        self._find = credentials_in(image)
        self._token_secret = str(config["delegation.token.secret.key"] or "").encode()
        # Each takes thousands of hashes, whether its client knows the token's secret or not.
        self._token_credential = lru_cache(TOKENS_KEPT)(self._derive)
        self._secret = secrets.token_bytes(SECRET_BYTES)
        self._log = AuthenticationLog(server.clock_ms, lambda: server.audit)
        self._token_checks: dict[TokenRules, TokenChecks] = {}
        self.by_listener: dict[str, SaslGate] = {}

    def channel(self, listener: str, serve: OnRequest) -> RequestChannel:
        """Create the channel of a listener, with a gate."""
        layers = self._config.layers()
        gate = SaslGate(self._listener(listener, layers), serve, self._log, self._server.clock_ms,
                        timeout_ms=broker_integer("kraft.authentication.timeout.ms", layers),
                        failure_delay_ms=broker_integer("connection.failed.authentication.delay.ms", layers))
        self.by_listener[listener] = gate
        channel = self._server.channel(listener, gate.on_request)
        self._server.gates[channel] = gate
        return channel

    def reconfigure(self, layers: BrokerLayers) -> None:
        """Apply the settings in force to later logins. Raises `InvalidConfigError`, and leaves a listener as it is, for
        settings that cannot work."""
        try:
            for name, gate in self.by_listener.items():
                if (changed := self._listener(name, layers)).settings != gate.listener.settings:
                    gate.listener = changed
                    log.info("listener %s: the users or mechanisms of SASL changed (%s)", name,
                             ", ".join(changed.settings.mechanisms))
        finally:
            self._end_unused_checks()

    def check(self, layers: BrokerLayers) -> None:
        """Raise `InvalidConfigError` for settings that `reconfigure` would refuse."""
        for name in self.by_listener:
            sasl_settings(name, layers)

    def close(self) -> None:
        """End what fetches the keys of tokens."""
        for each in self._token_checks.values():
            each.close()

    def _end_unused_checks(self) -> None:
        used = {gate.listener.settings.tokens for gate in self.by_listener.values()}
        for rules in self._token_checks.keys() - used:
            self._token_checks.pop(rules).close()

    def _listener(self, name: str, layers: BrokerLayers) -> SaslListener:
        settings = sasl_settings(name, layers)
        check = None if settings.tokens is None else self._check(settings.tokens)
        return SaslListener(settings, self._find, new_nonce, self._secret, check, self._find_token)

    def _derive(self, mechanism: str, token_id: str) -> ScramCredential:
        return token_credential(self._token_secret, mechanism, token_id, self._secret)

    def _find_token(self, mechanism: str, token_id: str) -> TokenCredential | None:
        """Return the credential of a delegation token."""
        token = self._image().delegation_tokens.get(token_id) if self._token_secret else None
        if token is None:
            return None
        expires_ms = min(token.expiration_timestamp, token.max_timestamp)
        return TokenCredential(parse_principal(token.owner).name, expires_ms,
                               partial(self._token_credential, mechanism, token_id))

    def _check(self, rules: TokenRules) -> Check:
        """Return what checks tokens by these rules. The keys are fetched from the first use on."""
        if rules not in self._token_checks:
            # Imported here: a node without OAUTHBEARER starts without its libraries.
            from kraft.runtime.net.token_checks import TokenChecks
            self._token_checks[rules] = TokenChecks(rules)
        return self._token_checks[rules].check


def _end(connection: Connection, reply: Reply, answer: Answer) -> None:
    connection.end("authentication")
    _send(reply, answer)


def _send(reply: Reply, answer: Answer) -> None:
    if answer.message is not None:
        message: Message = answer.message
        reply.answer(message.encode(reply.api_version),
                     API_BY_KEY[reply.api_key].response_header_version(reply.api_version))
    elif answer.token is not None:
        reply.finish([answer.token])
    else:
        reply.refuse("authentication")
