"""PostgreSQL of the system's package, as a process in a temporary directory."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import psycopg

START_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.02
STOP_SECONDS: Final = 30.0
PORT: Final = 5432
OUTPUT: Final = "output.log"
OUTPUT_SHOWN: Final = 2_000
USER: Final = "nobody"
"""PostgreSQL refuses to run as root."""
SETTINGS: Final = ("max_prepared_transactions=20", "listen_addresses=", "max_connections=60", "shared_buffers=8MB",
                   "dynamic_shared_memory_type=mmap")
"""It listens on its socket only, unless others are given."""


def _binaries() -> Path | None:
    """Return the directory of the newest installed version; None without any."""
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    return max(found, key=lambda path: int(path.parent.name), default=None)


def missing() -> str | None:
    """Return why PostgreSQL cannot run here; None when it can."""
    return "needs PostgreSQL (Debian's package postgresql)" if _binaries() is None else None


class Postgres:
    """A server with an empty database, reached by `dsn`; a context manager that removes it at the end.

    - `settings`: more of them, each as `name=value`.
    - `port`: of the socket, and of each address that `listen_addresses` names.
    """

    def __init__(self, *settings: str, port: int = PORT) -> None:
        binaries = _binaries()
        assert binaries is not None, missing()
        self._home = Path(tempfile.mkdtemp(prefix="kraft-postgres-"))
        self._data = self._home / "data"
        self._binaries = binaries
        self._process: subprocess.Popen[bytes] | None = None
        self._settings = (*SETTINGS, *settings, f"port={port}", f"unix_socket_directories={self._home}")
        self.dsn = f"host={self._home} port={port} dbname=postgres user=postgres"
        if os.geteuid() == 0:
            owner = pwd.getpwnam(USER)
            os.chown(self._home, owner.pw_uid, owner.pw_gid)
        self._run("initdb", "--pgdata", str(self._data), "--username=postgres", "--auth=trust", "--no-sync")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.kill()
        shutil.rmtree(self._home)

    def start(self) -> None:
        """Start the server and wait until it accepts connections. It does not start while a process of a killed one
        still ends: they share memory."""
        deadline = time.monotonic() + START_SECONDS
        process = self._process = self._begun()
        while True:
            try:
                psycopg.connect(self.dsn).close()
            except psycopg.OperationalError as error:
                if time.monotonic() > deadline:
                    raise AssertionError((self._home / OUTPUT).read_text()[-OUTPUT_SHOWN:]) from error
                time.sleep(POLL_SECONDS)
                if process.poll() is not None:
                    process = self._process = self._begun()
            else:
                return

    def kill(self) -> None:
        """Kill the server, as if the machine had failed. Its other processes notice that, and end."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(STOP_SECONDS)
            self._process = None

    def _begun(self) -> subprocess.Popen[bytes]:
        options = [part for setting in self._settings for part in ("-c", setting)]
        with (self._home / OUTPUT).open("ab") as output:
            return subprocess.Popen(self._command("postgres", "-D", str(self._data), *options), cwd="/",
                                    stdin=subprocess.DEVNULL, stderr=output, start_new_session=True)

    def _run(self, *command: str) -> None:
        subprocess.run(self._command(*command), check=True, stdout=subprocess.DEVNULL, cwd="/")

    def _command(self, program: str, *arguments: str) -> Sequence[str]:
        prefix = ["setpriv", f"--reuid={USER}", "--regid=nogroup", "--clear-groups", "--"] if os.geteuid() == 0 else []
        return [*prefix, str(self._binaries / program), *arguments]
