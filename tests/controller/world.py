"""A controller whose log is a list: appended records are committed when the test says so."""

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any
from uuid import UUID

from kraft.controller.commit import QuorumState, ReplicaProgress
from kraft.controller.config_rules import TableRules
from kraft.controller.controller import Controller
from kraft.controller.decision import ControllerSettings, RefusedError
from kraft.metadata.image import MetadataImage
from kraft.metadata.replay import Replayer
from kraft.metadata.snapshot import Record
from kraft.metadata.versions import SUPPORTED, default_features
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from kraft.protocol.messages.broker_registration_request import BrokerRegistrationRequest, Feature, Listener
from kraft.protocol.messages.feature_level_record import FeatureLevelRecord
from kraft.protocol.record_frames import decode_record

CLUSTER = "labLABlabLABlabLABlabA"
LATEST_VERSION = 99


def ids(start: int = 1000) -> Callable[[], UUID]:
    numbers = count(start)
    return lambda: UUID(int=next(numbers))


class ListLog:
    """A `CommitPort` in memory. `records` holds what was appended, as (offset, message, version)."""

    def __init__(self, records: Sequence[tuple[int, Message, int]] = (), epoch: int = 1):
        self.records = list(records)
        self.leader_epoch = epoch
        self.end_offset = self.records[-1][0] + 1 if self.records else 3  # control records come first
        self.batches: list[int] = []
        self.kraft_version = 1
        self.leader_id = 1
        self.voters_are_ready = True

    def append(self, payloads: Sequence[bytes], now_ms: int) -> int:
        self.batches.append(len(payloads))
        for payload in payloads:
            self.records.append((self.end_offset, *decode_record(payload)))
            self.end_offset += 1
        return self.end_offset - 1

    def describe_quorum(self, now_ms: int) -> QuorumState:
        voter = ReplicaProgress(1, UUID(int=7), self.end_offset, now_ms, now_ms)
        return QuorumState(self.leader_id, self.leader_epoch, self.end_offset, (voter,),
                           kraft_version=self.kraft_version)

    def upgrade_kraft_version(self, level: int) -> int:
        if not self.voters_are_ready:
            raise RefusedError(ErrorCode.INVALID_UPDATE_VERSION, "voters have not reported")
        self.kraft_version = level
        self.end_offset += 2
        return self.end_offset - 1

    def messages(self, since: int = 0) -> list[Message]:
        return [message for offset, message, _ in self.records if offset >= since]


class World:
    """One active controller, on a new log or on that of another world."""

    def __init__(self, log: ListLog | None = None, *, metadata_level: int = 30, static: Mapping[str, str] | None = None,
                 commit: bool = True, **settings: Any):
        self.log = log or ListLog()
        self.now_ms = 1_000_000
        self.images: list[MetadataImage] = []
        replayer = Replayer()
        replayer.advance(2, 0, 0)
        for offset, message, _ in self.log.records:
            replayer.replay(message, offset, 1, 0)
        bootstrap = tuple(Record(FeatureLevelRecord(name=name, feature_level=level))
                          for name, level in default_features(metadata_level).items())
        self.settings = ControllerSettings(**{
            "node_id": 1, "cluster_id": CLUSTER, "bootstrap": bootstrap, "features": SUPPORTED, "idle_interval_ms": 0,
            **settings})
        self.controller = Controller(
            self.settings, TableRules(static or {}), self.log, replayer, ids(self.log.end_offset * 1000))
        self.controller.subscribe(lambda delta, image: self.images.append(image))
        self.controller.became_leader(self.log.leader_epoch, self.now_ms)
        if commit:
            self.commit()

    @property
    def image(self) -> MetadataImage:
        return self.controller.image

    def commit(self) -> None:
        self.controller.committed(self.log.end_offset, self.now_ms)

    def send(self, request: Message, version: int = LATEST_VERSION) -> Any:
        """Return the answer to a request whose records are committed at once."""
        answers: list[Message] = []
        self.controller.submit(request, version, self.now_ms, answers.append)
        self.commit()
        assert len(answers) == 1
        return answers[0]

    def register(self, broker_id: int = 1, incarnation: int = 1, rack: str | None = None, **fields: Any) -> int:
        """Register a broker; return its epoch."""
        answer = self.send(BrokerRegistrationRequest(**{
            "broker_id": broker_id, "cluster_id": CLUSTER, "incarnation_id": UUID(int=5000 + incarnation), "rack": rack,
            "listeners": [Listener(name="PLAINTEXT", host="localhost", port=9092)],
            "features": [Feature(name=name, min_supported_version=low, max_supported_version=high)
                         for name, (low, high) in SUPPORTED.items()],
            "log_dirs": [UUID(int=9000 + broker_id)], **fields}))
        assert answer.error_code == ErrorCode.NONE, answer
        epoch: int = answer.broker_epoch
        return epoch

    def beat(self, broker_id: int = 1, epoch: int | None = None, **fields: Any) -> Any:
        broker = self.image.brokers[broker_id]
        return self.send(BrokerHeartbeatRequest(**{
            "broker_id": broker_id, "broker_epoch": broker.epoch if epoch is None else epoch,
            "current_metadata_offset": self.image.offset, **fields}))

    def join(self, *broker_ids: int, racks: Sequence[str | None] = ()) -> None:
        """Register brokers and unfence them."""
        for number, broker_id in enumerate(broker_ids):
            self.register(broker_id, rack=racks[number] if racks else None)
            assert not self.beat(broker_id).is_fenced

    def partition(self, name: str, index: int = 0) -> Any:
        partition = self.image.partition(name, index)
        assert partition is not None
        return partition
