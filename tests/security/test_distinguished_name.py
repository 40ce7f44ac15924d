"""Subjects of certificates as texts: Java's form of RFC 2253."""

import pytest

from kraft.security.distinguished_name import name_text, subject_of
from kraft.tls.authority import Authority
from kraft_native.base.errors import InvalidArgumentError

COMMON_NAME, COUNTRY, UNIT = "550403", "550406", "55040b"
EMAIL = "2a864886f70d010901"
DOMAIN_PART = "0992268993f22c640119"
UTF8, PRINTABLE, IA5, OCTETS = 0x0C, 0x13, 0x16, 0x04


def part(*attributes: tuple[str, int, bytes]) -> bytes:
    """One relative name, of some attributes: (identifier, tag, value)."""
    def element(tag: int, content: bytes) -> bytes:
        assert len(content) < 128
        return bytes([tag, len(content)]) + content

    return element(0x31, b"".join(element(0x30, element(6, bytes.fromhex(kind)) + element(tag, value))
                                  for kind, tag, value in attributes))


@pytest.mark.parametrize(("parts", "text"), [
    ([part((COUNTRY, PRINTABLE, b"US")), part((UNIT, UTF8, b"Sales")), part((COMMON_NAME, UTF8, b"Duke"))],
     "CN=Duke,OU=Sales,C=US"),
    ([part((DOMAIN_PART, IA5, b"cz")), part((DOMAIN_PART, IA5, b"geodis")), part((COMMON_NAME, UTF8, b"Tkac, Adam"))],
     "CN=Tkac\\, Adam,DC=geodis,DC=cz"),
    ([part((COMMON_NAME, UTF8, b'a+b;<c>#"\\='))], 'CN=a\\+b\\;\\<c\\>\\#\\"\\\\\\='),
    ([part((COMMON_NAME, UTF8, b" two  "))], "CN=\\ two\\ \\ "),
    ([part((COMMON_NAME, UTF8, "Žluť".encode()))], "CN=Žluť"),
    ([part((COMMON_NAME, UTF8, b"a\0b"))], "CN=a\\00b"),
    # Attributes without a name of RFC 2253, and values that are no texts, are shown as bytes.
    ([part((EMAIL, IA5, b"a@b"))], "1.2.840.113549.1.9.1=#1603614062"),
    ([part((COMMON_NAME, OCTETS, b"a"))], "CN=#040161"),
    ([part((UNIT, UTF8, b"u"), (COMMON_NAME, UTF8, b"c"))], "OU=u+CN=c"),
    ([], ""),
])
def test_names(parts: list[bytes], text: str) -> None:
    assert name_text(b"".join(parts)) == text


def test_the_subject_of_a_certificate() -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    issued = Authority("the authority").issue("node 1", ("localhost",))
    der = x509.load_pem_x509_certificate(issued.certificate.encode()).public_bytes(Encoding.DER)
    assert subject_of(der) == "CN=node 1"
    for end in (0, 1, 5, 40, len(der) // 3):
        with pytest.raises(InvalidArgumentError, match="cannot be read"):
            subject_of(der[:end])
