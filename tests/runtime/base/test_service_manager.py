"""Notifications to a service manager, received by a socket of the test's own."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraft.runtime.base.service_manager import ALIVE, EXTENDED, READY, ServiceManager, encode, watchdog_seconds


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        receiver.settimeout(10)
        yield receiver


def test_a_notification_is_one_datagram(manager: socket.socket) -> None:
    service = ServiceManager(manager.getsockname())
    service.notify(READY, status="ready")
    service.notify(ALIVE)
    assert manager.recv(1_000) == b"READY=1\nSTATUS=ready"
    assert manager.recv(1_000) == b"WATCHDOG=1"


def test_an_abstract_address() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind("")              # the system chooses an abstract name
        receiver.settimeout(10)
        name = receiver.getsockname()
        ServiceManager(f"@{name[1:].decode()}").notify(EXTENDED)
        assert receiver.recv(1_000) == b"EXTEND_TIMEOUT_USEC=30000000"


def test_a_status_is_one_line() -> None:
    assert encode(ALIVE, status="two\nREADY=1\n lines") == b"WATCHDOG=1\nSTATUS=two READY=1 lines"
    assert encode(status="") == b""


def test_the_environment_names_the_manager_once() -> None:
    environment = {"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "7", "HOME": "/"}
    service = ServiceManager.of(environment, pid=7)
    assert service is not None
    assert service.watchdog_seconds == 30
    assert environment == {"HOME": "/"}, "a child process does not report in this one's name"
    assert ServiceManager.of(environment, pid=7) is None
    assert ServiceManager.of({"NOTIFY_SOCKET": "vsock:2:1234"}) is None, "of another kind"


@pytest.mark.parametrize(("variables", "expected"), [
    ({}, None), ({"WATCHDOG_USEC": "500000"}, 0.5), ({"WATCHDOG_USEC": "0"}, None), ({"WATCHDOG_USEC": "soon"}, None),
    ({"WATCHDOG_USEC": "500000", "WATCHDOG_PID": "8"}, None), ({"WATCHDOG_USEC": "500000", "WATCHDOG_PID": "7"}, 0.5),
])
def test_a_watchdog_of_this_process(variables: dict[str, str], expected: float | None) -> None:
    assert watchdog_seconds(variables, 7) == expected


def test_a_manager_that_is_missing_changes_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    service = ServiceManager(str(tmp_path / "none"))
    for _ in range(3):
        service.notify(ALIVE)
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("the service manager cannot be notified: [Errno 2]")
