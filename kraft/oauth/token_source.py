"""Tokens for logins at others: fetched with client credentials (RFC 6749, 4.4), by a secret or an assertion, read from
a file, or unsecured."""

import base64
import json
import threading
import time
from collections.abc import Callable
from typing import Final
from urllib.parse import quote_plus, urlencode

from kraft.config.oauth_settings import Provider, TokenLogin
from kraft.oauth.assertions import assertion_text
from kraft.oauth.http import ProviderError, fetch
from kraft.oauth.tokens import expiry_ms, unsecured_token

RENEWED_SHARE: Final = 0.8
"""Share of a token's life after which the next login fetches another one, as with Kafka's clients."""
TRIES_SECONDS_MAX: Final = 10.0
SOURCES_MAX: Final = 64
ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class TokenSource:
    """Tokens of one login, each used until most of its life is over. Any thread may call; calls wait for each other.
    """

    def __init__(self, login: TokenLogin, *, wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
                 get: Callable[..., bytes] = fetch, pause: Callable[[float], None] = time.sleep) -> None:
        self._login = login
        self._wall_ms = wall_ms
        self._get = get
        self._pause = pause
        self._lock = threading.Lock()
        self._token = ""
        self._renew_ms = self._expires_ms = 0

    def token(self) -> str:
        """Return a token. The current one is kept while no other can be fetched and it is valid. Raises
        `ProviderError`."""
        with self._lock:
            now_ms = self._wall_ms()
            if self._login.provider is None:
                return unsecured_token(self._login, now_ms)
            if now_ms >= self._renew_ms:
                try:
                    self._renew(self._login.provider, now_ms)
                except ProviderError:
                    if now_ms >= self._expires_ms:
                        raise
            return self._token

    def _renew(self, provider: Provider, now_ms: int) -> None:
        if provider.path is not None:
            self._token = self._get(provider).decode("ascii", "replace").strip()
            return                     # the next login reads the file again
        token = self._fetched(provider)
        expires_ms = expiry_ms(token)
        self._token, self._expires_ms = token, expires_ms
        self._renew_ms = now_ms + int(max(expires_ms - now_ms, 0) * RENEWED_SHARE)

    def _fetched(self, provider: Provider) -> str:
        """Fetch a token, with more tries while a failure may pass."""
        deadline, pause_s = time.monotonic() + TRIES_SECONDS_MAX, provider.retry_ms / 1000
        while True:
            try:
                return _token_in(self._get(provider, self._body(), self._headers()), provider.url)
            except ProviderError as error:
                if error.is_final or time.monotonic() + pause_s > deadline:
                    raise
            self._pause(pause_s)
            pause_s = min(pause_s * 2, provider.retry_max_ms / 1000)

    def _body(self) -> bytes:
        fields = {"grant_type": "client_credentials"}
        if scope := self._login.scope.strip():
            fields["scope"] = scope
        if self._login.assertion is not None:
            fields |= {"client_assertion_type": ASSERTION_TYPE,
                       "client_assertion": assertion_text(self._login.assertion, self._wall_ms())}
            if self._login.client_id:
                fields["client_id"] = self._login.client_id
        return urlencode(fields).encode()

    def _headers(self) -> dict[str, str]:
        plain = {"Cache-Control": "no-cache", "Content-Type": "application/x-www-form-urlencoded"}
        if self._login.assertion is not None:
            return plain
        encode: Callable[[str], str] = quote_plus if self._login.encodes else str
        pair = f"{encode(self._login.client_id)}:{encode(self._login.client_secret)}".encode()
        return {"Authorization": f"Basic {base64.b64encode(pair).decode()}", **plain}


_sources: dict[TokenLogin, TokenSource] = {}
_guard = threading.Lock()


def source_of(login: TokenLogin) -> TokenSource:
    """Return the source of a login, one for all connections of this process."""
    with _guard:
        if login not in _sources and len(_sources) >= SOURCES_MAX:
            _sources.clear()
        return _sources.setdefault(login, TokenSource(login))


def _token_in(answer: bytes, url: str) -> str:
    try:
        token = json.loads(answer)["access_token"]
        is_token = isinstance(token, str) and token.strip().isascii() and bool(token.strip())
    except (ValueError, TypeError, KeyError, RecursionError):
        is_token = False
    if not is_token:
        raise ProviderError(f"{url}: the answer has no access_token")
    return str(token.strip())
