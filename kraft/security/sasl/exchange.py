"""Server's side of the SASL exchange on one connection (KIP-43, KIP-152, KIP-368).

    handshake: SaslHandshake names a mechanism.
    tokens: SaslAuthenticate carries its messages; after version 0 of the handshake, frames without a header do.
    open: the client is known. A later handshake begins again, where sessions end.

Every other order ends the connection. A failure ends it too, after an answer that is the same for all of them.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kraft.config.oauth_settings import OAUTHBEARER
from kraft.config.sasl_settings import PLAIN, SaslSettings
from kraft.metadata.image import MetadataImage
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages.api_versions_response import ApiVersionsResponse
from kraft.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from kraft.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from kraft.security.principal import Principal, TokenUser
from kraft.security.sasl.mechanism import Mechanism, RefusedError, Work
from kraft.security.sasl.oauthbearer import Check, OAuthServer
from kraft.security.sasl.plain import PlainServer, PlainUsers
from kraft.security.sasl.scram import IDS, ScramCredential, ScramServer, TokenCredential

REAUTHENTICATION_MS_MIN: Final = 1_000
"""A client that begins again sooner is refused, as in Kafka."""

SESSION_MS_MAX: Final = 10 * 365 * 24 * 3_600_000
RAW: Final = -1
"""Version of a token without a header."""

FindCredential = Callable[[int, str], ScramCredential | None]
FindToken = Callable[[str, str], TokenCredential | None]
"""Returns the credential of a delegation token's id, by a mechanism."""


class Answer(NamedTuple):
    """Result of one step.

    - `message` is the response, `token` one without a header; both None: the connection is closed at once.
    - `failure` is set when the connection must be closed, after the response: the reason, for this node's log.
    - `work` is set when the response needs it first: `Exchange.worked` gets its result.
    """

    message: Message | None = None
    token: bytes | None = None
    failure: str | None = None
    work: Work | None = None


class SaslListener:
    """Settings and credentials of a listener with SASL, shared by its connections; replaced when settings change.

    - `find` returns the SCRAM credential of a mechanism and a user, None for an unknown one.
    - `draw` returns a nonce.
    - `secret` derives salts of unknown users.
    - `check` checks tokens of OAUTHBEARER, where that is enabled.
    - `find_token` returns the credential of a delegation token, None for an unknown one.
    """

    def __init__(self, settings: SaslSettings, find: FindCredential, draw: Callable[[], str], secret: bytes,
                 check: Check | None = None, find_token: FindToken = lambda _mechanism, _id: None) -> None:
        self.settings = settings
        self._check = check
        self._find_token = find_token
        self._find = find
        self._draw = draw
        self._secret = secret
        self._users = PlainUsers(settings.users)

    def begin(self, mechanism: str) -> Mechanism:
        """Begin a run of an enabled mechanism."""
        if mechanism == PLAIN:
            return PlainServer(self._users)
        if mechanism == OAUTHBEARER:
            assert self._check is not None, "the listener has no rules for tokens"
            return OAuthServer(self._check)
        number = IDS[mechanism]
        return ScramServer(mechanism, lambda name: self._find(number, name), self._draw(), self._secret,
                           lambda token: self._find_token(mechanism, token))


