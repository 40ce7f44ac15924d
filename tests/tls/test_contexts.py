"""Contexts from settings: what the two sides negotiate, and what is refused."""

import ssl
from pathlib import Path

import pytest

from kraft.tls.authority import Issued
from kraft.tls.cipher_suites import OF_TLS_1_3
from kraft.tls.contexts import check_pair, client_context, server_context
from kraft.tls.settings import StoreSettings, TlsSettings
from kraft.tls.stores import TlsError
from tests.tls.files import LOCAL, client_settings, issued, keystore, node_settings, truststore, write_pem
from tests.tls.test_stores import encrypted

pytestmark = pytest.mark.usefixtures("library")

NO_CERTIFICATE = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"
OLDER = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"


def changed(settings: TlsSettings, **changes: object) -> TlsSettings:
    names = ("prefix", "keystore", "truststore", "client_auth", "versions", "cipher_suites", "checks_name",
             "mapping_rules")
    return TlsSettings(**{**{name: getattr(settings, name) for name in names}, **changes})  # type: ignore[arg-type]


def negotiated(server: TlsSettings, client: TlsSettings, host: str = "localhost") -> ssl.SSLObject:
    """Shake hands in memory, and return the server's side. Raises the error of the side that fails first."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [client_context(client).wrap_bio(to_client, to_server, server_hostname=host),
             server_context(server).wrap_bio(to_server, to_client, server_side=True)]
    own = sides[1]
    for _ in range(6):
        for side in list(sides):
            try:
                side.do_handshake()
                sides.remove(side)
            except ssl.SSLWantReadError:
                continue
    assert not sides
    return own


@pytest.mark.parametrize(("versions", "suites", "version", "suite"), [
    (("TLSv1.2", "TLSv1.3"), (), "TLSv1.3", ""), (("TLSv1.2",), (), "TLSv1.2", ""), (("TLSv1.3",), (), "TLSv1.3", ""),
    (("TLSv1.2", "TLSv1.3"), (OLDER,), "TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384"),
    (("TLSv1.2", "TLSv1.3"), OF_TLS_1_3, "TLSv1.3", ""), (("TLSv1.2", "TLSv1.3"), (OLDER, *OF_TLS_1_3), "TLSv1.3", ""),
])
def test_versions_and_suites(versions: tuple[str, ...], suites: tuple[str, ...], version: str, suite: str) -> None:
    found = negotiated(changed(node_settings(), versions=versions, cipher_suites=suites), client_settings())
    assert found.version() == version
    cipher = found.cipher()
    assert cipher is not None
    assert suite in ("", cipher[0])


@pytest.mark.parametrize(("client_auth", "client", "user"), [
    ("none", "alice", False), ("requested", "alice", True), ("requested", "", False), ("required", "alice", True),
])
def test_certificates_of_clients(client_auth: str, client: str, user: bool) -> None:
    found = negotiated(node_settings(client_auth), client_settings(client))
    assert (found.getpeercert(binary_form=True) is not None) is user


@pytest.mark.parametrize(("server", "client", "host", "reason"), [
    (node_settings("required"), client_settings(), "localhost", "PEER_DID_NOT_RETURN_A_CERTIFICATE"),
    (node_settings(), client_settings(of="other"), "localhost", "CERTIFICATE_VERIFY_FAILED"),
    (node_settings(), client_settings(), "elsewhere", "CERTIFICATE_VERIFY_FAILED"),
    (changed(node_settings("requested"), truststore=truststore("other")), client_settings("alice"), "localhost",
     "CERTIFICATE_VERIFY_FAILED"),
], ids=["no certificate", "unknown authority", "another host", "unknown authority of the client"])
def test_what_is_not_accepted(server: TlsSettings, client: TlsSettings, host: str, reason: str) -> None:
    with pytest.raises(ssl.SSLError) as error:
        negotiated(server, client, host)
    assert error.value.reason == reason


def test_the_name_of_a_server_is_checked_unless_that_is_switched_off() -> None:
    negotiated(node_settings(), changed(client_settings(), checks_name=False), "elsewhere")


def test_nothing_is_renegotiated() -> None:
    for context in (server_context(node_settings()), client_context(client_settings())):
        assert context.options & ssl.OP_NO_RENEGOTIATION
        assert context.options & ssl.OP_NO_COMPRESSION


def test_encrypted_keys() -> None:
    one = issued("node", *LOCAL)
    locked = Issued(one.certificate, encrypted(one.key, "secret"))

    def settings(password: str) -> TlsSettings:
        return changed(node_settings(), keystore=StoreSettings(
            kind="keystore", certificates=locked.certificate, key=locked.key, key_password=password))

    negotiated(settings("secret"), client_settings())
    for wrong in ("", "guess"):
        with pytest.raises(TlsError, match=r"ssl\.keystore\.key: the key cannot be decrypted with ssl\.key\.password"):
            server_context(settings(wrong))


@pytest.mark.parametrize(("changes", "says"), [
    ({"keystore": StoreSettings(kind="keystore")}, "ssl.keystore.location: is needed"),
    ({"keystore": keystore(Issued(issued("node", *LOCAL).certificate, issued("alice").key))},
     "the key is not that of the certificate"),
    ({"keystore": keystore(Issued(NO_CERTIFICATE, issued("alice").key))},
     "the key or certificate cannot be used"),
    ({"client_auth": "required", "truststore": StoreSettings(kind="truststore")},
     "ssl.truststore.location: is needed by ssl.client.auth=required"),
    ({"client_auth": "requested", "truststore": StoreSettings(
        kind="truststore", certificates=NO_CERTIFICATE)},
     "ssl.truststore.certificates: a certificate cannot be used"),
    ({"versions": ("TLSv1.1",)}, "ssl.enabled.protocols: 'TLSv1.1' is not one of TLSv1.2, TLSv1.3"),
    ({"versions": ()}, "ssl.enabled.protocols: names no version"),
    ({"cipher_suites": ("TLS_NONE",)}, "ssl.cipher.suites: 'TLS_NONE' is not known"),
    ({"cipher_suites": ("ECDHE-RSA-AES257",)}, "ssl.cipher.suites: "),
    ({"cipher_suites": (OLDER,), "versions": ("TLSv1.3",)}, "none is of a version in ssl.enabled.protocols"),
])
def test_settings_that_cannot_be_used(changes: dict[str, object], says: str) -> None:
    with pytest.raises(TlsError) as error:
        server_context(changed(node_settings(), prefix="listener.name.x.", **changes))
    assert says in str(error.value)
    assert "PRIVATE" not in str(error.value)


def test_nodes_that_would_not_accept_each_other() -> None:
    check_pair(server_context(node_settings("required")), client_context(node_settings()))
    for client, says in ((client_settings(), "peer did not return a certificate"),
                         (client_settings(of="other"), "certificate verify failed")):
        with pytest.raises(ssl.SSLError, match=says):
            check_pair(server_context(node_settings("required")), client_context(client))


def test_a_trust_store_may_be_a_directory(tmp_path: Path) -> None:
    write_pem(tmp_path)
    settings = changed(client_settings(), truststore=StoreSettings(kind="truststore", location=str(tmp_path)))
    with pytest.raises(ssl.SSLError, match="certificate verify failed"):      # no file has the name of a hash
        negotiated(node_settings(), settings)
