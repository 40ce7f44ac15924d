"""Identity of a client whose request a broker passes on to a controller in an envelope (KIP-590).

The principal has Kafka's form (DefaultKafkaPrincipalBuilder): two bytes with the version, and DefaultPrincipalData. The
address has 4 or 16 bytes.
"""

import ipaddress
from typing import Final

from kraft.protocol.messages.default_principal_data import DefaultPrincipalData
from kraft.security.principal import Principal, TokenUser
from kraft_native.base.errors import MalformedMessageError, ProtocolError

VERSION: Final = 0
VERSION_BYTES: Final = 2
UNKNOWN_HOST: Final = bytes(4)


def encoded_principal(principal: Principal) -> bytes:
    """Return the bytes of a principal."""
    data = DefaultPrincipalData(type=principal.kind, name=principal.name,
                                token_authenticated=isinstance(principal, TokenUser))
    return VERSION.to_bytes(VERSION_BYTES, "big") + data.encode(VERSION)


def decoded_principal(data: bytes) -> Principal:
    """Return the principal. Raises `ProtocolError` for bytes that have none, or one of a later version."""
    version = int.from_bytes(data[:VERSION_BYTES], "big")
    if len(data) < VERSION_BYTES or version not in DefaultPrincipalData.VERSIONS:
        raise MalformedMessageError(f"the principal of an envelope has version {version}, "
                                    f"{DefaultPrincipalData.VERSIONS.stop - 1} is the last known one")
    found = DefaultPrincipalData.decode(data[VERSION_BYTES:], version)
    return (TokenUser if found.token_authenticated else Principal)(found.type, found.name)


def encoded_host(host: str) -> bytes:
    """Return the bytes of an address; those of an unknown one for a text that is none."""
    try:
        return ipaddress.ip_address(host).packed
    except ValueError:
        return UNKNOWN_HOST


def decoded_host(data: bytes) -> str:
    """Return the text of an address. Raises `ProtocolError` for another number of bytes."""
    try:
        return str(ipaddress.ip_address(data))
    except ValueError:
        raise ProtocolError(f"the address of an envelope has {len(data)} bytes, not 4 or 16") from None
