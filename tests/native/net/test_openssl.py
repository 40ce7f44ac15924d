"""OpenSSL itself: its results and errors are those of the `ssl` module."""

import ssl
import sys
from pathlib import Path

import pytest

from kraft.tls.contexts import dialed_context, server_context
from kraft.tls.library import SSL_MODULE, VARIABLE, library_text, openssl
from kraft.tls.settings import TlsSettings
from kraft_native.net.tls_session import TlsSession, shake_in_memory
from tests.tls.files import LOCAL, client_settings, issued, keystore, node_settings, truststore
from tests.tls.test_contexts import changed

native = pytest.importorskip("kraft_native.net.openssl", reason="built without OpenSSL's headers (libssl-dev)")
TLS_1_2 = ("TLSv1.2",)


def shaken(library: str, server: TlsSettings, client: TlsSettings, host: str | None,
           monkeypatch: pytest.MonkeyPatch) -> tuple[TlsSession, TlsSession]:
    """Both sides by one library. Raises `ssl.SSLError`."""
    monkeypatch.setenv(VARIABLE, library)
    found = shake_in_memory(server_context(server), dialed_context(client), host)
    assert {side.library() for side in found} == {library}
    return found


@pytest.mark.parametrize(("server", "client"), [
    (node_settings(), client_settings()), (node_settings("required"), client_settings("alice")),
    (changed(node_settings("requested"), versions=TLS_1_2), client_settings("alice")),
    (node_settings(), changed(client_settings(), versions=TLS_1_2)),
], ids=["server", "both", "1.2", "client of 1.2"])
def test_the_same_results(server: TlsSettings, client: TlsSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    def facts(library: str) -> object:
        return [(side.version(), side.cipher(), side.peer_certificate())
                for side in shaken(library, server, client, "localhost", monkeypatch)]

    assert facts("openssl") == facts(SSL_MODULE)


@pytest.mark.parametrize(("server", "client", "host"), [
    (node_settings("required"), client_settings(), None),
    (node_settings("required"), client_settings("eve", of="other"), None),
    (node_settings(), client_settings(of="other"), None),
    (node_settings(), client_settings(), "elsewhere"), (node_settings(), client_settings(), "10.1.1.1"),
    (changed(node_settings(), keystore=keystore(issued("node", *LOCAL, of="other"))), client_settings(), "localhost"),
    (changed(node_settings("required"), truststore=truststore("other")), client_settings("alice"), None),
    (changed(node_settings(), versions=TLS_1_2), changed(client_settings(), versions=("TLSv1.3",)), None),
    (changed(node_settings(), versions=("TLSv1.3",)), changed(client_settings(), versions=TLS_1_2), None),
    (changed(node_settings(), versions=TLS_1_2, cipher_suites=("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",)),
     changed(client_settings(), cipher_suites=("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",)), None),
], ids=["no certificate", "foreign client", "other authority", "name", "address", "foreign server", "untrusted client",
        "older server", "older client", "suites"])
def test_the_same_errors(server: TlsSettings, client: TlsSettings, host: str | None,
                         monkeypatch: pytest.MonkeyPatch) -> None:
    """Metrics count them by these reasons, and logs have these words."""
    def failure(library: str) -> object:
        with pytest.raises(ssl.SSLError) as raised:
            shaken(library, server, client, host, monkeypatch)
        error = raised.value
        return (type(error), error.library, error.reason, getattr(error, "verify_code", None),
                getattr(error, "verify_message", None), str(error).partition(" (_ssl")[0])

    assert failure("openssl") == failure(SSL_MODULE)


def test_reasons_have_the_names_of_the_ssl_module() -> None:
    """The library has no names, but texts: they are made of the same words."""
    known: dict[tuple[int, int], str] = vars(ssl)["_ssl"].err_codes_to_names
    libraries: dict[int, str] = vars(ssl)["_ssl"].lib_codes_to_names
    compared = {code: name for code, name in known.items()
                if libraries.get(code[0]) == "SSL" and native.reason_name(*code) is not None}
    assert len(compared) > 200
    differing = {name: native.reason_name(*code) for code, name in compared.items()
                 if native.reason_name(*code) != name}
    # Suite B, SRP and GOST are nothing that a node offers.
    assert set(differing) <= {"AT_LEAST_TLS_1_2_NEEDED_IN_SUITEB_MODE", "MISSING_SRP_PARAM", "SRP_A_CALC",
                              "ILLEGAL_SUITEB_DIGEST", "NO_GOST_CERTIFICATE_SENT_BY_PEER"}
    assert native.reason_name(20, 4095) is None


def test_names_of_servers() -> None:
    server, client = server_context(node_settings()), dialed_context(client_settings())
    for host in LOCAL:
        shake_in_memory(server, client, host)
    for host in ("", ".localhost", "local\0host"):
        with pytest.raises(ValueError, match="is not the name of a server"):
            shake_in_memory(server, client, host)
    unchecked = dialed_context(changed(client_settings(), checks_name=False))
    shake_in_memory(server, unchecked, "elsewhere")


def test_system_authorities(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that the `ssl` module has for the system are used where no trust store is set."""
    settings = changed(client_settings(), truststore=TlsSettings().truststore)
    with pytest.raises(ssl.SSLError, match="certificate verify failed"):
        shake_in_memory(server_context(node_settings()), dialed_context(settings), "localhost")
    (tmp_path / "ca.pem").write_text(truststore().certificates)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    shake_in_memory(server_context(node_settings()), dialed_context(settings), "localhost")


def test_a_context_is_initialized_once_and_refuses_what_it_cannot_use() -> None:
    given = {"is_server": True, "first_version": ssl.TLSVersion.TLSv1_2, "last_version": ssl.TLSVersion.TLSv1_3,
             "suites": "", "security_level": 2, "verify": 0, "checks_name": False, "trusted": b"", "trusted_file": "",
             "trusted_directory": "", "certificates": b"", "key": b"", "password": b""}
    context = native.OpenSslContext(**given)
    with pytest.raises(ValueError, match="initialized once"):
        context.__init__(**given)
    one = issued("node", *LOCAL)
    for changes, reason in (
            ({"suites": "NONE-OF-THESE"}, "NO_CIPHER_MATCH"),
            ({"certificates": one.certificate.encode(), "key": issued("alice").key.encode()}, "KEY_VALUES_MISMATCH"),
            ({"certificates": b"x", "key": b"x"}, None), ({"certificates": one.certificate.encode()}, None),
            ({"trusted_file": "/none"}, None)):
        with pytest.raises(ssl.SSLError) as error:
            native.OpenSslContext(**{**given, **changes})
        assert reason is None or error.value.reason == reason


def test_what_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert library_text() == f"{native.library_version()}, compiled in"
    monkeypatch.setenv(VARIABLE, SSL_MODULE)
    assert openssl() is None
    assert library_text().endswith("by Python's ssl module (KRAFT_TLS=ssl)")
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setitem(sys.modules, "kraft_native.net.openssl", None)
    monkeypatch.delattr("kraft_native.net.openssl")
    assert openssl() is None
    assert "apt-get install libssl-dev" in library_text()
    assert server_context(node_settings()).compiled is None
