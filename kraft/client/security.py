"""Security of connections: TLS, and SASL by PLAIN, SCRAM or OAUTHBEARER, from a Kafka client's own properties."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kraft.config.errors import InvalidConfigError
from kraft.config.jaas import Login, parse_login
from kraft.config.oauth_settings import ASSERTION, ASSERTION_SETTINGS, OAUTHBEARER
from kraft.tls.contexts import client_context
from kraft.tls.settings import VERSIONS, StoreSettings, TlsSettings
from kraft.tls.stores import read_keystore, read_truststore
from kraft_native.base.errors import InvalidArgumentError

if TYPE_CHECKING:
    from kraft.config.oauth_settings import TokenLogin
    from kraft.config.setting import Value

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MODULES: Final = {"PLAIN": "PlainLoginModule", **dict.fromkeys(("SCRAM-SHA-256", "SCRAM-SHA-512"), "ScramLoginModule")}
MECHANISMS: Final = (*MODULES, OAUTHBEARER)
JAAS: Final = "sasl.jaas.config"
PKCS12: Final = "PKCS12"
STORE_TYPES: Final = ("", "PEM", PKCS12, "JKS")
PREFIXES: Final = ("security.", "ssl.", "sasl.")

# Kafka's name of a property, and librdkafka's, which is accepted too.
NAMES: Final[Mapping[str, str]] = {
    "ssl.ca.location": "ssl.truststore.location", "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.location": "ssl.keystore.location", "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key", "sasl.mechanisms": "sasl.mechanism",
    "sasl.oauthbearer.client.id": "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret": "sasl.oauthbearer.client.credentials.client.secret",
}
KNOWN: Final = frozenset({
    *NAMES.values(), "security.protocol", "ssl.key.location", "ssl.key.password", "ssl.truststore.type",
    "ssl.keystore.type", "ssl.endpoint.identification.algorithm", "sasl.username", "sasl.password", "sasl.jaas.config",
    "ssl.keystore.password", "ssl.truststore.password", "ssl.enabled.protocols", "ssl.cipher.suites",
    "sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.scope", "sasl.oauthbearer.header.urlencode",
    "sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms", "sasl.login.retry.backoff.ms",
    "sasl.login.retry.backoff.max.ms",
    *ASSERTION_SETTINGS,
})
# They select among Java implementations, or configure how Java renews credentials.
WITHOUT_EFFECT: Final = re.compile(
    r"ssl\.(protocol|provider|(key|trust)manager\.algorithm|secure\.random\..*|engine\.factory\.class)"
    r"|sasl\.kerberos\..*|sasl\.login\.(class|callback\..*|refresh\..*)|security\.providers")


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
    by_token: bool = False
    """User and password are the id and the secret of a delegation token (KIP-48)."""
    token: TokenLogin | None = None
    """Source of the tokens of OAUTHBEARER."""

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
        PKCS12 store that cannot be read, which is passed on as PEM, and for a proof of identity that the library lacks.
        """
        found = {
            "sasl.mechanism": self.mechanism, "sasl.username": self.username, "sasl.password": self.password,
            "client.id": self.client_id,
        }
        if self.token is not None:
            found |= {"sasl.username": ""} | _library_token(self.token)
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
    sasl = _sasl(found) if protocol.startswith("SASL") else {}
    tls = _tls(found) if protocol.endswith("SSL") else {}
    return Security(tls=protocol.endswith("SSL"),
                    checks_name=found.get("ssl.endpoint.identification.algorithm", "https").lower() == "https",
                    client_id=properties.get("client.id", ""), **sasl, **tls)


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


def _sasl(found: Mapping[str, str]) -> dict[str, Any]:
    mechanism = found.get("sasl.mechanism", "").upper()
    if mechanism not in MECHANISMS:
        raise InvalidArgumentError(f"sasl.mechanism={mechanism}: not one of {', '.join(MECHANISMS)}")
    try:
        login = parse_login(JAAS, found[JAAS]) if found.get(JAAS) else None
        if mechanism == OAUTHBEARER:
            token = _token_login(found, login)
            return {"mechanism": mechanism, "username": token.user, "token": token}
    except InvalidConfigError as error:
        raise InvalidArgumentError(str(error)) from error
    username, password, by_token = found.get("sasl.username"), found.get("sasl.password"), False
    if login is not None:
        if login.module.rpartition(".")[2] != MODULES[mechanism]:
            raise InvalidArgumentError(f"{JAAS}: the module of {mechanism} is {MODULES[mechanism]}")
        username, password = login.options.get("username", username), login.options.get("password", password)
        by_token = login.by_token
    if not username or password is None:
        raise InvalidArgumentError(f"sasl.mechanism={mechanism} needs a user and a password: {JAAS}, or "
                                   "sasl.username and sasl.password")
    return {"mechanism": mechanism, "username": username, "password": password, "by_token": by_token}


def _token_login(found: Mapping[str, str], login: Login | None) -> TokenLogin:
    """Return where tokens come from. The settings' types and defaults are those of the nodes."""
    # Imported here: the tables take a while to read, and other mechanisms do not need them.
    from kraft.config.oauth_settings import MODULE, URL_ENCODE, token_login
    from kraft.config.tables import broker_settings

    def read(name: str) -> Value:
        if name == URL_ENCODE:
            return found.get(name, "").lower() == "true"
        setting = broker_settings()[name]
        return setting.parse(found[name]) if name in found else setting.default

    if login is not None and login.module != MODULE:
        raise InvalidConfigError(f"{JAAS}: the module of {OAUTHBEARER} is {MODULE}")
    return token_login(JAAS, login or Login(MODULE, {}), read)


def _library_token(token: TokenLogin) -> dict[str, str]:
    """Return librdkafka's settings for the same tokens."""
    if token.provider is None:
        return {"enable.sasl.oauthbearer.unsecure.jwt": "true",
                "sasl.oauthbearer.config": f"principal={token.user} lifeSeconds={token.lifetime_s}"}
    if token.assertion is not None:
        raise InvalidArgumentError(f"{ASSERTION}.*: librdkafka, which is needed here, proves its identity to a "
                                   "provider by a secret only")
    return {"sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.token.endpoint.url": token.provider.url,
            "sasl.oauthbearer.client.id": token.client_id, "sasl.oauthbearer.client.secret": token.client_secret,
            "sasl.oauthbearer.scope": token.scope,
            "sasl.oauthbearer.extensions": ",".join(f"{key}={value}" for key, value in token.extensions),
            "https.ca.location": dict(token.provider.tls).get("ssl.truststore.location", "")}
