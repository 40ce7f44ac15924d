"""Start, stop and kill a node's process as its users do: by the command line, its ready line, signals and exit codes.
What `kraft.testing` starts is forked past all of that, already formatted, and has one log directory."""

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.golden import REPOSITORY
from tests.ports import free_ports

READY_SECONDS: Final = 30.0
STOP_SECONDS: Final = 20.0
# Lines that a node must never log, whatever its clients do.
ALARM: Final = re.compile(r" (ERROR|CRITICAL) |^Traceback|fault of (our|its) own", re.MULTILINE)

DEFAULTS: Final[Mapping[str, str]] = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "offsets.topic.num.partitions": "8",
    "num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "log.retention.check.interval.ms": "200",
    "log.cleaner.backoff.ms": "200",
}


def alarms_in(log: str) -> list[str]:
    """Return the lines of a node's log that it must never write, whatever its clients do."""
    return [log[match.start():].splitlines()[0] for match in ALARM.finditer(log)]


class NodeProcess:
    """A node on `directory` with the same port each time. It does not run until `start`."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self.directories = [directory]
        """All log directories; the first holds the metadata log."""
        self.settings = {**DEFAULTS, **(settings or {})}
        self.log_path = directory.with_name(directory.name + ".log")
        self.port, = free_ports(1)
        self.controller_port = 0
        self.kills = 0
        self.launcher: list[str] = []
        """Program that starts the node's command, if any."""
        self.python = sys.executable
        """Python whose environment has the node."""
        self._process: subprocess.Popen[str] | None = None

    @property
    def data(self) -> str:
        """Directories in the form of `--data`."""
        return ",".join(map(str, self.directories))

    @property
    def address(self) -> str:
        """Address that clients bootstrap with."""
        return f"127.0.0.1:{self.port}"

    @property
    def running(self) -> bool:
        """True while the process is alive."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Id of the running process."""
        assert self._process is not None, "the node does not run"
        return self._process.pid

    def start(self) -> float:
        """Start the process and wait until it serves. Return the seconds that took."""
        began = time.monotonic()
        self.launch()
        self.await_ready()
        return time.monotonic() - began

    def launch(self) -> None:
        """Start the process."""
        assert not self.running, "the node runs already"
        command = [*self.launcher, self.python, "-X", "faulthandler", "-m", "kraft", "server", "start", "--json",
                   "--log-level=info", f"--data={self.data}", *self._options(),
                   *(f"--set={name}={value}" for name, value in self.settings.items())]
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=REPOSITORY, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True)

    def await_ready(self) -> None:
        """Wait until a launched process serves."""
        assert self._process is not None
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], READY_SECONDS)
        line = self._process.stdout.readline() if ready else ""
        if not line:
            self.kill()
            raise AssertionError(f"the node did not start:\n{self.log()}")
        self._ready(json.loads(line))

    def _options(self) -> list[str]:
        """Return the options of the command line other than the settings."""
        return [f"--listen=127.0.0.1:{self.port}"]

    def _ready(self, message: dict[str, Any]) -> None:
        """Store the ports that the ready line reports."""
        self.port = int(message["listeners"]["PLAINTEXT"].rpartition(":")[2])
        self.controller_port = int(message["listeners"].get("CONTROLLER", ":0").rpartition(":")[2])

    def stop(self) -> None:
        """Send SIGTERM: the node stops cleanly, or the test fails. A node that does not run stays as it is."""
        if not self.running:
            return
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.kill(self._process.pid, signal.SIGABRT)  # faulthandler reports where it hangs
            self._process.wait()
            self._forget()
            raise AssertionError(f"the node did not stop in {STOP_SECONDS:.0f} s:\n{self.log()}") from None
        self._forget()
        assert code == 0, f"the node ended with {code}:\n{self.log()}"

    def kill(self) -> None:
        """Kill the process with kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._forget()
            self.kills += 1

    def restart(self) -> None:
        """Stop cleanly and start again."""
        self.stop()
        self.start()

    def kill_and_start(self) -> None:
        """Kill with kill -9 and start again."""
        self.kill()
        self.start()

    def log(self, lines: int = 200) -> str:
        """Return the end of the node's log."""
        text = self.log_path.read_text("utf-8", "replace") if self.log_path.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def alarms(self) -> list[str]:
        """Return the lines of the log that the node must never write, whatever its clients do."""
        return alarms_in(self.log(1_000_000))

    def resident_bytes(self) -> int:
        """Return the private memory of the process, without mapped files."""
        status = Path(f"/proc/{self.pid}/status").read_text("ascii")
        found = re.search(r"RssAnon:\s+(\d+) kB", status)
        assert found is not None
        return int(found.group(1)) * 1024

    def _forget(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None
