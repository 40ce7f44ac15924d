"""A node's metadata log and controller on real files, with the clock and the ids of the test."""

from pathlib import Path
from typing import Any, Self
from uuid import UUID

from kraft.controller.config_rules import TableRules
from kraft.controller.controller import Controller
from kraft.controller.decision import ControllerSettings
from kraft.metadata.image import Endpoint
from kraft.metadata.versions import SUPPORTED
from kraft.protocol.message import Message
from kraft.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from kraft.protocol.messages.broker_registration_request import BrokerRegistrationRequest, Feature, Listener
from kraft.runtime.metadata_log import DIRECTORY_NAME, Identity, MetadataLog, MetadataLogSettings
from kraft.runtime.storage import FormatRequest, format_storage, read_bootstrap
from kraft_native import checkpoints
from kraft_native.flusher import Flusher
from tests.controller.world import ids

ENDPOINT = Endpoint("CONTROLLER", "127.0.0.1", 9093, 0)
CLUSTER = "labLABlabLABlabLABlabA"
NOW_MS = 1_700_000_000_000


def formatted(directory: Path, **fields: Any) -> Path:
    """A directory that is formatted for node 1."""
    format_storage(FormatRequest(**{
        "node_id": 1, "cluster_id": CLUSTER, "directories": (directory,), "endpoints": (ENDPOINT,), **fields}),
        NOW_MS, ids(700))
    return directory


class Node:
    """The active controller of a formatted directory; with `durability` per-append every append is committed by
    `commit`, without waiting for anybody."""

    def __init__(self, directory: Path, *, durability: str = "per-append", static: dict[str, str] | None = None,
                 endpoints: tuple[Endpoint, ...] = (), flusher: Flusher | None = None, **settings: Any):
        properties = checkpoints.read_meta_properties(directory)
        assert properties is not None
        assert properties.directory_id is not None
        self.properties = properties
        self.now_ms = NOW_MS
        self.log = MetadataLog(
            directory / DIRECTORY_NAME, Identity(properties.node_id or 0, properties.directory_id, endpoints),
            self.now_ms, MetadataLogSettings(durability=durability, **settings), flusher=flusher)
        self.controller = Controller(
            ControllerSettings(
                node_id=properties.node_id or 0, cluster_id=properties.cluster_id or "", features=SUPPORTED,
                bootstrap=tuple(read_bootstrap(directory)), idle_interval_ms=0),
            TableRules(static or {}), self.log, self.log.loaded.replayer, ids(self.log.end_offset * 1000 + 1000))
        self.log.start(self.controller, self.now_ms)
        self.commit()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.log.close()

    def commit(self) -> None:
        self.log.wait(self.now_ms)

    def ask(self, request: Message, version: int = 99) -> Any:
        answers: list[Message] = []
        self.controller.submit(request, version, self.now_ms, answers.append)
        self.commit()
        assert len(answers) == 1
        return answers[0]

    def join(self, incarnation: int = 1, **fields: Any) -> None:
        """Registers this node's broker and lets it take part."""
        epoch = self.ask(BrokerRegistrationRequest(**{
            "broker_id": self.properties.node_id, "cluster_id": self.properties.cluster_id,
            "incarnation_id": UUID(int=5000 + incarnation), "rack": None,
            "listeners": [Listener(name="PLAINTEXT", host="127.0.0.1", port=9092)],
            "features": [Feature(name=name, min_supported_version=low, max_supported_version=high)
                         for name, (low, high) in SUPPORTED.items()],
            "log_dirs": [self.properties.directory_id], **fields})).broker_epoch
        answer = self.ask(BrokerHeartbeatRequest(
            broker_id=self.properties.node_id or 0, broker_epoch=epoch,
            current_metadata_offset=self.controller.image.offset))
        assert not answer.is_fenced
