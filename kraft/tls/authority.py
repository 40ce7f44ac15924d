"""A certificate authority for development and small clusters: keys of P-256, certificates for nodes and clients."""

import datetime as dt
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

DAYS_DEFAULT: Final = 825
"""Longest validity that common clients accept of a server's certificate."""
BACKDATED_MINUTES: Final = 5
"""Certificates are valid a little earlier, because clocks differ."""


class Issued(NamedTuple):
    """A certificate and its key, as PEM."""

    certificate: str
    key: str

    def __repr__(self) -> str:
        return "Issued()"


class Authority:
    """An authority that issues certificates."""

    def __init__(self, name: str, days: int = DAYS_DEFAULT) -> None:
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec

        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = _name(name)
        key_usage = x509.KeyUsage(
            digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
            key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False)
        self.issued = self._issue(self._subject, self._key, days, [
            (x509.BasicConstraints(ca=True, path_length=0), True), (key_usage, True)])
        """The authority's own certificate and key."""

    def issue(self, name: str, hosts: tuple[str, ...] = (), days: int = DAYS_DEFAULT) -> Issued:
        """Issue a certificate for a common name: of a node with its hosts and addresses, or of a client. A node is a
        client of other nodes, too."""
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import ExtendedKeyUsageOID

        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if hosts else [])]
        extensions: list[tuple[x509.ExtensionType, bool]] = [
            (x509.BasicConstraints(ca=False, path_length=None), True), (x509.ExtendedKeyUsage(purposes), False)]
        if hosts:
            extensions.append((x509.SubjectAlternativeName(list(map(_alternative, hosts))), False))
        return self._issue(_name(name), ec.generate_private_key(ec.SECP256R1()), days, extensions)

    def _issue(self, subject: "x509.Name", key: "EllipticCurvePrivateKey", days: int,
               extensions: "list[tuple[x509.ExtensionType, bool]]") -> Issued:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization

        now = dt.datetime.now(dt.UTC)
        public = self._key.public_key()
        builder = x509.CertificateBuilder(
            issuer_name=self._subject, subject_name=subject, public_key=key.public_key(),
            serial_number=x509.random_serial_number(), not_valid_before=now - dt.timedelta(minutes=BACKDATED_MINUTES),
            not_valid_after=now + dt.timedelta(days=days),
        ).add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False).add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False)
        for extension, is_critical in extensions:
            builder = builder.add_extension(extension, critical=is_critical)
        certificate = builder.sign(self._key, hashes.SHA256())
        return Issued(certificate.public_bytes(serialization.Encoding.PEM).decode(), key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode())


def _name(name: str) -> "x509.Name":
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _alternative(host: str) -> "x509.GeneralName":
    from cryptography import x509

    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
