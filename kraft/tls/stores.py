"""Key stores and trust stores: PEM in a file or in the setting itself (KIP-651), and PKCS12.

What is read becomes PEM, the only form that the `ssl` module loads. A decrypted key of a PKCS12 store stays in memory.
"""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from kraft.tls.settings import StoreSettings
from kraft_native.base.errors import InvalidArgumentError

STORE_BYTES_MAX: Final = 4 * 1024 * 1024
JKS_MAGIC: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
DER_SEQUENCE: Final = b"\x30"
BASE64_COLUMNS: Final = 64
Stamp = tuple[int, int, int]
if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

    Pkcs12 = tuple[PrivateKeyTypes | None, x509.Certificate | None, list[x509.Certificate]]

_BLOCK = re.compile(r"-----BEGIN (?P<label>[A-Z0-9 ]+)-----(?P<body>[^-]*(?:-(?!----)[^-]*)*)-----END (?P=label)-----")
_HEADER = re.compile(r"^[A-Za-z-]+: .*$", re.MULTILINE)


class TlsError(InvalidArgumentError):
    """Settings of TLS that cannot be used; the message names the setting or the file."""


class KeyEntry(NamedTuple):
    """A certificate chain and its key, as PEM. `password` decrypts the key; "" where it is not encrypted."""

    chain: str
    key: str
    password: str

    def __repr__(self) -> str:
        return "KeyEntry()"


def read_keystore(store: StoreSettings, prefix: str) -> KeyEntry:
    """Return the entry of a key store. Raises `TlsError`."""
    if store.certificates or store.key:
        _check_inline(store, prefix)
        blocks = _blocks(store.certificates), _blocks(store.key)
        where = f"{prefix}ssl.keystore.certificate.chain", f"{prefix}ssl.keystore.key"
    else:
        data = read_file(store.location, f"{prefix}ssl.keystore.location")
        if _kind_of(store, data, prefix) == "PKCS12":
            return _pkcs12_entry(data, store, prefix)
        own = _blocks(_text(data, store.location))
        where = store.location, store.key_location or store.location
        blocks = own, (_blocks(_text(read_file(store.key_location, f"{prefix}ssl.key.location"), store.key_location))
                       if store.key_location else own)
    chain = [text for label, text in blocks[0] if label == "CERTIFICATE"]
    keys = [text for label, text in blocks[1] if label.endswith("PRIVATE KEY")]
    if not chain:
        raise TlsError(f"{where[0]}: no certificate in PEM form")
    if len(keys) != 1:
        raise TlsError(f"{where[1]}: {'more than one' if keys else 'no'} private key in PEM form")
    return KeyEntry("".join(chain), keys[0], store.key_password)


def read_truststore(store: StoreSettings, prefix: str) -> str:
    """Return the certificates of a trust store as PEM. Raises `TlsError`."""
    if store.certificates:
        _check_inline(store, prefix)
        where, blocks = f"{prefix}ssl.truststore.certificates", _blocks(store.certificates)
    else:
        where = store.location
        data = read_file(store.location, f"{prefix}ssl.truststore.location")
        if _kind_of(store, data, prefix) == "PKCS12":
            return _pkcs12_certificates(data, store, prefix)
        blocks = _blocks(_text(data, store.location))
    found = "".join(text for label, text in blocks if label in ("CERTIFICATE", "TRUSTED CERTIFICATE"))
    if not found:
        raise TlsError(f"{where}: no certificate in PEM form")
    return found


