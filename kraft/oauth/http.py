"""One request to an identity provider, bounded in time and size."""

import http.client
import ssl
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from kraft.config.oauth_settings import Provider
from kraft.tls.contexts import client_context
from kraft.tls.settings import TlsSettings, store_settings
from kraft.tls.stores import read_bounded
from kraft_native.base.errors import KraftError

ANSWER_BYTES_MAX: Final = 1 << 20
STEP_BYTES: Final = 1 << 16
GOOD: Final = (200, 201)
# A second try has the same answer (RFC 9110).
FINAL: Final = frozenset({400, 401, 402, 403, 404, 405, 406, 407, 409, 410, 411, 412, 413, 414, 415, 501, 505})
NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


class ProviderError(KraftError):
    """The identity provider gives no usable answer. `is_final`: a second try has the same result."""

    is_final = False


def fetch(provider: Provider, body: bytes | None = None, headers: Mapping[str, str] = NO_HEADERS) -> bytes:
    """Return the content of the provider's file or address: by GET, or by POST of a body. Redirections are not
    followed: they could lead a secret elsewhere. Raises `ProviderError`, which shows no header and no content."""
    if (path := provider.path) is not None:
        return read_file(path)
    parts = urlsplit(provider.url)
    assert parts.hostname is not None, "the settings are checked"
    connect_s = provider.connect_ms / 1000
    try:
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            parts.hostname, parts.port, timeout=connect_s, context=_context(provider),
            ) if parts.scheme == "https" else http.client.HTTPConnection(parts.hostname, parts.port, timeout=connect_s)
        try:
            connection.connect()
            return _exchange(connection, parts.path or "/", parts.query, provider, body, headers)
        finally:
            connection.close()
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise ProviderError(f"{provider.url}: {type(error).__name__}: {error}") from error


def _exchange(connection: http.client.HTTPConnection, path: str, query: str, provider: Provider, body: bytes | None,
              headers: Mapping[str, str]) -> bytes:
    deadline = time.monotonic() + provider.read_ms / 1000
    connection.sock.settimeout(provider.read_ms / 1000)
    connection.request("GET" if body is None else "POST", f"{path}?{query}" if query else path, body,
                       {"Accept": "application/json", **headers})
    with connection.getresponse() as response:
        if response.status not in GOOD:
            refusal = ProviderError(f"{provider.url}: answered with status {response.status}")
            refusal.is_final = response.status in FINAL
            raise refusal
        content = bytearray()
        while part := response.read1(STEP_BYTES):
            content += part
            if len(content) > ANSWER_BYTES_MAX:
                raise ProviderError(f"{provider.url}: the answer has more than {ANSWER_BYTES_MAX:,} bytes")
            if time.monotonic() > deadline:
                raise ProviderError(f"{provider.url}: the answer takes longer than {provider.read_ms} ms")
        return bytes(content)


def read_file(path: str) -> bytes:
    """Return the content of a file. Raises `ProviderError` for one that cannot be read or is too large."""
    try:
        content = read_bounded(path, ANSWER_BYTES_MAX)
    except (OSError, ValueError) as error:
        raise ProviderError(f"{path}: {error}") from error
    if content is None:
        raise ProviderError(f"{path}: has more than {ANSWER_BYTES_MAX:,} bytes")
    return content


def _context(provider: Provider) -> ssl.SSLContext:
    """Return the context for an address with TLS: authorities and own certificate are options `ssl.*` of the login
    module; without them the system's authorities are trusted."""
    options = dict(provider.tls)

    def read(name: str) -> str:
        return options.get(name, "")

    try:
        return client_context(TlsSettings(keystore=store_settings("keystore", read),
                                          truststore=store_settings("truststore", read)))
    except KraftError as error:
        raise ProviderError(f"{provider.url}: {error}") from error
