"""Faults of certificates, before anything uses them."""

import time

import pytest

from kraft.tls.authority import Authority
from kraft.tls.checks import check_tls
from kraft.tls.settings import StoreSettings, TlsSettings
from tests.tls.files import LOCAL, authority, client_settings, issued, keystore, node_settings, truststore

NOW = time.time()
DAY = 86_400


def findings(settings: TlsSettings, hosts: tuple[str, ...] = ("localhost",),
             now: float | None = None) -> list[tuple[bool, str]]:
    found = check_tls(settings, hosts, time.time() if now is None else now).findings
    return [tuple(each) for each in found]  # type: ignore[misc]


def test_nothing_to_find() -> None:
    report = check_tls(node_settings("required"), LOCAL, NOW)
    assert (report.findings, report.has_faults) == ([], False)
    assert ([each.subject for each in report.own], [each.subject for each in report.trusted]) == (
        ["CN=node"], ["CN=test CA"])
    assert findings(client_settings("alice"), ()) == []
    assert findings(client_settings(), ()) == []


@pytest.mark.parametrize(("settings", "hosts", "now", "says"), [
    (node_settings(), LOCAL, NOW + 900 * DAY, (True, "CN=node: has expired at 20")),
    (node_settings(), LOCAL, NOW + 800 * DAY + 3600, (False, "CN=node: expires in 24 days")),
    (node_settings(), LOCAL, NOW - DAY, (True, "CN=node: is valid from 20")),
    (node_settings(), ("b1.example",), NOW, (True, "CN=node: is not for b1.example, by which clients connect; it is")),
    (TlsSettings(keystore=keystore(issued("node", *LOCAL, of="other")), truststore=truststore()), LOCAL, NOW,
     (True, "the certificate does not lead to one of the trust store")),
    (TlsSettings(keystore=keystore(issued("node", *LOCAL))), LOCAL, NOW, (False, "ssl.truststore is not set")),
    (TlsSettings(keystore=StoreSettings(kind="keystore", location="/none")), LOCAL, NOW,
     (True, "/none cannot be read")),
    (TlsSettings(keystore=keystore(issued("alice", of="other")), truststore=truststore()), (), NOW,
     (True, "the certificate does not lead to one of the trust store")),
], ids=["expired", "expires", "future", "name", "chain", "no trust", "no file", "chain of a client"])
def test_faults(settings: TlsSettings, hosts: tuple[str, ...], now: float, says: tuple[bool, str]) -> None:
    found = findings(settings, hosts, now)
    assert any(is_fault == says[0] and says[1] in text for is_fault, text in found), found


def test_names_with_a_star() -> None:
    one = authority().issue("node", ("*.example",))
    settings = TlsSettings(keystore=keystore(one), truststore=truststore())
    assert findings(settings, ("b1.example", "B2.EXAMPLE")) == []
    assert findings(settings, ("example", "a.b.example", ".example"))[0][0]


def test_an_authority_of_its_own() -> None:
    own = Authority("own", days=10)
    report = check_tls(TlsSettings(keystore=keystore(own.issue("n", ("h",), 5)), truststore=StoreSettings(
        kind="truststore", certificates=own.issued.certificate)), ("h",), time.time() + 60)
    assert [each.text for each in report.findings] == ["CN=n: expires in 4 days", "CN=own: expires in 9 days"]
    assert "PRIVATE" not in repr(own.issued)
