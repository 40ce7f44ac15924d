"""Security of connections: TLS, and SASL by PLAIN or SCRAM, from a Kafka client's own properties."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from kraft.tls.contexts import client_context
from kraft.tls.settings import VERSIONS, StoreSettings, TlsSettings
from kraft.tls.stores import read_keystore, read_truststore
from kraft_native.base.errors import InvalidArgumentError

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PKCS12: Final = "PKCS12"
STORE_TYPES: Final = ("", "PEM", PKCS12, "JKS")
PREFIXES: Final = ("security.", "ssl.", "sasl.")

# Kafka's name of a property, and librdkafka's, which is accepted too.
NAMES: Final[Mapping[str, str]] = {
    "ssl.ca.location": "ssl.truststore.location", "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.location": "ssl.keystore.location", "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key", "sasl.mechanisms": "sasl.mechanism",
}
KNOWN: Final = frozenset({
    *NAMES.values(), "security.protocol", "ssl.key.location", "ssl.key.password", "ssl.truststore.type",
    "ssl.keystore.type", "ssl.endpoint.identification.algorithm", "sasl.username", "sasl.password", "sasl.jaas.config",
    "ssl.keystore.password", "ssl.truststore.password", "ssl.enabled.protocols", "ssl.cipher.suites",
})
# They select among Java implementations, or configure how Java renews credentials.
WITHOUT_EFFECT: Final = re.compile(
    r"ssl\.(protocol|provider|(key|trust)manager\.algorithm|secure\.random\..*|engine\.factory\.class)"
    r"|sasl\.(login|kerberos)\..*|security\.providers")
JAAS_LOGIN: Final = re.compile(r"[\w.$]*(Plain|Scram)LoginModule\s+required\b(.*);", re.DOTALL)
JAAS_OPTION: Final = re.compile(r'(username|password)\s*=\s*("(?:[^"\\]|\\.)*"|\'[^\']*\'|\S+?)(?=\s|;|$)')


@dataclass(frozen=True, slots=True)
class Security:
    """Security settings of a connection. All are plain texts, so that another process can use them. The content of a
    file decides about its type unless one is given: PEM or PKCS12."""

    tls: bool = False
    ca_file: str = ""
    ca_type: str = ""
    ca_password: str = ""
    ca_text: str = ""
    certificate_file: str = ""
    certificate_type: str = ""
    certificate_password: str = ""
    key_file: str = ""
    certificate_text: str = ""
    key_text: str = ""
    key_password: str = ""
    versions: tuple[str, ...] = VERSIONS
    cipher_suites: tuple[str, ...] = ()
    checks_name: bool = True
    mechanism: str = ""
    username: str = ""
    password: str = ""
    client_id: str = ""

    def __repr__(self) -> str:
        return f"Security(tls={self.tls}, mechanism={self.mechanism!r}, username={self.username!r})"

    @property
    def protocol(self) -> str:
        """Kafka's name of the protocol."""
        return ("SASL_" if self.mechanism else "") + ("SSL" if self.tls else "PLAINTEXT")

    @property
    def has_certificate(self) -> bool:
        """Return whether the client can prove its own identity in TLS."""
        return bool(self.certificate_file or self.certificate_text)

    @property
    def tls_settings(self) -> TlsSettings:
        """The settings of TLS."""
        return TlsSettings(
            keystore=StoreSettings(
                kind="keystore", type=self.certificate_type, location=self.certificate_file, key_location=self.key_file,
                password=self.certificate_password, certificates=self.certificate_text, key=self.key_text,
                key_password=self.key_password),
            truststore=StoreSettings(kind="truststore", type=self.ca_type, location=self.ca_file,
                                     password=self.ca_password, certificates=self.ca_text),
            versions=self.versions, cipher_suites=self.cipher_suites, checks_name=self.checks_name)

    def context(self) -> ssl.SSLContext:
        """Create the TLS context. Raises `InvalidArgumentError` for unusable files. `ca_file` may be a directory of
        certificates as in librdkafka: files named by the hash of their subject."""
        return client_context(self.tls_settings)

    def library_settings(self) -> dict[str, str]:
        """Return the settings under librdkafka's names; unset ones are omitted. Raises `InvalidArgumentError` for a
        PKCS12 store that cannot be read: it is passed on as PEM."""
        found = {
            "sasl.mechanism": self.mechanism, "sasl.username": self.username, "sasl.password": self.password,
            "client.id": self.client_id,
        }
        if self.tls:
            found |= self._library_stores()
            found["ssl.endpoint.identification.algorithm"] = "https" if self.checks_name else "none"
        return {"security.protocol": self.protocol.lower()} | {key: value for key, value in found.items() if value}

    def _library_stores(self) -> dict[str, str]:
        found = {
            "ssl.ca.location": self.ca_file, "ssl.ca.pem": self.ca_text,
            "ssl.certificate.location": self.certificate_file, "ssl.certificate.pem": self.certificate_text,
            "ssl.key.location": self.key_file or self.certificate_file, "ssl.key.pem": self.key_text,
            "ssl.key.password": self.key_password,
        }
        settings = self.tls_settings
        if self.ca_type == PKCS12:
            found |= {"ssl.ca.location": "", "ssl.ca.pem": read_truststore(settings.truststore, "")}
        if self.certificate_type == PKCS12:
            entry = read_keystore(settings.keystore, "")
            found |= {"ssl.certificate.location": "", "ssl.key.location": "", "ssl.key.password": "",
                      "ssl.certificate.pem": entry.chain, "ssl.key.pem": entry.key}
        return found


