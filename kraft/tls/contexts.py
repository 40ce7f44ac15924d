"""Contexts of the `ssl` module for servers and clients: the one place that turns settings into TLS."""

import os
import ssl
from pathlib import Path
from typing import Final

from kraft.tls.cipher_suites import split_suites
from kraft.tls.settings import NO_CLIENT, REQUIRED, TlsSettings
from kraft.tls.stores import KeyEntry, TlsError, read_keystore, read_truststore

CLIENT_AUTH: Final = {NO_CLIENT: ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, REQUIRED: ssl.CERT_REQUIRED}
VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
MISMATCH: Final = "KEY_VALUES_MISMATCH"
EXCHANGES_MAX: Final = 8


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return the context of a listener. Raises `TlsError`."""
    prefix = settings.prefix
    if not settings.keystore.is_set:
        raise TlsError(f"{prefix}ssl.keystore.location: is needed, because a listener with TLS has a certificate")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _restrict(context, settings)
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    _load_own(context, read_keystore(settings.keystore, prefix), settings)
    if settings.client_auth != NO_CLIENT:
        if not settings.truststore.is_set:
            raise TlsError(f"{prefix}ssl.truststore.location: is needed by ssl.client.auth={settings.client_auth}: it "
                           "has the certificates of the authorities that clients' certificates may be from")
        _load_trusted(context, settings)
    context.verify_mode = CLIENT_AUTH[settings.client_auth]
    return context


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return the context of connections that are opened. Without a trust store the system's authorities are trusted.
    Raises `TlsError`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _restrict(context, settings)
    context.check_hostname = settings.checks_name
    if settings.truststore.is_set:
        _load_trusted(context, settings)
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if settings.keystore.is_set:
        _load_own(context, read_keystore(settings.keystore, settings.prefix), settings)
    return context


def check_pair(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    """Shake hands in memory, as nodes with both contexts would. Raises `ssl.SSLError`. Names are not checked, because
    each node has its own."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    checks_name, client.check_hostname = client.check_hostname, False
    try:
        sides = [client.wrap_bio(to_client, to_server), server.wrap_bio(to_server, to_client, server_side=True)]
    finally:
        client.check_hostname = checks_name
    for _ in range(EXCHANGES_MAX):
        for side in list(sides):
            try:
                side.do_handshake()
                sides.remove(side)
            except ssl.SSLWantReadError:
                continue
        if not sides:
            return
    raise ssl.SSLError("the handshake does not end")


def _restrict(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Limit versions and suites. No renegotiation: it costs a server much, and nothing needs it."""
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN      # as in Java, every trusted certificate is an anchor
    versions = set(settings.versions)
    for name in settings.versions:
        if name not in VERSIONS:
            raise TlsError(f"{settings.prefix}ssl.enabled.protocols: {name!r} is not one of {', '.join(VERSIONS)}")
    if not versions:
        raise TlsError(f"{settings.prefix}ssl.enabled.protocols: names no version; allowed are {', '.join(VERSIONS)}")
    if settings.cipher_suites:
        versions &= _set_suites(context, settings)
        if not versions:
            raise TlsError(f"{settings.prefix}ssl.cipher.suites: none is of a version in ssl.enabled.protocols")
    context.minimum_version = min(VERSIONS[name] for name in versions)
    context.maximum_version = max(VERSIONS[name] for name in versions)


def _set_suites(context: ssl.SSLContext, settings: TlsSettings) -> set[str]:
    """Offer the suites, and return the versions of TLS that they are for."""
    setting = f"{settings.prefix}ssl.cipher.suites"
    try:
        suites = split_suites(settings.cipher_suites)
        if suites.older:
            context.set_ciphers(suites.older)
    except (ValueError, ssl.SSLError) as error:
        raise TlsError(f"{setting}: {error}") from error
    offered = {each["name"] for each in context.get_ciphers()}
    for name in filter(None, suites.older.split(":")):
        if name not in offered:
            raise TlsError(f"{setting}: {name} is not a suite of {ssl.OPENSSL_VERSION}")
    return {*(["TLSv1.2"] if suites.older else ()), *(["TLSv1.3"] if suites.has_newer else ())}


def _load_own(context: ssl.SSLContext, entry: KeyEntry, settings: TlsSettings) -> None:
    """Load a key with its certificates through a file in memory: the `ssl` module reads files only."""
    store, prefix = settings.keystore, settings.prefix
    where = store.location or f"{prefix}ssl.keystore.key"
    file = os.memfd_create("key", os.MFD_CLOEXEC)
    try:
        data = f"{entry.key}{entry.chain}".encode()
        assert os.write(file, data) == len(data), "a file in memory is written as a whole"
        # An empty password instead of None, for which the library prompts at the terminal.
        context.load_cert_chain(f"/proc/self/fd/{file}", password=entry.password)
    except ssl.SSLError as error:
        if error.reason == MISMATCH:
            raise TlsError(f"{where}: the key is not that of the certificate") from error
        if "ENCRYPTED" in entry.key:
            raise TlsError(f"{where}: the key cannot be decrypted with {prefix}ssl.key.password") from error
        raise TlsError(f"{where}: the key or certificate cannot be used: {error}") from error
    finally:
        os.close(file)


def _load_trusted(context: ssl.SSLContext, settings: TlsSettings) -> None:
    store, prefix = settings.truststore, settings.prefix
    if store.location and Path(store.location).is_dir():       # as librdkafka: files named by the hash of their subject
        context.load_verify_locations(capath=store.location)
        return
    try:
        context.load_verify_locations(cadata=read_truststore(store, prefix))
    except ssl.SSLError as error:
        raise TlsError(f"{store.location or f'{prefix}ssl.truststore.certificates'}: a certificate cannot be used: "
                       f"{error}") from error
