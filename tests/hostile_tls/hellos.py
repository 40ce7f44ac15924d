"""First bytes of TLS clients, whole and broken."""

import ssl
from typing import Final

RECORD_HEADER_BYTES: Final = 5
VERSION_AT: Final = 9
"""Place of the client's version in a ClientHello: record header, handshake header."""
SESSION_ID_AT: Final = 43
"""Place of the length of its session id."""
TLS_1_0: Final = b"\3\1"
HANDSHAKE: Final = 22
APPLICATION: Final = 23


def hello(newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> bytes:
    """Return a ClientHello that a listener answers."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = newest
    written = ssl.MemoryBIO()
    session = context.wrap_bio(ssl.MemoryBIO(), written)
    try:
        session.do_handshake()
    except ssl.SSLWantReadError:
        return written.read()
    raise AssertionError("a handshake without a server ended")


def old_hello() -> bytes:
    """Return a ClientHello of TLS 1.0 only."""
    found = bytearray(hello(ssl.TLSVersion.TLSv1_2))
    found[VERSION_AT:VERSION_AT + 2] = TLS_1_0
    return bytes(found)


def record(kind: int, content: bytes, length: int | None = None) -> bytes:
    """Return a record of TLS 1.2; `length` is the one that it claims."""
    return bytes((kind, 3, 3)) + (len(content) if length is None else length).to_bytes(2, "big") + content
