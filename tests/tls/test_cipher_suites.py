"""Names of cipher suites."""

import pytest

from kraft.tls.cipher_suites import OF_TLS_1_3, Suites, openssl_name, split_suites


@pytest.mark.parametrize(("suite", "name"), [
    ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
    ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
    ("TLS_DHE_RSA_WITH_AES_128_CBC_SHA256", "DHE-RSA-AES128-SHA256"), ("TLS_RSA_WITH_AES_256_CBC_SHA", "AES256-SHA"),
    ("TLS_ECDHE_ECDSA_WITH_AES_128_CCM", "ECDHE-ECDSA-AES128-CCM"), ("ECDHE-RSA-AES256-GCM-SHA384",) * 2,
    ("TLS_RSA_WITH_NULL_SHA256", None), ("TLS_KRB5_WITH_3DES_EDE_CBC_SHA", None), ("ALL:eNULL", None),
])
def test_names_of_openssl(suite: str, name: str | None) -> None:
    assert openssl_name(suite) == name


def test_names_that_openssl_knows() -> None:
    """Every name that is made is one of the library's."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("ALL")
    known = {each["name"] for each in context.get_ciphers()}
    for exchange in ("ECDHE_ECDSA", "ECDHE_RSA", "DHE_RSA"):
        for cipher in ("AES_128_GCM_SHA256", "AES_256_GCM_SHA384", "CHACHA20_POLY1305_SHA256", "AES_256_CCM"):
            assert openssl_name(f"TLS_{exchange}_WITH_{cipher}") in known | {"ECDHE-RSA-AES256-CCM"}


def test_suites_of_both_versions() -> None:
    older = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
    assert split_suites(OF_TLS_1_3) == Suites("", True)
    assert split_suites([older]) == Suites("ECDHE-RSA-AES256-GCM-SHA384", False)
    assert split_suites([older, *OF_TLS_1_3]).has_newer
    with pytest.raises(ValueError, match="only together; TLS_CHACHA20_POLY1305_SHA256, TLS_AES_128_GCM_SHA256 is miss"):
        split_suites(["TLS_AES_256_GCM_SHA384"])
    with pytest.raises(ValueError, match="'TLS_NONE' is not known"):
        split_suites(["TLS_NONE"])
