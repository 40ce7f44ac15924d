"""OpenSSL, as far as the compiler finds it. Without it `setup.py` omits one module."""

import os
import shlex
import subprocess
import sysconfig
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

OPENSSL: Final = "net.openssl"
"""Module of `kraft_native` that needs it."""
WITHOUT: Final = ("OpenSSL's headers (1.1.1 or newer) are missing, so TLS uses Python's ssl module, which costs more: "
                  "apt-get install libssl-dev")
SOURCE: Final = """
#include <openssl/ssl.h>
#if OPENSSL_VERSION_NUMBER < 0x10101000L
#error "too old"
#endif
KRAFT_VERSION_IS OPENSSL_VERSION_TEXT
int main(void) { return SSL_CTX_new(TLS_method()) == NULL; }
"""


@cache
def openssl_version() -> str | None:
    """Return the version that the compiler finds, when a program with it can be linked; None without."""
    if os.environ.get("KRAFT_OPENSSL") == "0":
        return None
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    flags = shlex.split(os.environ.get("CPPFLAGS", "")) + shlex.split(os.environ.get("CFLAGS", ""))
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory) / "openssl.c"
        source.write_text(SOURCE)
        read = _run([*compiler, *flags, "-E", "-P", str(source)])
        source.write_text(SOURCE.replace("KRAFT_VERSION_IS OPENSSL_VERSION_TEXT", ""))
        linked = _run([*compiler, *flags, str(source), "-o", f"{directory}/openssl",
                       *shlex.split(os.environ.get("LDFLAGS", "")), "-lssl", "-lcrypto"])
    if read is None or linked is None:
        return None
    line = next(line for line in read.splitlines() if line.startswith("KRAFT_VERSION_IS"))
    return line.removeprefix("KRAFT_VERSION_IS").strip().strip('"')


def _run(command: list[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None
