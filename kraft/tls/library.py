"""The library that encrypts a node's connections: OpenSSL itself where it was compiled in, or Python's `ssl` module.

`KRAFT_TLS=ssl` in the environment of a process selects the module, to compare the two.
"""

import os
import ssl
from importlib import import_module
from types import ModuleType
from typing import Final

VARIABLE: Final = "KRAFT_TLS"
SSL_MODULE: Final = "ssl"
PACKAGE: Final = "libssl-dev"


def openssl() -> ModuleType | None:
    """Return the compiled module `kraft_native.net.openssl`; None when the `ssl` module encrypts."""
    if os.environ.get(VARIABLE) == SSL_MODULE:
        return None
    return _load()[0]


def library_text() -> str:
    """Return which library encrypts, and what would have to be installed for the faster one."""
    module, why = _load()
    if module is None:
        return f"{ssl.OPENSSL_VERSION} by Python's ssl module ({why})"
    if openssl() is None:
        return f"{ssl.OPENSSL_VERSION} by Python's ssl module ({VARIABLE}={SSL_MODULE})"
    return f"{module.library_version()}, compiled in"


def _load() -> tuple[ModuleType | None, str]:
    try:
        module = import_module("kraft_native.net.openssl")     # the other form does not say what is missing
    except ModuleNotFoundError:
        return None, f"built without OpenSSL's headers: apt-get install {PACKAGE}, and build again, for the faster way"
    except ImportError as error:
        return None, f"the compiled way cannot be used: {error}"
    return module, ""
