"""Cipher suites: Java's names, which are the standard's, in OpenSSL's terms."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

OF_TLS_1_3: Final = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
"""Suites of TLS 1.3 that OpenSSL offers. It selects among them itself."""
_SUITE = re.compile(
    r"TLS_(?P<exchange>ECDHE_ECDSA|ECDHE_RSA|DHE_RSA|RSA)_WITH_"
    r"(?P<cipher>AES_(?:128|256)_(?:GCM|CCM|CBC)|CHACHA20_POLY1305)_?(?P<digest>SHA(?:256|384)?)?")


class Suites(NamedTuple):
    """Suites by version of TLS. `older`: OpenSSL's list for TLS 1.2; "" means none."""

    older: str
    has_newer: bool


def openssl_name(suite: str) -> str | None:
    """Return OpenSSL's name of a suite of TLS 1.2; None for a suite that is not known. OpenSSL's own names are kept."""
    if not suite.startswith("TLS_"):
        return suite if re.fullmatch(r"[A-Z0-9-]+", suite) else None
    if (found := _SUITE.fullmatch(suite)) is None:
        return None
    exchange = "" if found["exchange"] == "RSA" else found["exchange"].replace("_", "-") + "-"
    cipher, digest = found["cipher"], found["digest"]
    if cipher == "CHACHA20_POLY1305":
        return f"{exchange}CHACHA20-POLY1305"
    _, bits, mode = cipher.split("_")
    shown = "" if mode == "CBC" else f"-{mode}"
    return f"{exchange}AES{bits}{shown}{f'-{digest}' if digest else ''}"


def split_suites(names: Sequence[str]) -> Suites:
    """Separate the suites of TLS 1.3. Raises `ValueError` for names that are unknown, or cannot have their effect."""
    newer = [name for name in names if name in OF_TLS_1_3]
    if newer and len(set(newer)) < len(OF_TLS_1_3):
        missing = [name for name in OF_TLS_1_3 if name not in newer]
        raise ValueError(f"the suites of TLS 1.3 can be offered only together; {', '.join(missing)} is missing")
    older = []
    for name in names:
        if name not in OF_TLS_1_3:
            if (found := openssl_name(name)) is None:
                raise ValueError(f"{name!r} is not known")
            older.append(found)
    return Suites(":".join(older), bool(newer))