def read_file(location: str, setting: str) -> bytes:
    """Return a file's content. `TlsError` names the setting and the file."""
    try:
        data = read_bounded(location, STORE_BYTES_MAX)
    except (OSError, ValueError) as error:
        raise TlsError(f"{setting}: {location} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if data is None:
        raise TlsError(f"{setting}: {location} is larger than {STORE_BYTES_MAX} bytes")
    return data


def read_bounded(location: str, bytes_max: int) -> bytes | None:
    """Return a file's content; None for a file of more than `bytes_max` bytes. Raises OSError, and ValueError for a
    name that no file can have."""
    with Path(location).open("rb") as file:
        data = file.read(bytes_max + 1)
    return data if len(data) <= bytes_max else None


def stamp_of(location: str) -> Stamp | None:
    """Return what changes when a file is written or replaced; None for a file that cannot be read."""
    try:
        found = os.stat(location)
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def _check_inline(store: StoreSettings, prefix: str) -> None:
    name = f"{prefix}ssl.{store.kind}"
    if store.type.upper() not in ("", "PEM"):
        raise TlsError(f"{name}.type: {store.type}, but only PEM can be in the settings themselves")
    if store.location:
        raise TlsError(f"{name}.location: is set beside PEM in the settings; give one of them")
    if store.kind == "keystore" and not (store.certificates and store.key):
        given, missing = ("certificate.chain", "key") if store.certificates else ("key", "certificate.chain")
        raise TlsError(f"{name}.{missing}: is needed beside {name}.{given}")


def _kind_of(store: StoreSettings, data: bytes, prefix: str) -> str:
    """Return PEM or PKCS12. As in Java, type JKS reads PKCS12 too. Without a type the content decides."""
    kind, setting = store.type.upper(), f"{prefix}ssl.{store.kind}.type"
    if data.startswith(JKS_MAGIC):
        raise TlsError(
            f"{store.location}: is a JKS store, which only Java reads; convert it: keytool -importkeystore "
            f"-srckeystore {store.location} -destkeystore {Path(store.location).stem}.p12 -deststoretype PKCS12; "
            f"then set {setting}=PKCS12")
    is_binary = data.startswith(DER_SEQUENCE)
    if not kind:
        return "PKCS12" if is_binary else "PEM"
    if kind not in ("PEM", "PKCS12", "JKS"):
        raise TlsError(f"{setting}: {store.type} is not one of PEM, PKCS12")
    if kind == "PEM":
        if is_binary:
            raise TlsError(f"{store.location}: is not PEM; is it PKCS12? Then set {setting}=PKCS12")
        return "PEM"
    if not is_binary:
        what = f"is PEM; set {setting}=PEM" if b"-----BEGIN" in data else "is neither PKCS12 nor PEM"
        raise TlsError(f"{store.location}: {what}")
    return "PKCS12"


def _text(data: bytes, location: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise TlsError(f"{location}: is not PEM") from None


def _blocks(text: str) -> list[tuple[str, str]]:
    """Return the blocks of PEM with their labels, each in lines of the usual length: a setting may have it in one."""
    found = []
    for block in _BLOCK.finditer(text):
        label, body = block["label"], block["body"]
        headers = "".join(f"{line}\n" for line in _HEADER.findall(body))
        packed = "".join(_HEADER.sub("", body).split())
        lines = "\n".join(packed[at:at + BASE64_COLUMNS] for at in range(0, len(packed), BASE64_COLUMNS))
        between = f"{headers}\n" if headers else ""
        found.append((label, f"-----BEGIN {label}-----\n{between}{lines}\n-----END {label}-----\n"))
    return found


def _pkcs12_entry(data: bytes, store: StoreSettings, prefix: str) -> KeyEntry:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key, own, others = _load_pkcs12(data, store, prefix)
    if key is None or own is None:
        raise TlsError(f"{store.location}: has no key with a certificate")
    chain = "".join(each.public_bytes(Encoding.PEM).decode() for each in (own, *others))
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return KeyEntry(chain, text, "")


def _pkcs12_certificates(data: bytes, store: StoreSettings, prefix: str) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    _, own, others = _load_pkcs12(data, store, prefix)
    found = [each for each in (own, *others) if each is not None]
    if not found:
        raise TlsError(f"{store.location}: has no certificate")
    return "".join(each.public_bytes(Encoding.PEM).decode() for each in found)


def _load_pkcs12(data: bytes, store: StoreSettings, prefix: str) -> "Pkcs12":
    # Imported here: it is a library of its own, which PEM does not need.
    from cryptography.hazmat.primitives.serialization import pkcs12

    try:
        return pkcs12.load_key_and_certificates(data, store.password.encode() or None)
    except ValueError as error:
        raise TlsError(f"{store.location}: cannot be read as PKCS12 with {prefix}ssl.{store.kind}.password: {error}"
                       ) from error
