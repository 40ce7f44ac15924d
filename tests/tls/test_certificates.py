"""Facts of certificates, and changes that are refused."""

import pytest

from kraft.tls.certificates import check_change, facts_of
from kraft.tls.stores import TlsError
from tests.tls.files import LOCAL, authority, issued

ALLOWED = {"ssl.allow.dn.changes": False, "ssl.allow.san.changes": False}


def test_facts() -> None:
    found = facts_of(issued("node", *LOCAL).certificate)
    assert (found.subject, found.issuer, found.names, found.is_authority) == (
        "CN=node", "CN=test CA", LOCAL, False)
    assert 824 * 86_400 < found.ends_s - found.begins_s < 826 * 86_400
    assert str(found).startswith("CN=node, valid until 20")
    own = facts_of(authority().issued.certificate)
    assert (own.subject, own.names, own.is_authority) == ("CN=test CA", (), True)
    with pytest.raises(TlsError, match="a certificate cannot be read"):
        facts_of("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----")


def test_a_new_certificate_is_for_the_same_node() -> None:
    before = facts_of(issued("node", *LOCAL).certificate)
    check_change(before, facts_of(issued("node", *LOCAL, "more").certificate), "", ALLOWED)
    with pytest.raises(TlsError, match=r"is for CN=other, the current one for CN=node; ssl.allow.dn.changes=true"):
        check_change(before, facts_of(issued("other", *LOCAL).certificate), "", ALLOWED)
    check_change(before, facts_of(issued("other", *LOCAL).certificate), "", ALLOWED | {"ssl.allow.dn.changes": True})
    fewer = facts_of(issued("node", "localhost").certificate)
    with pytest.raises(TlsError, match=r"is not for 127.0.0.1, ::1, and the current one is"):
        check_change(before, fewer, "", ALLOWED)
    check_change(before, fewer, "", ALLOWED | {"ssl.allow.san.changes": True})
