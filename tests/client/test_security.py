"""Properties of a Kafka client: their meaning, and the values that are refused."""

import pickle
import ssl
from pathlib import Path

import pytest

from kraft.client.security import PLAINTEXT, Security, current, secured, security_of, security_of_library
from kraft_native.base.errors import InvalidArgumentError

JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="a\\"b" password=\'p w\';'


def test_properties_in_the_names_of_kafka() -> None:
    found = security_of({
        "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": JAAS,
        "ssl.truststore.location": "ca.pem", "ssl.truststore.type": "PEM", "ssl.keystore.location": "own.pem",
        "ssl.key.password": "k", "ssl.endpoint.identification.algorithm": "", "client.id": "me", "acks": "all",
        "ssl.enabled.protocols": "TLSv1.3", "bootstrap.servers": "x:1",
    })
    assert found == Security(tls=True, ca_file="ca.pem", certificate_file="own.pem", key_password="k",
                             checks_name=False, mechanism="SCRAM-SHA-512", username='a"b', password="p w",
                             client_id="me", ca_type="PEM", versions=("TLSv1.3",))
    assert "p w" not in repr(found)
    assert pickle.loads(pickle.dumps(found)) == found
    assert found.library_settings() == {
        "security.protocol": "sasl_ssl", "ssl.ca.location": "ca.pem", "ssl.certificate.location": "own.pem",
        "ssl.key.location": "own.pem", "ssl.key.password": "k", "ssl.endpoint.identification.algorithm": "none",
        "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": 'a"b', "sasl.password": "p w", "client.id": "me"}
    assert security_of_library(found.library_settings()) == Security(
        tls=True, ca_file="ca.pem", certificate_file="own.pem", key_file="own.pem", key_password="k", checks_name=False,
        mechanism="SCRAM-SHA-512", username='a"b', password="p w", client_id="me")
    assert security_of({}) == PLAINTEXT


@pytest.mark.parametrize(("properties", "text"), [
    ({"security.protocol": "TLS"}, "not one of PLAINTEXT"), ({"ssl.truststore": "x"}, "ssl.truststore: not supported"),
    ({"security.protocol": "SSL", "ssl.truststore.location": "x.jks"}, "only Java reads JKS; keytool -importk"),
    ({"security.protocol": "SSL", "ssl.keystore.type": "JKS"}, "ssl.keystore.type=JKS: only Java"),
    ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, "sasl.mechanism=GSSAPI: not one of PLAIN"),
    ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "needs a user and a password"),
    ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": "x"}, "not of the form"),
])
def test_unusable_properties_are_refused(properties: dict[str, str], text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        security_of(properties)


def test_tokens_of_a_provider_in_the_names_of_the_library() -> None:
    found = security_of({
        "security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "https://p/t", "sasl.oauthbearer.scope": "s",
        "sasl.jaas.config": 'org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required '
                            'clientId="c" clientSecret="hush";'})
    assert security_of_library(found.library_settings()) == found
    assert pickle.loads(pickle.dumps(found)) == found
    assert "hush" not in repr(found)


def test_settings_that_only_the_library_supports() -> None:
    assert security_of_library({"security.protocol": "sasl_plaintext", "sasl.mechanism": "GSSAPI"}) is None
    assert security_of_library({"security.protocol": "ssl", "enable.ssl.certificate.verification": "false"}) is None
    assert security_of_library({"security.protocol": "ssl", "ssl.curves.list": "x"}) == Security(tls=True)


def test_files_that_are_no_pem_are_named() -> None:
    for field in ("ca_file", "certificate_file"):
        with pytest.raises(InvalidArgumentError, match=__file__):
            Security(tls=True, **{field: __file__}).context()
    assert Security(tls=True).context().verify_mode is ssl.CERT_REQUIRED


def test_trusted_certificates_may_be_a_directory(tmp_path: Path) -> None:
    """The path may be a directory, as in librdkafka's `ssl.ca.location`."""
    assert Security(tls=True, ca_file=str(tmp_path)).context().verify_mode is ssl.CERT_REQUIRED


def test_connections_of_a_block_are_secured() -> None:
    with secured(Security(tls=True)):
        assert current().tls
    assert current() == PLAINTEXT
