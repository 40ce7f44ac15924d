"""The libraries by which a node encrypts: tests of TLS run with each (`usefixtures("library")`)."""

import pytest

from kraft.tls.library import SSL_MODULE, VARIABLE, openssl

LIBRARIES = ("openssl", SSL_MODULE)


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Select the library by which contexts encrypt from here on. A process of its own inherits it."""
    if request.param == SSL_MODULE:
        monkeypatch.setenv(VARIABLE, SSL_MODULE)
    elif openssl() is None:
        pytest.skip("the core was built without OpenSSL's headers (libssl-dev)")
    return str(request.param)
