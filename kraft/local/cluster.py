"""Brokers and controllers on this machine that know each other, each a process.

    with LocalCluster(directory, brokers=3, controllers=3) as cluster:
        cluster.start()
        cluster.bootstrap                       # for any client
        cluster.brokers[1].kill()
        cluster.cut(2, 3)
"""

import json
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Self

from kraft.client import Cluster
from kraft.client.connection import ConnectionFailedError
from kraft.local.addresses import host_of
from kraft.local.errors import FaultDidNotBiteError, LocalNodeError
from kraft.local.launcher import Launcher
from kraft.local.local_node import READY_SECONDS, STOP_SECONDS, LocalNode
from kraft.local.spec import VoterSpec
from kraft.log_dir import new_cluster_id
from kraft.protocol.ids import id_text
from kraft.runtime.storage.formatting import random_id
from kraft_native.base.errors import InvalidArgumentError

CONTROLLER_IDS: Final = 3001
"""First id of a controller without a broker."""
REPLICAS: Final = 3
"""Replicas of `__consumer_offsets`, with at least as many brokers."""
PAUSE_SECONDS: Final = 0.01
LEAVE_SECONDS: Final = 0.2

FILE_NAME: Final = "local-cluster.json"

Which = LocalNode | int


def earlier(path: Path, brokers: int, controllers: int) -> dict[str, Any]:
    """Read the description of the cluster that ran here before; empty if there was none. Raises `InvalidArgumentError`
    when it was of another kind."""
    if not path.exists():
        return {}
    try:
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
        is_whole = _is_whole(found)
    except (ValueError, KeyError, TypeError, AttributeError):
        is_whole = False
    if not is_whole:
        raise InvalidArgumentError(f"{path}: it cannot be read, or does not have the nodes and ports of a cluster; "
                                   f"restore the file, or delete {path.parent} to begin with a new cluster")
    if (found["brokers"], found["controllers"]) != (brokers, controllers):
        raise InvalidArgumentError(f"{path.parent}: a cluster of {found['brokers']} brokers and {found['controllers']} "
                                   f"controllers, not of {brokers} and {controllers}")
    return found


def _is_whole(found: dict[str, Any]) -> bool:
    ports = [port for listeners in found["ports"].values() for port in listeners.values()]
    return (isinstance(found["cluster_id"], str)
            and all(isinstance(each, int) for each in (found["brokers"], found["controllers"], *ports))
            and len(found["ports"]) == found["brokers"] + found["controllers"])


