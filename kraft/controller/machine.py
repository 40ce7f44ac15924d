"""State machine of the metadata log on any node, without input and output. Commits become an image, and while the node
leads, a controller decides.

    machine.committed(end_offset)                   # from the quorum, in order
    machine.led(epoch, epoch_start, leads=True)
    machine.submit(request, version, now_ms, answer)
    machine.tick()                                  # no later than machine.deadline_ms

A follower replays committed records from its log into an image. When it leads and everything before its epoch is
committed, a `Controller` continues with that image. When it stops leading, replay of the log continues from the last
committed image. Uncommitted decisions are discarded with the controller that made them.

Replay works in steps, because one commit may hold any number of records. The image changes between two batches of the
log only, so a reader sees all records of a batch or none.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple
from uuid import UUID

from kraft.controller.commit import QuorumState
from kraft.controller.controller import Controller, ImageListener, at_once
from kraft.controller.decision import ConfigRules, ControllerSettings, Fencing, RefusedError, Steps
from kraft.controller.sessions import Found
from kraft.deadlines import NEVER_MS
from kraft.metadata.delta import MetadataDelta
from kraft.metadata.image import EMPTY, BrokerRegistration, MetadataImage
from kraft.metadata.replay import Replayer
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.security.principal import Client
from kraft.steps import finish

RECORDS_PER_IMAGE_MIN: Final = 1_000
"""Records after which the end of a batch gives a new image, although more are committed. Each image copies the table of
topics once."""


class CommittedRecord(NamedTuple):
    """A committed record. `message` is None for one that is not part of the state: the quorum's own. `ends_batch`: it
    is the last one of its batch."""

    offset: int
    epoch: int
    timestamp_ms: int
    message: Message | None
    ends_batch: bool


class _Leading(NamedTuple):
    epoch: int
    epoch_start: int


class MetadataMachine(ABC):
    """State machine of one node. Single-threaded. A subclass is also the controller's `CommitPort`. `controller` is
    active only while this node leads; else it answers NOT_CONTROLLER."""

    def __init__(self, settings: ControllerSettings, rules: ConfigRules, new_id: Callable[[], UUID],
                 clock: Callable[[], int], image: MetadataImage | None) -> None:
        """`image` is that of the newest snapshot; None without one."""
        self._settings = settings
        self._rules = rules
        self._new_id = new_id
        self._clock = clock
        self._listeners: list[ImageListener] = []
        self.on_change: Callable[[], None] = lambda: None
        """Called when another node may lead, or the controller became active or inactive."""
        self.on_deadline: Callable[[], None] = lambda: None
        """Called when `deadline_ms` may have moved otherwise than by a request."""
        self.on_probe: Callable[[BrokerRegistration], None] = lambda _broker: None
        """See `Controller.on_probe`."""
        self.on_notice: Callable[[str], None] = lambda _text: None
        """See `Controller.on_notice`."""
        self.on_failure: Callable[[BaseException], object] = lambda _error: None
        """See `Controller.on_failure`."""
        self.on_fencing: Callable[[Fencing, int], None] = lambda _fencing, _now_ms: None
        """See `Controller.on_fencing`."""
        self.run_steps: Callable[[int, Steps], None] = at_once
        """See `Controller.run_steps`."""
        self.run_replay: Callable[[Steps], None] = finish
        """Does the work of replay, now or in later iterations of the loop, one work after the other."""
        self.unclean_elections = 0
        """Number of unclean elections decided here since this process began."""
        self._leading: _Leading | None = None
        self._high_watermark = 0
        self._replaying: Steps | None = None
        self._begin(image)

    def _begin(self, image: MetadataImage | None) -> None:
        """Follow the log from the image on, with a controller that refuses all requests."""
        if self._replaying is not None:
            self._replaying.close()
            self._replaying = None
        self._replayer = Replayer() if image is None else Replayer(image)
        self.controller = Controller(self._settings, self._rules, self, Replayer(self._replayer.image), self._new_id)

    @property
    def image(self) -> MetadataImage:
        """Committed state as known here."""
        return self.controller.image if self.controller.active else self._replayer.image

    def use_cluster_id(self, cluster_id: str) -> None:
        """Use the cluster's id, which the first leader created: brokers register with it from now on."""
        self._settings = replace(self._settings, cluster_id=cluster_id)
        self.controller.settings = self._settings

    @property
    def is_behind(self) -> bool:
        """Return whether committed records may not be in the image yet."""
        return self._replaying is not None or self.controller.is_working

    @property
    def high_watermark(self) -> int:
        """End of what is known to be committed."""
        return self._high_watermark

    @property
    def in_transaction(self) -> bool:
        return self._replayer.in_transaction

    @property
    def deadline_ms(self) -> int:
        return self.controller.deadline_ms if self.controller.active else NEVER_MS

    def subscribe(self, listener: ImageListener) -> None:
        """Call `listener(delta, image)` for every committed change from now on, in order."""
        self._listeners.append(listener)
        if self.controller.active:
            self.controller.subscribe(listener)

    def submit(self, request: Message, version: int, now_ms: int, answer: Callable[[Message], None],
               client: Client | None = None, *, forwarded: bool = True) -> None:
        """See `Controller.submit`."""
        self.controller.submit(request, version, now_ms, answer, client, forwarded=forwarded)

    def broker_disconnected(self, broker_id: int, broker_epoch: int) -> None:
        """See `Controller.broker_disconnected`."""
        self.controller.broker_disconnected(broker_id, broker_epoch, self._clock())
        self.on_deadline()

    def broker_probed(self, broker_id: int, broker_epoch: int, found: Found) -> None:
        """See `Controller.broker_probed`."""
        self.controller.broker_probed(broker_id, broker_epoch, found, self._clock())
        self.on_deadline()

    # --- events of the quorum ---------------------------------------------------------------------------------------

    def load(self, snapshot: Generator[None, None, MetadataImage | None]) -> None:
        """Begin from a snapshot that has replaced the log, and that is read in steps: listeners receive all differences
        at once. Until then the image stays what it was, and what is committed after the snapshot waits."""
        if self._replaying is not None:
            self._replaying.close()
        self._replaying = self._load(snapshot)
        self.run_replay(self._replaying)

    def _load(self, snapshot: Generator[None, None, MetadataImage | None]) -> Steps:
        image = yield from snapshot
        delta = yield from MetadataDelta.between_steps(self.image, image or EMPTY)
        self._replaying = None
        self._begin(image)
        self._publish(delta, self.image)
        self._catch_up()

    def committed(self, end_offset: int) -> None:
        """Process the commit of everything below `end_offset`."""
        self._high_watermark = end_offset
        if self.controller.active:
            self.controller.committed(end_offset, self._clock())
        else:
            self._catch_up()

    def led(self, epoch: int, epoch_start: int, *, leads: bool) -> None:
        """Note whether this node leads `epoch`, whose first record is at `epoch_start`."""
        leading = _Leading(epoch, epoch_start) if leads else None
        if self._leading is not None and (leading is None or leading.epoch != self._leading.epoch):
            self._deactivate()
        self._leading = leading
        self._catch_up()
        self.on_change()

    def tick(self) -> None:
        """Do what is due in the active controller."""
        self.controller.tick(self._clock())

    # --- internals --------------------------------------------------------------------------------------------------

    def _activate_if_due(self) -> None:
        """Start a controller if this node leads, and everything before its epoch is committed and replayed."""
        leading = self._leading
        if leading is not None and not self.controller.active and self._high_watermark > leading.epoch_start:
            self._activate(leading.epoch)

    def _activate(self, epoch: int) -> None:
        self.controller = Controller(self._settings, self._rules, self, self._replayer, self._new_id)
        for listener in self._listeners:
            self.controller.subscribe(listener)
        self.controller.on_probe, self.controller.on_notice = self.on_probe, self.on_notice
        self.controller.on_failure = self.on_failure
        self.controller.on_fencing, self.controller.on_unclean = self.on_fencing, self._count_unclean
        self.controller.run_steps, self.controller.on_deadline = self.run_steps, self.on_deadline
        self.controller.became_leader(epoch, self._clock())
        self.on_change()

    def _count_unclean(self) -> None:
        self.unclean_elections += 1

    def _deactivate(self) -> None:
        controller = self.controller
        if not controller.active:
            return
        controller.resigned(self._clock())
        self._begin(controller.image)
        self.on_change()

    def _catch_up(self) -> None:
        """Replay what is committed, unless that is under way. Then the controller starts if this node leads."""
        if self.controller.active or self._replaying is not None:
            return
        if self._replayer.offset + 1 >= self._high_watermark:
            self._activate_if_due()
            return
        self._replaying = self._replay()
        self.run_replay(self._replaying)

    def _replay(self) -> Steps:
        """Continue up to the high watermark, which may rise meanwhile."""
        replayer, step = self._replayer, self._settings.step
        while replayer.offset + 1 < self._high_watermark:
            count = 0
            for record in self.read(replayer.offset + 1, self._high_watermark):
                if record.message is None:
                    replayer.advance(record.offset, record.epoch, record.timestamp_ms)
                else:
                    replayer.replay(record.message, record.offset, record.epoch, record.timestamp_ms)
                count += 1
                if record.ends_batch and count >= RECORDS_PER_IMAGE_MIN:
                    count = 0
                    self._take()
                if count % step == step - 1:
                    yield
            self._take()
        self._replaying = None
        self._activate_if_due()

    def _take(self) -> None:
        for delta, image in self._replayer.take():
            self._publish(delta, image)

    def _publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        for listener in self._listeners:
            listener(delta, image)

    @abstractmethod
    def read(self, offset: int, end_offset: int) -> Iterable[CommittedRecord]:
        """Return the log's records from `offset` on and before `end_offset`, in order."""

    # --- CommitPort -------------------------------------------------------------------------------------------------

    @property
    def leader_epoch(self) -> int:
        """Epoch in which this node leads; -1 while it does not."""
        return -1 if self._leading is None else self._leading.epoch

    @property
    @abstractmethod
    def end_offset(self) -> int:
        """See `CommitPort`."""

    @abstractmethod
    def append(self, payloads: Sequence[bytes], now_ms: int) -> int:
        """See `CommitPort`."""

    def upgrade_kraft_version(self, level: int) -> int:
        """See `CommitPort`. A quorum without voters of its own keeps its level."""
        raise RefusedError(ErrorCode.INVALID_UPDATE_VERSION, f"kraft.version cannot be brought to {level} here")

    @abstractmethod
    def describe_quorum(self, now_ms: int) -> QuorumState:
        """See `CommitPort`."""
