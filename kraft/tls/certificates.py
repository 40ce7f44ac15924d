"""Facts of certificates that operators need: names, issuer and dates."""

import datetime as dt
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kraft.security.distinguished_name import subject_of
from kraft.structs import immutable
from kraft.tls.stores import TlsError

if TYPE_CHECKING:
    from cryptography import x509


@immutable
class CertificateFacts:
    """One certificate. `names`: the hosts and addresses that it is for. `begins_s`, `ends_s`: seconds since 1970."""

    subject: str
    issuer: str
    names: tuple[str, ...]
    begins_s: float
    ends_s: float
    is_authority: bool

    def __str__(self) -> str:
        return f"{self.subject}, valid until {day_of(self.ends_s)}"


def day_of(seconds: float) -> str:
    """Return the date and time, in UTC."""
    return f"{dt.datetime.fromtimestamp(seconds, dt.UTC):%Y-%m-%d %H:%M UTC}"


def certificates_in(pem: str) -> "list[x509.Certificate]":
    """Return the certificates of a PEM text, in their order. Raises `TlsError`."""
    # Imported here: a node without TLS, and a client, need none of it.
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificates(pem.encode())
    except ValueError as error:
        raise TlsError(f"a certificate cannot be read: {error}") from error


def facts_of(pem: str) -> CertificateFacts:
    """Return the facts of the first certificate in a PEM text. Raises `TlsError`."""
    return certificate_facts(certificates_in(pem)[0])


def certificate_facts(certificate: "x509.Certificate") -> CertificateFacts:
    """Return the facts of a certificate."""
    from cryptography import x509

    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names = (*found.get_values_for_type(x509.DNSName), *map(str, found.get_values_for_type(x509.IPAddress)))
    except x509.ExtensionNotFound:
        names = ()
    try:
        is_authority = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        is_authority = False
    return CertificateFacts(
        subject=subject_of(_der(certificate)), issuer=certificate.issuer.rfc4514_string(), names=names,
        begins_s=certificate.not_valid_before_utc.timestamp(), ends_s=certificate.not_valid_after_utc.timestamp(),
        is_authority=is_authority)


def _der(certificate: "x509.Certificate") -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.DER)


def check_change(before: CertificateFacts, after: CertificateFacts, prefix: str, allowed: Mapping[str, bool]) -> None:
    """Refuse a new certificate for somebody else: another subject, or fewer names. Raises `TlsError`."""
    if not allowed["ssl.allow.dn.changes"] and before.subject != after.subject:
        raise TlsError(f"{prefix}ssl.keystore: the new certificate is for {after.subject}, the current one for "
                       f"{before.subject}; ssl.allow.dn.changes=true allows that")
    missing = [name for name in before.names if name not in after.names]
    if not allowed["ssl.allow.san.changes"] and missing:
        raise TlsError(f"{prefix}ssl.keystore: the new certificate is not for {', '.join(missing)}, and the current "
                       "one is; ssl.allow.san.changes=true allows that")
