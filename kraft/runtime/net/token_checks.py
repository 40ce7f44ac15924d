"""Checks of OAUTHBEARER's tokens on a node: one thread fetches keys, others check signatures."""

import asyncio
import contextlib
import logging
from typing import Final

from kraft.config.oauth_settings import TokenRules
from kraft.oauth.key_cache import KeyCache
from kraft.oauth.keys import KeySet
from kraft.oauth.tokens import check_token, header_of
from kraft.runtime.net.requests import now_ms
from kraft.security.sasl.mechanism import Work
from kraft.security.sasl.oauthbearer import Claims, Then, TokenRefusedError

log = logging.getLogger(__name__)

KEY_SECONDS_MAX: Final = 5.0
"""Time for which a login waits for a key that is not known yet."""


class TokenChecks:
    """Checks by the rules of a listener. Loop thread only; created inside the running loop."""

    def __init__(self, rules: TokenRules) -> None:
        self._rules = rules
        self._loop = asyncio.get_running_loop()
        self._refreshed = asyncio.Event()
        """Set by the next attempt to fetch keys; another event replaces it then."""
        self._cache: KeyCache | None = None
        if rules.keys is not None:
            self._cache = KeyCache(rules.keys, rules.refresh_ms, self._attempted)
            self._cache.start()
        else:
            log.warning("unsecured tokens of OAUTHBEARER are accepted: a client is whatever user it claims to be")

    def close(self) -> None:
        """End the thread that fetches keys."""
        if self._cache is not None:
            self._cache.close()

    def check(self, token: str, then: Then) -> Work:
        """Return the work of checking a token."""
        return Work(lambda: self._checked(token), then, lambda: self._ready(token))

    def _checked(self, token: str) -> Claims | TokenRefusedError:
        try:
            return check_token(token, KeySet() if self._cache is None else self._cache.keys, self._rules, now_ms())
        except TokenRefusedError as refusal:
            return refusal
        except Exception as error:     # a client has chosen what a library is given here
            log.warning("a token cannot be checked", exc_info=error)
            return TokenRefusedError(f"the token cannot be checked: {type(error).__name__}")

    async def _ready(self, token: str) -> None:
        """Wait a while for a key that is not known yet: the provider may have just begun to use it."""
        if self._cache is None:
            return
        try:
            header = header_of(token)
        except TokenRefusedError:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(KEY_SECONDS_MAX):
                attempts = self._cache.attempts
                while not self._cache.keys.fitting(header.get("kid"), header["alg"]):
                    if self._cache.attempts > attempts + 1:
                        return         # the second refresh began after this token came: the key does not exist
                    self._cache.missed()
                    await self._refreshed.wait()

    def _attempted(self) -> None:
        """Wake the logins that wait. Called in the thread of the cache."""
        with contextlib.suppress(RuntimeError):    # the loop is closed
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._refreshed.set()
        self._refreshed = asyncio.Event()
