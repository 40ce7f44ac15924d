"""A node's metadata quorum of one on real files, with the clock and the ids of the test."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Self, TypeVar
from uuid import UUID

from kraft.config.node_config import Endpoint as ConfigEndpoint
from kraft.config.node_config import NodeConfig
from kraft.controller.controller import Controller
from kraft.controller.decision import ControllerSettings
from kraft.metadata.image import Endpoint
from kraft.metadata.versions import SUPPORTED
from kraft.protocol.message import Message
from kraft.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from kraft.protocol.messages.broker_registration_request import BrokerRegistrationRequest, Feature, Listener
from kraft.runtime.net.dialer import Dialer
from kraft.runtime.quorum.quorum_replica import Member, QuorumReplica
from kraft.runtime.storage.formatting import FormatRequest, format_storage, read_bootstrap
from kraft.runtime.storage.metadata_directory import MetadataLogSettings
from kraft_native.log.flusher import Flusher
from kraft_native.segment import checkpoints
from tests.controller.world import ids

ENDPOINT = Endpoint("CONTROLLER", "127.0.0.1", 9093, 0)
CLUSTER = "labLABlabLABlabLABlabA"
NOW_MS = 1_700_000_000_000

T = TypeVar("T")


def formatted(directory: Path, **fields: Any) -> Path:
    """Return a directory that is formatted for node 1."""
    format_storage(FormatRequest(**{
        "node_id": 1, "cluster_id": CLUSTER, "directories": (directory,), "endpoints": (ENDPOINT,), **fields}),
        NOW_MS, ids(700))
    return directory


class Node:
    """The metadata quorum of a formatted directory, on a loop that runs only inside the calls; time stands still.

    With `durability` per-append every append is durable when it returns. So the same calls make the same system calls
    in the same order. `leads`: wait until it is the active controller.
    """

    def __init__(self, directory: Path, *, durability: str = "per-append", static: dict[str, str] | None = None,
                 endpoints: tuple[Endpoint, ...] = (), flusher: Flusher | None = None, directory_id: UUID | None = None,
                 leads: bool = True, **settings: Any):
        properties = checkpoints.read_meta_properties(directory)
        assert properties is not None
        assert properties.directory_id is not None
        self.properties = properties
        self.now_ms = NOW_MS - 1
        self.failures: list[BaseException] = []
        self._directory = directory
        self._static = static or {}
        self._own_flusher = None if flusher else Flusher(linger_us=0)
        self._flusher = flusher or self._own_flusher
        self._member = Member(properties.cluster_id or "", directory_id or properties.directory_id, tuple(
            ConfigEndpoint(each.name, each.host, each.port) for each in endpoints))
        self.loop = asyncio.new_event_loop()
        try:
            self.quorum = self.run(self._open(MetadataLogSettings(durability=durability, **settings)))
        except BaseException:
            self._close_loop()
            raise
        self.metadata = self.quorum.metadata
        self.log = self.quorum.log
        if leads:
            try:
                self.wait(lambda: self.controller.active)
                self.commit()
            except BaseException:
                self.close()
                raise

    async def _open(self, settings: MetadataLogSettings) -> QuorumReplica:
        config = NodeConfig({
            "node.id": str(self.properties.node_id), "log.dirs": str(self._directory),
            "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0", "controller.listener.names": "CONTROLLER",
            **self._static})
        decided = ControllerSettings(
            node_id=self._node_id, cluster_id=self._member.cluster_id, features=SUPPORTED,
            bootstrap=tuple(read_bootstrap(self._directory)), idle_interval_ms=0)
        assert self._flusher is not None
        self._turned = asyncio.Event()
        quorum = QuorumReplica(config, self._member, decided, settings, self._flusher, Dialer(), self._failed,
                        clock=lambda: self.now_ms)
        # Ids that no earlier life of the same log has drawn.
        quorum.metadata._new_id = ids(quorum.log.log_end_offset * 1000 + 1000)
        quorum.driver.on_iteration = self._turned.set
        quorum.start()
        self.now_ms += 1               # the only voter campaigns as soon as time moves
        return quorum

    def _failed(self, error: BaseException) -> None:
        self.failures.append(error)
        self._turned.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self.run(self.quorum.close())
        self._close_loop()

    def _close_loop(self) -> None:
        self.loop.close()
        if self._own_flusher is not None:
            self._own_flusher.close()

    @property
    def _node_id(self) -> int:
        return self.properties.node_id or 0

    @property
    def controller(self) -> Controller:
        return self.metadata.controller

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def wait(self, done: Callable[[], bool]) -> None:
        """Let the quorum work until the condition holds; raise the error that stopped it."""
        async def work() -> None:
            async with asyncio.timeout(30):
                while not done() and not self.failures:
                    self._turned.clear()
                    await self._turned.wait()

        if not done():
            self.run(work())
        if self.failures:
            raise self.failures[0]

    def commit(self) -> None:
        replica = self.quorum.raft.replica
        self.wait(lambda: replica.high_watermark == self.log.log_end_offset)

    def send(self, request: Message, version: int = 99) -> Any:
        answers: list[Message] = []
        self.controller.submit(request, version, self.now_ms, answers.append)
        self.commit()
        assert len(answers) == 1
        return answers[0]

    def snapshot(self) -> Any:
        """Write a snapshot of what is committed; return its id."""
        before = self.quorum.snapshots.ids
        self.run(self.quorum.keeper.write())
        assert self.quorum.snapshots.ids != before
        return self.quorum.snapshots.ids[-1]

    def write_snapshot_when_due(self) -> None:
        """Let the keeper check now, and from now on not by itself."""
        self.quorum.keeper.close()
        self.run(self.quorum.keeper.write_when_due())

    def join(self, incarnation: int = 1, **fields: Any) -> None:
        """Register this node's broker and let it take part."""
        epoch = self.send(BrokerRegistrationRequest(**{
            "broker_id": self.properties.node_id, "cluster_id": self.properties.cluster_id,
            "incarnation_id": UUID(int=5000 + incarnation), "rack": None,
            "listeners": [Listener(name="PLAINTEXT", host="127.0.0.1", port=9092)],
            "features": [Feature(name=name, min_supported_version=low, max_supported_version=high)
                         for name, (low, high) in SUPPORTED.items()],
            "log_dirs": [self.properties.directory_id], **fields})).broker_epoch
        answer = self.send(BrokerHeartbeatRequest(
            broker_id=self._node_id, broker_epoch=epoch, current_metadata_offset=self.controller.image.offset))
        assert not answer.is_fenced
