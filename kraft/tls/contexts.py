"""Contexts of the `ssl` module for servers and clients: the one place that turns settings into TLS.

Connections of a node's loop use OpenSSL itself where it was compiled in (`kraft_native.net.openssl`). Their context is
made of what was read for that of the `ssl` module, which judges the settings.
"""

import os
import ssl
from pathlib import Path
from typing import Final

from kraft.tls.cipher_suites import split_suites
from kraft.tls.library import openssl
from kraft.tls.settings import NO_CLIENT, REQUIRED, TlsSettings
from kraft.tls.stores import KeyEntry, TlsError, read_keystore, read_truststore
from kraft_native.net.tls_session import TlsContext, shake_in_memory

CLIENT_AUTH: Final = {NO_CLIENT: ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, REQUIRED: ssl.CERT_REQUIRED}
VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
MISMATCH: Final = "KEY_VALUES_MISMATCH"
NO_ENTRY: Final = KeyEntry("", "", "")


class Context(ssl.SSLContext):
    """Context of the `ssl` module, with what it was made of."""

    own: KeyEntry = NO_ENTRY
    trusted: str = ""
    """Certificates as PEM."""
    trusted_file: str = ""
    trusted_directory: str = ""
    compiled: TlsContext | None = None
    """The same settings for the connections of a loop; None: they use the `ssl` module."""


def server_context(settings: TlsSettings) -> Context:
    """Return the context of a listener. Raises `TlsError`."""
    prefix = settings.prefix
    if not settings.keystore.is_set:
        raise TlsError(f"{prefix}ssl.keystore.location: is needed, because a listener with TLS has a certificate")
    context = Context(ssl.PROTOCOL_TLS_SERVER)
    _restrict(context, settings)
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    _load_own(context, read_keystore(settings.keystore, prefix), settings)
    if settings.client_auth != NO_CLIENT:
        if not settings.truststore.is_set:
            raise TlsError(f"{prefix}ssl.truststore.location: is needed by ssl.client.auth={settings.client_auth}: it "
                           "has the certificates of the authorities that clients' certificates may be from")
        _load_trusted(context, settings)
    context.verify_mode = CLIENT_AUTH[settings.client_auth]
    return _compiled(context, settings, is_server=True)


def client_context(settings: TlsSettings) -> Context:
    """Return the context of connections that are opened. Without a trust store the system's authorities are trusted.
    Raises `TlsError`."""
    context = Context(ssl.PROTOCOL_TLS_CLIENT)
    _restrict(context, settings)
    context.check_hostname = settings.checks_name
    if settings.truststore.is_set:
        _load_trusted(context, settings)
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        system = ssl.get_default_verify_paths()
        context.trusted_file, context.trusted_directory = system.cafile or "", system.capath or ""
    if settings.keystore.is_set:
        _load_own(context, read_keystore(settings.keystore, settings.prefix), settings)
    return context


def dialed_context(settings: TlsSettings) -> Context:
    """Return `client_context` for connections of a node's loop. Raises `TlsError`."""
    return _compiled(client_context(settings), settings, is_server=False)


def check_pair(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    """Shake hands in memory, as nodes with both contexts would. Raises `ssl.SSLError`. Names are not checked, because
    each node has its own."""
    shake_in_memory(server, client)


def _compiled(context: Context, settings: TlsSettings, *, is_server: bool) -> Context:
    """Make the context of compiled connections, too."""
    if (module := openssl()) is None:
        return context
    # The suites that this context offers, by name: defaults of two releases of OpenSSL may differ.
    suites = ":".join(each["name"] for each in context.get_ciphers() if each["protocol"] != "TLSv1.3")
    try:
        context.compiled = module.OpenSslContext(
            is_server=is_server, first_version=context.minimum_version, last_version=context.maximum_version,
            suites=suites, security_level=context.security_level, verify=context.verify_mode,
            checks_name=context.check_hostname, trusted=context.trusted.encode(), trusted_file=context.trusted_file,
            trusted_directory=context.trusted_directory, certificates=context.own.chain.encode(),
            key=context.own.key.encode(), password=context.own.password.encode())
    except ssl.SSLError as error:
        raise TlsError(f"{settings.prefix}ssl: {module.library_version()} cannot use these settings, and "
                       f"{ssl.OPENSSL_VERSION} can: {error}") from error
    return context


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


def _load_own(context: Context, entry: KeyEntry, settings: TlsSettings) -> None:
    """Load a key with its certificates through a file in memory: the `ssl` module reads files only."""
    store, prefix = settings.keystore, settings.prefix
    where = store.location or f"{prefix}ssl.keystore.key"
    file = os.memfd_create("key", os.MFD_CLOEXEC)
    try:
        data = f"{entry.key}{entry.chain}".encode()
        assert os.write(file, data) == len(data), "a file in memory is written as a whole"
        # An empty password instead of None, for which the library prompts at the terminal.
        context.load_cert_chain(f"/proc/self/fd/{file}", password=entry.password)
        context.own = entry
    except ssl.SSLError as error:
        if error.reason == MISMATCH:
            raise TlsError(f"{where}: the key is not that of the certificate") from error
        if "ENCRYPTED" in entry.key:
            raise TlsError(f"{where}: the key cannot be decrypted with {prefix}ssl.key.password") from error
        raise TlsError(f"{where}: the key or certificate cannot be used: {error}") from error
    finally:
        os.close(file)


def _load_trusted(context: Context, settings: TlsSettings) -> None:
    store, prefix = settings.truststore, settings.prefix
    if store.location and Path(store.location).is_dir():       # as librdkafka: files named by the hash of their subject
        context.load_verify_locations(capath=store.location)
        context.trusted_directory = store.location
        return
    try:
        context.trusted = read_truststore(store, prefix)
        context.load_verify_locations(cadata=context.trusted)
    except ssl.SSLError as error:
        raise TlsError(f"{store.location or f'{prefix}ssl.truststore.certificates'}: a certificate cannot be used: "
                       f"{error}") from error
