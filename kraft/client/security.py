"""Security of connections: TLS by Python's `ssl`, SASL by PLAIN or SCRAM, from a Kafka client's own properties."""

from __future__ import annotations

import re
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kraft_native.base.errors import InvalidArgumentError

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
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
})
# They select among Java implementations, or configure how Java renews credentials.
WITHOUT_EFFECT: Final = re.compile(
    r"ssl\.(protocol|provider|enabled\.protocols|cipher\.suites|(key|trust)manager\.algorithm|secure\.random\..*"
    r"|truststore\.password|engine\.factory\.class)|sasl\.(login|kerberos)\..*|security\.providers")
JAAS_LOGIN: Final = re.compile(r"[\w.$]*(Plain|Scram)LoginModule\s+required\b(.*);", re.DOTALL)
JAAS_OPTION: Final = re.compile(r'(username|password)\s*=\s*("(?:[^"\\]|\\.)*"|\'[^\']*\'|\S+?)(?=\s|;|$)')


@dataclass(frozen=True, slots=True)
class Security:
    """Security settings of a connection. All are plain texts, so that another process can use them."""

    tls: bool = False
    ca_file: str = ""
    ca_text: str = ""
    certificate_file: str = ""
    key_file: str = ""
    certificate_text: str = ""
    key_text: str = ""
    key_password: str = ""
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

    def context(self) -> ssl.SSLContext:
        """Create the TLS context. Raises `InvalidArgumentError` for unusable files. `ca_file` may be a directory of
        certificates as in librdkafka: files named by the hash of their subject."""
        ca_path = Path(self.ca_file) if self.ca_file else None
        is_directory = ca_path is not None and ca_path.is_dir()
        try:
            context = ssl.create_default_context(cafile=None if is_directory else ca_path,
                                                 capath=ca_path if is_directory else None, cadata=self.ca_text or None)
        except (OSError, ssl.SSLError) as error:
            raise InvalidArgumentError(f"ssl.truststore {self.ca_file or 'certificates'}: not readable as PEM: "
                                       f"{error}") from error
        context.check_hostname = self.checks_name
        try:
            self._load_own(context)
        except (OSError, ssl.SSLError) as error:
            raise InvalidArgumentError(f"ssl.keystore {self.certificate_file or 'key'}: not readable as PEM with the "
                                       f"given password: {error}") from error
        return context

    def _load_own(self, context: ssl.SSLContext) -> None:
        password = self.key_password  # an empty one instead of None: for None the library prompts at the terminal
        if self.certificate_file:
            context.load_cert_chain(self.certificate_file, self.key_file or None, password)
        elif self.certificate_text:
            with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:    # readable for its owner only
                file.write(f"{self.certificate_text}\n{self.key_text}\n")
                file.flush()
                context.load_cert_chain(file.name, None, password)

    def library_settings(self) -> dict[str, str]:
        """Return the settings under librdkafka's names; unset ones are omitted."""
        found = {
            "ssl.ca.location": self.ca_file, "ssl.ca.pem": self.ca_text,
            "ssl.certificate.location": self.certificate_file, "ssl.certificate.pem": self.certificate_text,
            "ssl.key.location": self.key_file or self.certificate_file, "ssl.key.pem": self.key_text,
            "ssl.key.password": self.key_password,
            "sasl.mechanism": self.mechanism, "sasl.username": self.username, "sasl.password": self.password,
            "client.id": self.client_id,
        }
        if self.tls:
            found["ssl.endpoint.identification.algorithm"] = "https" if self.checks_name else "none"
        return {"security.protocol": self.protocol.lower()} | {key: value for key, value in found.items() if value}


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


def _tls(found: Mapping[str, str]) -> dict[str, str]:
    for store in ("truststore", "keystore"):
        kind = found.get(f"ssl.{store}.type", "PEM").upper()
        location = found.get(f"ssl.{store}.location", "")
        if kind != "PEM" or location.endswith((".jks", ".p12", ".pfx")):
            raise InvalidArgumentError(
                f"ssl.{store}.{'type' if kind != 'PEM' else 'location'}={kind if kind != 'PEM' else location}: only "
                f"PEM can be read; openssl pkcs12 -in {location or 'STORE'} -out store.pem makes such a file")
    return {"ca_file": found.get("ssl.truststore.location", ""),
            "ca_text": found.get("ssl.truststore.certificates", ""),
            "certificate_file": found.get("ssl.keystore.location", ""), "key_file": found.get("ssl.key.location", ""),
            "certificate_text": found.get("ssl.keystore.certificate.chain", ""),
            "key_text": found.get("ssl.keystore.key", ""), "key_password": found.get("ssl.key.password", "")}


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