PLAINTEXT: Final = Security()
_current: ContextVar[Security] = ContextVar("security", default=PLAINTEXT)


def current() -> Security:
    """Return the security of connections that are opened in this context without their own."""
    return _current.get()


@contextmanager
def secured(security: Security) -> Iterator[None]:
    """Make it the `current` one inside the block, in this thread."""
    token = _current.set(security)
    try:
        yield
    finally:
        _current.reset(token)


def security_of(properties: Mapping[str, str]) -> Security:
    """Return the security of a client's properties, under Kafka's names or librdkafka's. Properties of other parts of a
    client are ignored.

    `InvalidArgumentError` names a property that is unknown or has an unusable value.
    """
    found: dict[str, str] = {}
    for name, value in properties.items():
        if not name.startswith(PREFIXES) or WITHOUT_EFFECT.fullmatch(name):
            continue
        wanted = NAMES.get(name, name)
        if wanted not in KNOWN:
            raise InvalidArgumentError(f"{name}: not supported; known are {', '.join(sorted(KNOWN))}")
        found[wanted] = value
    protocol = found.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise InvalidArgumentError(f"security.protocol={protocol}: not one of {', '.join(PROTOCOLS)}")
    mechanism, username, password = _sasl(found) if protocol.startswith("SASL") else ("", "", "")
    tls = _tls(found) if protocol.endswith("SSL") else {}
    return Security(tls=protocol.endswith("SSL"), mechanism=mechanism, username=username, password=password,
                    checks_name=found.get("ssl.endpoint.identification.algorithm", "https").lower() == "https",
                    client_id=properties.get("client.id", ""), **tls)


def security_of_library(settings: Mapping[str, str]) -> Security | None:
    """Return the security of librdkafka's settings; None for settings that only that library supports, such as
    Kerberos."""
    if settings.get("enable.ssl.certificate.verification", "true").lower() == "false":
        return None
    try:
        return security_of({name: value for name, value in settings.items()
                            if name in KNOWN or name in NAMES or name == "client.id"})
    except InvalidArgumentError:
        return None


def _tls(found: Mapping[str, str]) -> dict[str, Any]:
    versions = _names(found.get("ssl.enabled.protocols", ""))
    return {"ca_file": found.get("ssl.truststore.location", ""), "ca_type": _store_type(found, "truststore"),
            "ca_password": found.get("ssl.truststore.password", ""),
            "ca_text": found.get("ssl.truststore.certificates", ""),
            "certificate_file": found.get("ssl.keystore.location", ""),
            "certificate_type": _store_type(found, "keystore"),
            "certificate_password": found.get("ssl.keystore.password", ""),
            "key_file": found.get("ssl.key.location", ""),
            "certificate_text": found.get("ssl.keystore.certificate.chain", ""),
            "key_text": found.get("ssl.keystore.key", ""), "key_password": found.get("ssl.key.password", ""),
            "versions": versions or VERSIONS, "cipher_suites": _names(found.get("ssl.cipher.suites", ""))}


def _store_type(found: Mapping[str, str], store: str) -> str:
    """Return the type of a store by its setting, else by the end of its file's name; "" for PEM, where that is usual
    and the content decides."""
    kind, location = found.get(f"ssl.{store}.type", "").upper(), found.get(f"ssl.{store}.location", "")
    if kind not in STORE_TYPES:
        raise InvalidArgumentError(f"ssl.{store}.type={kind}: not one of {', '.join(filter(None, STORE_TYPES))}")
    if kind == "JKS" or location.endswith(".jks"):
        raise InvalidArgumentError(
            f"ssl.{store}.{'type' if kind == 'JKS' else 'location'}={kind or location}: only Java reads JKS; keytool "
            f"-importkeystore -srckeystore {location or 'STORE'} -destkeystore STORE.p12 -deststoretype PKCS12 makes a "
            "store that all read")
    return kind if kind == PKCS12 or not location.endswith((".p12", ".pfx")) else PKCS12


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (part.strip() for part in text.split(","))))


def _sasl(found: Mapping[str, str]) -> tuple[str, str, str]:
    mechanism = found.get("sasl.mechanism", "").upper()
    if mechanism not in MECHANISMS:
        raise InvalidArgumentError(f"sasl.mechanism={mechanism}: not one of {', '.join(MECHANISMS)}")
    username, password = found.get("sasl.username"), found.get("sasl.password")
    if jaas := found.get("sasl.jaas.config"):
        login = JAAS_LOGIN.fullmatch(jaas.strip())
        if login is None:
            raise InvalidArgumentError("sasl.jaas.config: not of the form org.apache.kafka.common.security.scram."
                                       'ScramLoginModule required username="..." password="...";')
        options = {name: _unquoted(text) for name, text in JAAS_OPTION.findall(login[2])}
        username, password = options.get("username", username), options.get("password", password)
    if not username or password is None:
        raise InvalidArgumentError(f"sasl.mechanism={mechanism} needs a user and a password: sasl.jaas.config, or "
                                   "sasl.username and sasl.password")
    return mechanism, username, password


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text[:1] in ("'", '"') else text
