"""OpenSSL as a build finds it: a module is omitted without it, and the message names the package."""

from collections.abc import Iterator

import pytest

from tools.openssl import OPENSSL, WITHOUT, openssl_version
from tools.tree import ROOT


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    openssl_version.cache_clear()
    yield
    openssl_version.cache_clear()


def test_headers_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CPPFLAGS", "-nostdinc")
    assert openssl_version() is None
    assert WITHOUT.endswith("apt-get install libssl-dev")
    assert (ROOT / "kraft_native" / (OPENSSL.replace(".", "/") + ".pyx")).exists()


@pytest.mark.parametrize(("name", "value"), [("KRAFT_OPENSSL", "0"), ("CC", "/none"), ("LDFLAGS", "-lno-such-library")])
def test_what_cannot_be_linked(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    assert openssl_version() is None


def test_what_is_found() -> None:
    found = openssl_version()
    if found is None:
        pytest.skip("no headers of OpenSSL")
    assert found.startswith("OpenSSL ")
