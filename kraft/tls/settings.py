"""Settings of TLS, as plain data: what `ssl.*` says, of a node's listener or of a client."""

from collections.abc import Callable
from typing import Final

from kraft.structs import immutable

VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
"""Values of ssl.enabled.protocols."""
NO_CLIENT: Final = "none"
REQUIRED: Final = "required"


@immutable(kw_only=True)
class StoreSettings:
    """`ssl.keystore.*` or `ssl.truststore.*`. Empty texts are unset."""

    kind: str
    """keystore or truststore."""
    type: str = ""
    """PEM, PKCS12 or JKS; "": the content decides."""
    location: str = ""
    key_location: str = ""
    """File of the key, where it is not in that of the certificates: librdkafka's ssl.key.location."""
    password: str = ""
    certificates: str = ""
    """PEM in the setting itself: a keystore's certificate chain, or a truststore's certificates."""
    key: str = ""
    key_password: str = ""

    def __repr__(self) -> str:
        return f"StoreSettings({self.kind}, {self.type}, {self.location!r})"

    @property
    def is_set(self) -> bool:
        """Return whether the store exists at all."""
        return bool(self.location or self.certificates or self.key)

    @property
    def files(self) -> tuple[str, ...]:
        """Files of the store."""
        return tuple(name for name in (self.location, self.key_location) if name)


def store_settings(kind: str, read: Callable[[str], str]) -> StoreSettings:
    """Return the settings of a store. `read` returns the text of a setting by Kafka's name; "" where it is unset."""
    name, is_own = f"ssl.{kind}", kind == "keystore"
    return StoreSettings(
        kind=kind, type=read(f"{name}.type"), location=read(f"{name}.location"), password=read(f"{name}.password"),
        certificates=read(f"{name}.certificate.chain" if is_own else f"{name}.certificates"),
        key=read(f"{name}.key") if is_own else "", key_password=read("ssl.key.password") if is_own else "")


@immutable(kw_only=True)
class TlsSettings:
    """`ssl.*` of one listener or one client. `prefix` is in front of each setting's name in errors."""

    prefix: str = ""
    keystore: StoreSettings = StoreSettings(kind="keystore")
    truststore: StoreSettings = StoreSettings(kind="truststore")
    client_auth: str = NO_CLIENT
    versions: tuple[str, ...] = VERSIONS
    cipher_suites: tuple[str, ...] = ()
    checks_name: bool = True
    """ssl.endpoint.identification.algorithm: a client checks that the certificate is for the server's name."""
    mapping_rules: str = "DEFAULT"

    @property
    def files(self) -> tuple[str, ...]:
        """Files that the settings name."""
        return (*self.keystore.files, *self.truststore.files)
