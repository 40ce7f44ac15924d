"""Key stores and trust stores: what is read, and what is refused with which words."""

from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from kraft.tls.settings import StoreSettings
from kraft.tls.stores import TlsError, read_keystore, read_truststore
from tests.tls.files import authority, issued, write_pem

JKS = b"\xfe\xed\xfe\xed\0\0\0\x02"


def encrypted(key: str, password: str) -> str:
    loaded = serialization.load_pem_private_key(key.encode(), None)
    return loaded.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                serialization.BestAvailableEncryption(password.encode())).decode()


def pkcs12_store(password: str) -> bytes:
    one = issued("node")
    key = serialization.load_pem_private_key(one.key.encode(), None)
    chain = [x509.load_pem_x509_certificate(each.encode()) for each in
             (one.certificate, authority().issued.certificate)]
    return pkcs12.serialize_key_and_certificates(  # type: ignore[arg-type]
        b"node", key, chain[0], chain[1:], serialization.BestAvailableEncryption(password.encode()))


def test_pem_in_a_file_and_in_the_settings(tmp_path: Path) -> None:
    write_pem(tmp_path)
    one = issued("client")
    in_file = read_keystore(StoreSettings(kind="keystore", type="PEM", location=f"{tmp_path}/client.pem"), "")
    own = StoreSettings(kind="keystore", type="PEM", certificates=one.certificate, key=one.key)
    in_settings = read_keystore(own, "")
    assert in_file == in_settings == (one.certificate, one.key, "")
    assert one.key not in repr(in_file)
    assert read_truststore(StoreSettings(kind="truststore", type="PEM", location=f"{tmp_path}/ca.pem"), "") == (
        authority().issued.certificate)
    # A setting may have everything in one line.
    line = StoreSettings(kind="truststore", certificates=authority().issued.certificate.replace("\n", " "))
    assert read_truststore(line, "") == authority().issued.certificate


def test_the_key_may_have_a_file_of_its_own(tmp_path: Path) -> None:
    one = issued("client")
    (tmp_path / "own.crt").write_text(one.certificate + authority().issued.certificate)
    (tmp_path / "own.key").write_text(encrypted(one.key, "secret"))
    found = read_keystore(StoreSettings(kind="keystore", location=f"{tmp_path}/own.crt",
                                        key_location=f"{tmp_path}/own.key", key_password="secret"), "")
    assert found.chain.count("BEGIN CERTIFICATE") == 2
    assert found.password == "secret"
    assert "ENCRYPTED" in found.key


def test_pkcs12(tmp_path: Path) -> None:
    file = tmp_path / "node.p12"
    file.write_bytes(pkcs12_store("secret"))
    for kind in ("PKCS12", "JKS", ""):           # as in Java, type JKS reads both
        store = StoreSettings(kind="keystore", type=kind, location=str(file), password="secret")
        found = read_keystore(store, "")
        assert found.chain == issued("node").certificate + authority().issued.certificate
        assert found.password == ""
        assert "secret" not in repr(store)
    trusted = read_truststore(StoreSettings(kind="truststore", location=str(file), password="secret"), "")
    assert trusted.count("BEGIN") == 2
    with pytest.raises(TlsError, match=r"cannot be read as PKCS12 with listener\.name\.x\.ssl\.keystore\.password"):
        read_keystore(StoreSettings(kind="keystore", type="PKCS12", location=str(file), password="wrong"),
                      "listener.name.x.")


@pytest.mark.parametrize(("kind", "content", "says"), [
    ("JKS", JKS, "keytool -importkeystore -srckeystore {file} -destkeystore store.p12 -deststoretype PKCS12; then set"),
    ("JKS", JKS, "set ssl.keystore.type=PKCS12"),
    ("PEM", JKS, "is a JKS store"), ("", JKS, "is a JKS store"),
    ("PKCS12", b"-----BEGIN CERTIFICATE-----", "is PEM; set ssl.keystore.type=PEM"),
    ("PKCS12", b"x", "is neither PKCS12 nor PEM"), ("PEM", b"\x30\x82", "set ssl.keystore.type=PKCS12"),
    ("PEM", b"\xff\xff", "is not PEM"), ("PEM", b"", "no certificate in PEM form"),
    ("BKS", b"x", "ssl.keystore.type: BKS is not one of PEM, PKCS12"), ("PEM", None, "cannot be read: No such file"),
    ("PKCS12", b"\x30\x82\x01", "cannot be read as PKCS12"), ("PEM", b"x" * (4 << 20) + b"y", "is larger than"),
])
def test_files_that_cannot_be_used(tmp_path: Path, kind: str, content: bytes | None, says: str) -> None:
    file = tmp_path / "store.jks"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(TlsError) as error:
        read_keystore(StoreSettings(kind="keystore", type=kind, location=str(file)), "")
    assert says.format(file=file) in str(error.value)
    assert str(file) in str(error.value) or says.startswith("ssl.")


@pytest.mark.parametrize(("settings", "says"), [
    ({"certificates": "x"}, "ssl.keystore.key: is needed beside ssl.keystore.certificate.chain"),
    ({"key": "x"}, "ssl.keystore.certificate.chain: is needed beside ssl.keystore.key"),
    ({"certificates": "x", "key": "y", "location": "z"}, "ssl.keystore.location: is set beside"),
    ({"certificates": "x", "key": "y", "type": "PKCS12"}, "ssl.keystore.type: PKCS12, but only PEM"),
    ({"certificates": "x", "key": "y"}, "ssl.keystore.certificate.chain: no certificate"),
])
def test_pem_in_settings_that_cannot_be_used(settings: dict[str, str], says: str) -> None:
    with pytest.raises(TlsError, match=says):
        read_keystore(StoreSettings(kind="keystore", **settings), "")


def test_a_store_has_one_key(tmp_path: Path) -> None:
    one = issued("client")
    for text, says in ((one.certificate, "no private key"), (one.key + one.key + one.certificate, "more than one")):
        (tmp_path / "own.pem").write_text(text)
        with pytest.raises(TlsError, match=says):
            read_keystore(StoreSettings(kind="keystore", type="PEM", location=f"{tmp_path}/own.pem"), "")
