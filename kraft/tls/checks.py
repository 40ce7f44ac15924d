"""Faults of key stores and trust stores, as an operator wants to know them before a node or a client uses them."""

import ssl
from dataclasses import replace
from typing import Final, NamedTuple

from kraft.tls.certificates import CertificateFacts, certificate_facts, certificates_in, day_of
from kraft.tls.contexts import check_pair, client_context, server_context
from kraft.tls.settings import REQUIRED, TlsSettings
from kraft.tls.stores import TlsError, read_keystore, read_truststore

DAY_S: Final = 86_400
WARNED_DAYS: Final = 30


class Finding(NamedTuple):
    """One fault, or something that will become one."""

    is_fault: bool
    text: str


class Report(NamedTuple):
    """Certificates of one configuration, with what was found."""

    own: list[CertificateFacts]
    trusted: list[CertificateFacts]
    findings: list[Finding]

    @property
    def has_faults(self) -> bool:
        """Return whether a connection would fail."""
        return any(each.is_fault for each in self.findings)


def check_tls(settings: TlsSettings, hosts: tuple[str, ...], now_s: float) -> Report:
    """Check dates, names, chain and key of these settings. `hosts`: names by which clients connect to the node; none
    for a client's settings."""
    findings: list[Finding] = []
    own: list[CertificateFacts] = []
    trusted: list[CertificateFacts] = []
    try:
        if settings.keystore.is_set:
            own = _facts(read_keystore(settings.keystore, settings.prefix).chain)
            findings += [found for each in own for found in _dates(each, now_s)]
            findings += _names(own[0], hosts)
        if settings.truststore.is_set:
            trusted = _facts(read_truststore(settings.truststore, settings.prefix))
            findings += [found for each in trusted for found in _dates(each, now_s)]
        findings += _usable(settings, is_node=bool(hosts))
    except TlsError as error:
        findings.append(Finding(True, str(error)))
    return Report(own, trusted, findings)


def _facts(pem: str) -> list[CertificateFacts]:
    return list(map(certificate_facts, certificates_in(pem)))


def _dates(facts: CertificateFacts, now_s: float) -> list[Finding]:
    if now_s < facts.begins_s:
        return [Finding(True, f"{facts.subject}: is valid from {day_of(facts.begins_s)} only")]
    if now_s > facts.ends_s:
        return [Finding(True, f"{facts.subject}: has expired at {day_of(facts.ends_s)}")]
    days = int((facts.ends_s - now_s) // DAY_S)
    return [Finding(False, f"{facts.subject}: expires in {days} days")] if days < WARNED_DAYS else []


def _names(facts: CertificateFacts, hosts: tuple[str, ...]) -> list[Finding]:
    missing = [host for host in hosts if not any(_covers(name, host) for name in facts.names)]
    return [Finding(True, f"{facts.subject}: is not for {', '.join(missing)}, by which clients connect; it is for "
                          f"{', '.join(facts.names) or 'no host'}")] if missing else []


def _covers(name: str, host: str) -> bool:
    """Return whether a certificate's name is the host's. A star stands for the first part of a name."""
    name, host = name.lower(), host.lower()
    return name == host or (name.startswith("*.") and name[1:] == host[host.find("."):] and not host.startswith("."))


def _usable(settings: TlsSettings, *, is_node: bool) -> list[Finding]:
    """Load everything, and shake hands in memory: the key must match, and the chain must end at a trusted one."""
    client = client_context(settings)
    if not settings.keystore.is_set and not is_node:
        return []
    if not settings.truststore.is_set:
        server_context(settings)
        return [Finding(False, f"{settings.prefix}ssl.truststore is not set: the chain of the certificate is not "
                               "checked")]
    # A server with the client's own key and trust demands the certificate that the client has.
    server = server_context(settings if is_node else replace(settings, client_auth=REQUIRED))
    if not is_node:
        client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    try:
        check_pair(server, client)
    except ssl.SSLError as error:
        why = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else error
        return [Finding(True, f"the certificate does not lead to one of the trust store: {why}")]
    return []
