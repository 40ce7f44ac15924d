"""Certificates for tests, made in memory: an authority, and what it issues."""

from functools import cache
from pathlib import Path

from kraft.tls.authority import Authority, Issued
from kraft.tls.settings import StoreSettings, TlsSettings

LOCAL = ("localhost", "127.0.0.1", "::1")


def authority(name: str = "test CA") -> Authority:
    return _authority(name)


@cache
def _authority(name: str) -> Authority:
    return Authority(name)


@cache
def issued(name: str, *hosts: str, of: str = "test CA") -> Issued:
    return authority(of).issue(name, hosts)


def keystore(one: Issued) -> StoreSettings:
    return StoreSettings(kind="keystore", type="PEM", certificates=one.certificate, key=one.key)


def truststore(of: str = "test CA") -> StoreSettings:
    return StoreSettings(kind="truststore", type="PEM", certificates=authority(of).issued.certificate)


def node_settings(client_auth: str = "none", name: str = "node") -> TlsSettings:
    return TlsSettings(keystore=keystore(issued(name, *LOCAL)), truststore=truststore(), client_auth=client_auth)


def client_settings(name: str = "", of: str = "test CA") -> TlsSettings:
    """Settings of a client that trusts the authority; with a name, of one that has a certificate."""
    own = keystore(issued(name)) if name else StoreSettings(kind="keystore")
    return TlsSettings(keystore=own, truststore=truststore(of))


def write_pem(directory: Path) -> None:
    """Write `ca.pem`, `other.pem`, and with their keys `server.pem` (for this machine) and `client.pem`."""
    for name, text in (("ca", authority().issued.certificate), ("other", authority("other").issued.certificate)):
        (directory / f"{name}.pem").write_text(text)
    for name, one in (("server", issued("server", *LOCAL)), ("client", issued("client"))):
        (directory / f"{name}.pem").write_text(one.key + one.certificate)
