"""The owner's view of one node of a local cluster. Every call returns when its work is done, or raises."""

import json
import os
import re
import select
import signal
import socket
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from kraft.local.addresses import ReservedPort
from kraft.local.errors import FaultDidNotBiteError, LocalNodeError
from kraft.local.launcher import Launcher
from kraft.local.spec import NodeSpec, VoterSpec

READY_SECONDS: Final = 30.0
STOP_SECONDS: Final = 20.0
AGENT_SECONDS: Final = 10.0
PROBE_SECONDS: Final = 0.2
"""Longer than a connection on one machine takes."""
PAUSE_SECONDS: Final = 0.002
CLIENTS: Final = "PLAINTEXT"
CONTROLLERS: Final = "CONTROLLER"
LISTENERS: Final = {"broker": CLIENTS, "controller": CONTROLLERS}


class LocalNode:
    """One node. One thread at a time.

    - `settings`: Kafka's keys, besides those of the cluster; a change takes effect at the next start.
    - `launcher`: may be replaced while the node does not run, by one whose nodes live in another world.
    - `ports`: those of an earlier process, whose data `directory` has. A node keeps its ports, running or not.
    """

    def __init__(self, launcher: Launcher, directory: Path, node_id: int, host: str, *, roles: tuple[str, ...],
                 cluster_id: str, settings: Mapping[str, str], log_level: str = "info",
                 ports: Mapping[str, int] | None = None) -> None:
        self.node_id = node_id
        self.directory = directory
        self.host = host
        self.roles = roles
        self.log_path = directory.with_name(directory.name + ".log")
        self.settings = dict(settings)
        self.log_level = log_level
        self.kills = 0
        self.launcher = launcher
        self._cluster_id = cluster_id
        self._voters: tuple[VoterSpec, ...] = ()
        self._formatted = ports is not None
        self._ports = {LISTENERS[role]: ReservedPort(host, (ports or {}).get(LISTENERS[role], 0)) for role in roles}
        self._pid = -1
        self._report_fd = -1
        self._agent: socket.socket | None = None
        self._paused = False
        self.ended: int | None = None
        """Exit status of a process that ended by itself; None after a start, and when the end was expected."""
        self._deaf_to: tuple[str, ...] = ()
        self._shut_to: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<node {self.node_id}, {' and '.join(self.roles)}, at {self.directory}>"

    # --- addresses

    @property
    def port(self) -> int:
        """Port for clients."""
        return self._ports[CLIENTS].port

    @property
    def address(self) -> str:
        """Bootstrap server for clients."""
        return f"{self.host}:{self.port}"

    @property
    def controller_port(self) -> int:
        return self._ports[CONTROLLERS].port

    @property
    def controller_address(self) -> str:
        return f"{self.host}:{self.controller_port}"

    @property
    def ports(self) -> dict[str, int]:
        """Ports by listener."""
        return {name: each.port for name, each in self._ports.items()}

    @property
    def endpoints(self) -> list[tuple[str, int]]:
        """Addresses on which the node listens."""
        return [(self.host, each.port) for each in self._ports.values()]

    @property
    def pid(self) -> int:
        """Id of the running process."""
        assert self._pid >= 0, "the node does not run"
        return self._pid

    # --- starting and stopping

    def know(self, voters: tuple[VoterSpec, ...], bootstrap: str) -> None:
        """Set the voters and the bootstrap addresses of the cluster's controllers."""
        self._voters = voters
        self.settings.setdefault("controller.quorum.bootstrap.servers", bootstrap)

    def spec(self) -> NodeSpec:
        """Parameters of the next start."""
        listeners = ",".join(f"{name}://{self.host}:{each.port}" for name, each in self._ports.items())
        return NodeSpec(
            {"node.id": str(self.node_id), "process.roles": ",".join(self.roles), "log.dirs": str(self.directory),
             "listeners": listeners, "controller.listener.names": CONTROLLERS, **self.settings},
            self.host, str(self.log_path), self.log_level,
            "" if self._formatted else self._cluster_id, self._voters, self._deaf_to, self._shut_to)

    @property
    def running(self) -> bool:
        """Return whether the process lives; a paused one does."""
        if self._pid >= 0 and self.has_ended(0):
            self.ended = self._forget()
        return self._pid >= 0

    def start(self) -> float:
        """Start the process and wait until it serves; return the duration in seconds."""
        began = time.monotonic()
        self.launch()
        self.await_ready()
        return time.monotonic() - began

    def launch(self) -> None:
        """Start the process."""
        assert not self.running, f"{self} runs already"
        self.ended = None
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(AGENT_SECONDS)
        self._report_fd, report_fd = os.pipe()
        try:
            self._pid = self.launcher.start(self.spec(), report_fd, theirs.fileno())
        except BaseException:
            os.close(self._report_fd)
            ours.close()
            raise
        finally:
            os.close(report_fd)
            theirs.close()
        self._agent = ours

    def await_ready(self, seconds: float = READY_SECONDS) -> None:
        """Wait until a launched process serves."""
        line = b""
        if self._readable(self._report_fd, seconds):
            line = os.read(self._report_fd, 1 << 16)
        if not line:
            self.end()
            raise LocalNodeError(f"{self} did not start:\n{self.log()}")
        self._formatted = True

    def stop(self) -> None:
        """Stop the node gracefully with SIGTERM. Raises `LocalNodeError` when it does not stop so. A stopped node stays
        as it is."""
        self.request_stop()
        self.await_end()

    def request_stop(self) -> None:
        """Send SIGTERM."""
        if self.running:
            if self._paused:
                self.resume()
            self.launcher.signal(self._pid, signal.SIGTERM)

    def await_end(self) -> None:
        """Wait for the end of a node after SIGTERM."""
        if self._pid < 0:
            return
        if not self.has_ended(STOP_SECONDS):
            self.launcher.signal(self._pid, signal.SIGABRT)    # faulthandler shows where it hangs
            self._forget()
            raise LocalNodeError(f"{self} did not stop in {STOP_SECONDS:.0f} s:\n{self.log()}")
        if code := self._forget():
            raise LocalNodeError(f"{self} ended with {code}:\n{self.log()}")

    def kill(self) -> None:
        """Kill the node with SIGKILL. Nothing listens on its ports afterwards. Raises `FaultDidNotBiteError` when it
        does not run: the cause of its end would go unnoticed."""
        if not self.running:
            raise FaultDidNotBiteError(f"{self} does not run" + (
                "" if self.ended is None else f", it ended by itself with {self.ended}:\n{self.log()}"))
        if (code := self.end()) != -signal.SIGKILL:
            raise FaultDidNotBiteError(f"{self} ended by itself with {code} when it was killed:\n{self.log()}")

    def end(self) -> int | None:
        """Kill a running node with SIGKILL; one that ended by itself counts as no failure then. Returns the exit
        status, None for a node that did not run."""
        self.ended = None
        if self._pid < 0:
            return None
        self.launcher.signal(self._pid, signal.SIGKILL)
        if not self.has_ended(STOP_SECONDS):
            raise FaultDidNotBiteError(f"{self} survived SIGKILL")
        self.kills += 1
        return self._forget()

    def expect_end(self) -> None:
        """Wait for a node to end by itself, for example after a full disk; that counts as no failure then."""
        if self._pid >= 0 and not self.has_ended(STOP_SECONDS):
            raise LocalNodeError(f"{self} is still running:\n{self.log()}")
        if self._pid >= 0:
            self._forget()
        self.ended = None

    def restart(self) -> None:
        """Stop the node cleanly and start it."""
        self.stop()
        self.start()

    def kill_and_start(self) -> None:
        """Kill the node with SIGKILL and start it."""
        self.kill()
        self.start()

    def close(self) -> None:
        """Kill the node when it runs, and release its ports."""
        self.end()
        for each in self._ports.values():
            each.close()

    # --- faults

    def pause(self) -> None:
        """Stop the process with SIGSTOP; its connections stay open."""
        self._signal_and_see(signal.SIGSTOP, stopped=True)
        self._paused = True

    def resume(self) -> None:
        """Continue the process with SIGCONT."""
        self._signal_and_see(signal.SIGCONT, stopped=False)
        self._paused = False

    def slow_disk(self, delay_ms: int) -> None:
        """Delay every write and every flush in its directory by `delay_ms`."""
        self.call_agent(do="disk", kind="slow", delay_ms=delay_ms)
        took = self.call_agent(do="probe")["seconds"]
        if took < delay_ms / 1000:
            raise FaultDidNotBiteError(f"{self}: a small file took {took * 1000:.1f} ms with writes {delay_ms} ms late")

    def fail_disk(self, directory: Path) -> None:
        """Fail every operation under one of its directories, as a broken disk does."""
        self.call_agent(do="disk", kind="broken", directory=str(directory))

    def fill_disk(self) -> None:
        """Fail every write in its directory as on a full disk. A node that cannot continue may have ended by itself
        when this returns."""
        self.call_agent(do="disk", kind="full")
        try:
            code = self.call_agent(do="probe")["error"]
        except LocalNodeError:
            if self.has_ended(STOP_SECONDS):
                return
            raise
        if code == 0:
            raise FaultDidNotBiteError(f"{self}: a file could be written to a full disk")

    def heal_disk(self) -> None:
        """Restore the disk to neither slow nor full. Failures remain: a log that could not be written is read-only
        until the node starts again."""
        self.call_agent(do="disk", kind="well")
        if code := self.call_agent(do="probe")["error"]:
            raise FaultDidNotBiteError(f"{self}: its disk does not work again: {os.strerror(int(code))}")

    def hear(self, deaf_to: Iterable[str], shut_to: Iterable[str]) -> None:
        """Drop packets from the addresses `deaf_to` and attempts to connect from `shut_to`, from now on and after a
        restart too. For `LocalCluster.cut`, which knows both sides."""
        self._deaf_to, self._shut_to = tuple(deaf_to), tuple(shut_to)
        if self.running:
            self.call_agent(do="links", deaf_to=self._deaf_to, shut_to=self._shut_to)

    def can_connect(self, other: "LocalNode") -> bool:
        """Return whether its attempts to connect to another node are answered: by an accept, or by a refusal."""
        host, port = other.endpoints[0]
        return bool(self.call_agent(do="connect", host=host, port=port, seconds=PROBE_SECONDS)["connected"])

    def call_agent(self, **request: Any) -> dict[str, Any]:
        """Send one request to the agent; see `kraft.local.agent`."""
        assert self._agent is not None, f"{self} does not run"
        try:
            self._agent.send(json.dumps(request).encode())
            answer: dict[str, Any] = json.loads(self._agent.recv(1 << 16) or b'{"failed": "the node ended"}')
        except ConnectionError:
            answer = {"failed": "the node ended"}
        if "failed" in answer:
            raise LocalNodeError(f"{self}: {request['do']} failed: {answer['failed']}")
        return answer

    # --- state of the node

    def log(self, lines: int = 200) -> str:
        """The end of the node's log."""
        text = self.log_path.read_text("utf-8", "replace") if self.log_path.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def resident_bytes(self) -> int:
        """Private memory of the process, without mapped files."""
        status = Path(f"/proc/{self.pid}/status").read_text("ascii")
        found = re.search(r"RssAnon:\s+(\d+) kB", status)
        assert found is not None
        return int(found.group(1)) * 1024

    def _signal_and_see(self, number: signal.Signals, *, stopped: bool) -> None:
        self.launcher.signal(self.pid, number)
        deadline = time.monotonic() + STOP_SECONDS
        while (self._state() == "T") is not stopped:
            if time.monotonic() > deadline:
                raise FaultDidNotBiteError(f"{self}: {number.name} does nothing, its state is {self._state()}")
            time.sleep(PAUSE_SECONDS)

    def _state(self) -> str:
        text = Path(f"/proc/{self.pid}/stat").read_text("ascii", "replace")
        return text.rpartition(")")[2].split()[0]

    def has_ended(self, seconds: float = 0.0) -> bool:
        """Wait, at most `seconds`, for the end of the process; return whether it has ended. Its exit status is not
        collected."""
        deadline = time.monotonic() + seconds
        while self._readable(self._report_fd, max(0.0, deadline - time.monotonic())):
            if not os.read(self._report_fd, 1 << 16):
                return True
        return False

    @staticmethod
    def _readable(descriptor: int, seconds: float) -> bool:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def _forget(self) -> int:
        """Collect the exit status of a process that has ended or is about to, and release its descriptors."""
        code = self.launcher.wait(self._pid)
        assert self._agent is not None
        self._agent.close()
        os.close(self._report_fd)
        self._pid = self._report_fd = -1
        self._agent = None
        self._paused = False
        return code
