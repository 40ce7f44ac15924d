"""Identity of a client in an envelope: Kafka's bytes in both directions, and bytes that are none."""

import pytest

from kraft.security.forwarding import decoded_host, decoded_principal, encoded_host, encoded_principal
from kraft.security.principal import Principal, TokenUser
from kraft_native.base.errors import ProtocolError

ALICE = Principal.user("alice")
BYTES = b"\x00\x00\x05User\x06alice\x00\x00"
"""DefaultKafkaPrincipalBuilder: version 0, type, name, no token, no tags."""


def test_a_principal_has_kafkas_form() -> None:
    assert encoded_principal(ALICE) == BYTES
    assert decoded_principal(BYTES) == ALICE
    assert decoded_principal(b"\x00\x00\x05User\x06alice\x01\x00") == ALICE, "of a delegation token"


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x01" + BYTES[2:], BYTES[:-3], BYTES[:5]])
def test_bytes_without_a_principal_are_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decoded_principal(data)


@pytest.mark.parametrize(("host", "data"), [
    ("10.0.0.7", b"\x0a\x00\x00\x07"), ("::1", bytes(15) + b"\x01"), ("0.0.0.0", bytes(4))])
def test_an_address_has_4_or_16_bytes(host: str, data: bytes) -> None:
    assert encoded_host(host) == data and decoded_host(data) == host
    assert encoded_host("no address") == bytes(4)
    with pytest.raises(ProtocolError, match="5 bytes"):
        decoded_host(bytes(5))


def test_a_login_by_token_is_forwarded() -> None:
    """The controller must know it: a token creates no tokens."""
    found = decoded_principal(encoded_principal(TokenUser.user("alice")))
    assert found == Principal.user("alice")
    assert isinstance(found, TokenUser)
    assert not isinstance(decoded_principal(encoded_principal(Principal.user("alice"))), TokenUser)