class LocalCluster:
    """A cluster of local nodes. One thread at a time.

    - `controllers`: with 0, the brokers are the controllers too. Brokers have the ids 1, 2 and so on, separate
      controllers those from 3001.
    - `settings`: Kafka's keys for all nodes. The settings of each node are in `node.settings`, and may be changed
      before `start`.
    - `launcher`: one that others use as well; without it the cluster has its own.
    - `directory`: one in which a cluster of the same kind ran continues that cluster, at the same addresses.
    """

    def __init__(self, directory: Path, *, brokers: int = 3, controllers: int = 3,
                 settings: Mapping[str, str] | None = None, launcher: Launcher | None = None,
                 log_level: str = "info") -> None:
        if brokers < 0 or controllers < 0 or brokers + controllers == 0:
            raise InvalidArgumentError(f"brokers, controllers: {brokers}, {controllers}; at least one is needed")
        self.directory = directory
        before = earlier(directory / FILE_NAME, brokers, controllers)
        self.cluster_id: str = before.get("cluster_id") or new_cluster_id()
        self._own_launcher = None if launcher else Launcher()
        self._launcher = launcher or self._own_launcher
        directory.mkdir(parents=True, exist_ok=True)
        self.nodes: dict[int, LocalNode] = {}
        given = {"offsets.topic.replication.factor": str(max(1, min(REPLICAS, brokers))), **(settings or {})}
        broker_roles = ("broker",) if controllers else ("broker", "controller")
        wanted = [(number, broker_roles) for number in range(1, brokers + 1)]
        wanted += [(CONTROLLER_IDS + number, ("controller",)) for number in range(controllers)]
        for index, (node_id, roles) in enumerate(wanted):
            assert self._launcher is not None
            self.nodes[node_id] = LocalNode(
                self._launcher, directory / str(node_id), node_id, host_of(index), roles=roles,
                cluster_id=self.cluster_id, settings=given, log_level=log_level,
                ports=before["ports"][str(node_id)] if before else None)
        self.brokers = {node.node_id: node for node in self.nodes.values() if "broker" in node.roles}
        self.controllers = {node.node_id: node for node in self.nodes.values() if "controller" in node.roles}
        voters = tuple(VoterSpec(node.node_id, node.host, node.controller_port, id_text(random_id(uuid.uuid4)))
                       for node in self.controllers.values())
        for node in self.nodes.values():
            node.know(voters, self.controller_bootstrap)
        self._deaf: dict[int, dict[int, None]] = {}
        """The nodes whose packets a node does not receive, by that node."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def bootstrap(self) -> str:
        """Bootstrap servers for clients: `host:port,...` of all brokers."""
        return ",".join(node.address for node in self.brokers.values())

    @property
    def controller_bootstrap(self) -> str:
        """Bootstrap controllers, in the same form, for tools that connect to controllers."""
        return ",".join(node.controller_address for node in self.controllers.values())

    @property
    def running(self) -> list[LocalNode]:
        return [node for node in self.nodes.values() if node.running]

    def client(self, node: Which | None = None, seconds: float = READY_SECONDS) -> Cluster:
        """Client for requests of any kind, to all brokers or only one."""
        return Cluster(self.bootstrap if node is None else self.node(node).address, timeout=seconds)

    def node(self, which: Which) -> LocalNode:
        return self.nodes[which] if isinstance(which, int) else which

    # --- starting and stopping

    def start(self) -> float:
        """Start all stopped nodes in parallel, and wait until every broker knows every other. Returns the duration in
        seconds."""
        began = time.monotonic()
        starting = [node for node in self.nodes.values() if not node.running]
        for node in starting:
            node.launch()
        for node in starting:
            node.await_ready()
        self._remember()
        wanted = {node_id for node_id, node in self.brokers.items() if node.running}
        self.wait_until(lambda: all(wanted <= self.seen_by(each) for each in wanted), "every broker knows every other")
        return time.monotonic() - began

    def _remember(self) -> None:
        """Write the properties that a later cluster in this directory must have."""
        (self.directory / FILE_NAME).write_text(json.dumps({
            "cluster_id": self.cluster_id, "brokers": len(self.brokers),
            "controllers": len(self.nodes) - len(self.brokers),
            "ports": {node_id: node.ports for node_id, node in self.nodes.items()}}), "utf-8")

    def stop(self, *, for_good: bool = False) -> None:
        """Stop all nodes gracefully, controllers last. Raises `LocalNodeError` when one does not stop.

        With `for_good` the data are not needed again. Brokers that wait for a controller after most controllers have
        stopped are then killed.
        """
        for group in (self.brokers, self.controllers):
            for node in group.values():
                node.request_stop()
            if for_good and not self._has_own_controllers:
                self._let_go(list(group.values()))
            for node in group.values():
                node.await_end()

    @property
    def _has_own_controllers(self) -> bool:
        return len(self.nodes) > len(self.brokers)

    @staticmethod
    def _let_go(nodes: list[LocalNode]) -> None:
        """Wait until too few nodes are left for a controller that could release them, and kill these."""
        waiting = [node for node in nodes if node.running]
        deadline = time.monotonic() + STOP_SECONDS
        while 2 * len(waiting) > len(nodes) and time.monotonic() < deadline:
            waiting = [node for node in waiting if not node.has_ended(PAUSE_SECONDS)]
        if len(waiting) < len(nodes):
            for node in waiting:
                if not node.has_ended(LEAVE_SECONDS):
                    node.end()

    def check(self) -> None:
        """Raise `LocalNodeError` when a node has ended by itself."""
        for node in self.nodes.values():
            if not node.running and node.ended is not None:
                raise LocalNodeError(f"{node} ended by itself with {node.ended}:\n{node.log()}")

    def close(self) -> None:
        """Kill the running nodes and release the ports. May be called again."""
        for node in self.nodes.values():
            node.close()
        if self._own_launcher is not None:
            self._own_launcher.close()

    # --- state of the cluster

    def seen_by(self, which: Which) -> set[int]:
        """Brokers that one broker announces to its clients: those that are registered and not fenced."""
        try:
            with self.client(which, 5.0) as client:
                return {each.node_id for each in client.nodes()}
        except ConnectionFailedError:
            return set()

    def wait_until(self, done: Callable[[], bool], what: str, seconds: float = READY_SECONDS) -> None:
        """Wait until `done()`. Raises `LocalNodeError` after the time-out, or when a node has ended by itself."""
        deadline = time.monotonic() + seconds
        while not done():
            self.check()
            if time.monotonic() > deadline:
                raise LocalNodeError(f"not within {seconds:.0f} s: {what}\n"
                                     + "\n".join(f"{node}\n{node.log(20)}" for node in self.nodes.values()))
            time.sleep(PAUSE_SECONDS)

    # --- links

    def cut(self, first: Which, second: Which, *, one_way: bool = False) -> None:
        """Cut the link between two nodes: packets are dropped without notice. `one_way`: only those from `first` to
        `second`; new connections need both ways, so none are possible."""
        source, target = self.node(first), self.node(second)
        self._deaf.setdefault(target.node_id, {})[source.node_id] = None
        if not one_way:
            self._deaf.setdefault(source.node_id, {})[target.node_id] = None
        self._apply_links()
        self._check_link(source, target, works=False)

    def heal(self, first: Which | None = None, second: Which | None = None) -> None:
        """Restore the link between two nodes, both ways; without arguments all links."""
        pairs = self._cuts()
        if first is not None and second is not None:
            pairs = [(self.node(first).node_id, self.node(second).node_id)]
        for one, other in pairs:
            self._deaf.get(one, {}).pop(other, None)
            self._deaf.get(other, {}).pop(one, None)
        self._apply_links()
        for one, other in pairs:
            self._check_link(self.nodes[one], self.nodes[other], works=True)

    def isolate(self, which: Which, others: Iterable[Which] | None = None) -> None:
        """Cut a node off from all others, or from these. Clients still reach it."""
        node = self.node(which)
        for each in self.nodes.values() if others is None else map(self.node, others):
            if each is not node:
                self.cut(node, each)

    def expire_session(self, which: Which, seconds: float = READY_SECONDS) -> None:
        """Let a broker's session with the controllers expire while the broker continues to run. It is cut off from them
        until it is fenced; then its links are restored. It may be unfenced soon."""
        node = self.node(which)
        others = [each for each in self.brokers.values() if each is not node and each.running]
        if not others or "broker" not in node.roles:
            raise InvalidArgumentError(f"{node} is no broker beside others: no other could report its fencing")
        self.isolate(node, self.controllers.values())
        try:
            self.wait_until(lambda: node.node_id not in self.seen_by(others[0]), f"{node} is fenced", seconds)
        except LocalNodeError as error:
            raise FaultDidNotBiteError(str(error)) from error
        finally:
            for each in self.controllers.values():
                if each is not node:
                    self.heal(node, each)

    def _cuts(self) -> list[tuple[int, int]]:
        return [(one, other) for one, found in self._deaf.items() for other in found]

    def _apply_links(self) -> None:
        """Set the packets to drop on every node."""
        for node_id, node in self.nodes.items():
            deaf = self._deaf.get(node_id, {})
            shut = [other for other, found in self._deaf.items() if node_id in found and other not in deaf]
            node.hear([self.nodes[each].host for each in deaf], [self.nodes[each].host for each in shut])

    def _check_link(self, one: LocalNode, other: LocalNode, *, works: bool) -> None:
        """Check the effect on a link; both nodes must run, or nothing can be observed."""
        for source, target in ((one, other), (other, one)):
            if one.running and other.running and source.can_connect(target) is not works:
                raise FaultDidNotBiteError(f"{source} {'does not reach' if works else 'still reaches'} {target}")
