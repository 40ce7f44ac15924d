"""`kraft server start` below a service manager: what the manager learns, and when."""

import os
import signal
import socket
from pathlib import Path

import pytest

from kraft.runtime.base.service_manager import SOCKET, WATCHDOG_US
from tests.cli.nodes import running

SECONDS = 30


def fields(datagram: bytes) -> dict[str, str]:
    return dict(line.partition("=")[::2] for line in datagram.decode().splitlines())


def test_the_service_manager_learns_of_start_life_and_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(SECONDS)
        monkeypatch.setenv(SOCKET, manager.getsockname())
        monkeypatch.setenv(WATCHDOG_US, "800000")
        seen: list[dict[str, str]] = []

        def until(name: str) -> int:
            while name not in (seen[-1] if seen else {}):
                seen.append(fields(manager.recv(10_000)))
            return len(seen) - 1

        with running(tmp_path / "data") as node:
            monkeypatch.delenv(SOCKET)
            started = until("READY")
            assert all("EXTEND_TIMEOUT_USEC" in each for each in seen[:started]), "while it starts"
            assert seen[started] == {"READY": "1", "STATUS": "started"}
            while seen[-1].get("STATUS") != "ready":
                seen.append(fields(manager.recv(10_000)))
            assert seen[-1] == {"WATCHDOG": "1", "STATUS": "ready"}
            os.kill(node.process.pid, signal.SIGTERM)
            stopping = until("STOPPING")
            assert seen[stopping] == {"STOPPING": "1", "STATUS": "stopping"}
            assert node.stop() == (0, "")
        assert all(each.get("WATCHDOG") == "1" for each in seen[started + 1:stopping])
