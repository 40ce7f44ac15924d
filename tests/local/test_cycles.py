"""Clusters that start and stop leave nothing behind: no process, port, descriptor or file."""

import os
import shutil
import time
from pathlib import Path
from statistics import median

import pytest

from kraft.local.cluster import LocalCluster
from kraft.local.launcher import Launcher


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def descriptors(pid: int | str) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def listening() -> list[str]:
    """Return the sockets of loopback addresses that only local clusters use (127.0.0.10 and above). Sockets of any
    state count but TIME_WAIT, which the kernel keeps for a minute by itself."""
    found = []
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        address, state = line.split()[1], line.split()[3]
        if address.startswith(tuple(f"{host:02X}00007F" for host in range(10, 20))) and state != "06":
            found.append(address)
    return found


OTHERS = ("PostgreSQL.", "kraft-crash-", "kraft-fuzz-", "kraft-log-", "kraft-simulate-")
"""Beginnings of names that other tests have in shared memory meanwhile: a database, and directories of logs."""


def shared_memory() -> list[str]:
    """Names in shared memory but those of `OTHERS`."""
    return sorted(name for name in os.listdir("/dev/shm") if not name.startswith(OTHERS))


def cycle(launcher: Launcher, directory: Path, number: int) -> float:
    """Run one cycle; return the seconds until all six nodes served."""
    with LocalCluster(directory, brokers=3, controllers=3, launcher=launcher) as cluster:
        began = time.monotonic()
        cluster.start()
        ready_seconds = time.monotonic() - began
        if number % 2:
            cluster.stop()          # otherwise its nodes are killed
    assert children(launcher.pid) == []
    shutil.rmtree(directory)
    return ready_seconds


def run_cycles(directory: Path, count: int) -> list[float]:
    with Launcher() as launcher:
        cycle(launcher, directory / "first", 1)     # loads what is loaded only once
        before = descriptors("self"), descriptors(launcher.pid), shared_memory()
        ready_seconds = [cycle(launcher, directory / "again", number) for number in range(count)]
        after = descriptors("self"), descriptors(launcher.pid), shared_memory()
        assert after == before
    assert os.listdir(directory) == []
    return ready_seconds


def test_two_cycles(tmp_path: Path) -> None:
    run_cycles(tmp_path, 2)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_many_cycles(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    before = listening()
    ready_seconds = run_cycles(tmp_path, request.config.getoption("--cycles"))
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(f"\n3 brokers and 3 controllers ready: median {median(ready_seconds):.2f} s, longest "
              f"{max(ready_seconds):.2f} s of {len(ready_seconds)}")
    assert [each for each in listening() if each not in before] == []