class Exchange:
    """Exchange of one connection."""

    def __init__(self, listener: SaslListener) -> None:
        self.listener = listener
        self.mechanism = ""
        """The mechanism of the last handshake."""
        self.principal: Principal | None = None
        """Identity of the client; None before it is proven."""
        self.session_ms = 0
        """Life of the session; 0: no limit."""
        self.began_ms = 0
        self.is_raw = False
        """Tokens come without a request header."""
        self._run: Mechanism | None = None
        self._fault: str | None = None

    @property
    def is_open(self) -> bool:
        """Return whether the exchange is complete."""
        return self.principal is not None and self._run is None

    @property
    def claimed(self) -> str:
        """Name of the user that the client claims to be in the exchange that is not complete; empty where unknown."""
        return "" if self._run is None else self._run.username

    def may_begin_again(self, now_ms: int) -> bool:
        """Return whether a handshake on the open connection begins a new exchange."""
        return self.is_open and self.session_ms > 0 and now_ms - self.began_ms >= REAUTHENTICATION_MS_MIN

    def handshake(self, version: int, mechanism: str) -> Answer:
        """Begin a run. Another mechanism than before is a failure, which the client learns with its first token."""
        if self._run is not None:
            return Answer(SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE),
                          failure="SaslHandshake came while a token was expected")
        enabled = self.listener.settings.mechanisms
        if mechanism not in enabled:
            return Answer(SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM,
                                                mechanisms=list(enabled)),
                          failure=f"the mechanism is not one of {', '.join(enabled)}")
        if self.principal is not None and mechanism != self.mechanism:
            self._fault = f"the mechanism changed from {self.mechanism}"
        self.mechanism = mechanism
        self.is_raw = version == 0
        self._run = self.listener.begin(mechanism)
        return Answer(SaslHandshakeResponse(mechanisms=list(enabled)))

    def api_versions(self) -> Answer:
        """Refuse ApiVersions, which must come before the handshake."""
        return Answer(ApiVersionsResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE),
                      failure="ApiVersions came while a token was expected")

    def authenticate(self, version: int, message: bytes, now_ms: int, wall_ms: int = 0) -> Answer:
        """Answer a token in a SaslAuthenticate of that version. `now_ms` never goes back, `wall_ms` is the time of
        day."""
        if self._run is None:
            return Answer(failure="SaslAuthenticate came before SaslHandshake")
        return self._answer(self._run, self._run.step, message, version, now_ms, wall_ms)

    def raw(self, message: bytes, now_ms: int, wall_ms: int = 0) -> Answer:
        """Answer a token without a header. A failure has no answer then."""
        if self._run is None:
            return Answer(failure="a token came before SaslHandshake")
        return self._answer(self._run, self._run.step, message, RAW, now_ms, wall_ms)

    def worked(self, work: Work, result: Any, version: int, now_ms: int, wall_ms: int) -> Answer:
        """Answer the token of that version whose work has this result."""
        assert self._run is not None, "no token waits for work"
        return self._answer(self._run, work.then, result, version, now_ms, wall_ms)

    def _answer(self, run: Mechanism, step: Callable[[Any], bytes | Work], given: Any, version: int, now_ms: int,
                wall_ms: int) -> Answer:
        try:
            token = self._token(run, step, given, now_ms, wall_ms)
        except RefusedError as error:
            message = None if version == RAW else SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
                error_message=f"Authentication failed: {self.mechanism} does not accept these credentials")
            return Answer(message, failure=str(error))
        if isinstance(token, Work):
            return Answer(work=token)
        if version == RAW:
            return Answer(token=token)
        return Answer(SaslAuthenticateResponse(
            error_message=None, auth_bytes=token,
            session_lifetime_ms=self.session_ms if version and self.is_open else 0))

    def _token(self, run: Mechanism, step: Callable[[Any], bytes | Work], given: Any, now_ms: int,
               wall_ms: int) -> bytes | Work:
        if self._fault is not None:
            raise RefusedError(self._fault)
        token = step(given)
        if run.is_complete:
            found = (TokenUser if run.by_token else Principal).user(run.username)
            if self.principal not in (None, found):
                raise RefusedError(f"the user changed from {self.principal} to {found}")
            self.session_ms = self._session_ms(run, wall_ms)
            self._run = None
            self.principal, self.began_ms = found, now_ms
        return token

    def _session_ms(self, run: Mechanism, wall_ms: int) -> int:
        """Return the life of the session: that of the listener, but not beyond that of the proof."""
        limit_ms = self.listener.settings.reauth_ms[self.mechanism]
        if not run.expires_ms:
            return limit_ms
        left_ms = min(run.expires_ms - wall_ms, SESSION_MS_MAX)
        if left_ms <= 0:
            raise RefusedError(f"the token of user {run.username!r} has expired")
        return min(limit_ms, left_ms) if limit_ms else left_ms


def credentials_in(image: Callable[[], MetadataImage]) -> FindCredential:
    """Return a search in the credentials of the image that `image` returns."""
    def find(mechanism: int, name: str) -> ScramCredential | None:
        found = image().scram.get((mechanism, name))
        return None if found is None else ScramCredential(found.salt, found.iterations, found.stored_key,
                                                          found.server_key)

    return find
