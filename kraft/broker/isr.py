"""Maintenance of the in-sync replicas of the partitions that this broker leads (KIP-497). Sans-IO.

A leader proposes, the controller decides, the metadata log announces. Between a proposal and its outcome the leader
does not know which of the two sets is in force. The high watermark therefore waits for the *maximal* set: the union of
both. So a shrinking set takes effect only when the controller has accepted it, a growing one from its proposal on.

A proposal carries the partition epoch that it is based on. The next one follows when the outcome is known, by the
controller's answer or by the metadata, whichever comes first. Meanwhile the proposals for other partitions accumulate
and go into one request, up to `PROPOSALS_MAX`. A proposal that the metadata has to decide, and does not, is sent again.
"""

from collections.abc import Callable, Generator, Sequence
from itertools import islice
from typing import Final, Protocol
from uuid import UUID

from kraft.broker.replica_events import (
    IsrDecided,
    IsrProposed,
    IsrRefused,
    IsrUnanswered,
    ProposalReason,
    ProposalWithheld,
    ReplicaEvent,
    WithheldReason,
)
from kraft.deadlines import NEVER_MS
from kraft.metadata.image import PartitionRegistration
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from kraft.protocol.messages.alter_partition_response import AlterPartitionResponse
from kraft.protocol.messages.alter_partition_response import PartitionData as Outcome
from kraft.steps import finish
from kraft.structs import mutable

PROPOSALS_MAX: Final = 500
"""Proposals of one request. The others follow when it is answered."""
CHECKED_STEP: Final = 64
"""Partitions whose followers one step checks."""
RETRY_MS: Final = 50
CHECKS_WITHOUT_NEWS: Final = 2
"""Checks of lagging followers after which a proposal that the metadata should have decided is sent again. No proposal
stays open for longer, whatever was lost."""

REVERTED: Final = (ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA)
"""Errors after which the proposal is not in force and never will be."""
OVERTAKEN: Final = (
    ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.INVALID_REQUEST,
    ErrorCode.NEW_LEADER_ELECTED,
)
"""Errors that show that the controller knows something newer, which the metadata will bring. Until then both sets may
be in force.

UNKNOWN_TOPIC_ID and UNKNOWN_TOPIC_OR_PARTITION do not show that. The partition may be deleted, which the metadata will
bring. But a controller that does not know yet that it was replaced does not know a partition of its successor either.
So the proposal is sent again until the metadata removes the partition."""

Key = tuple[UUID, int]
Trace = Callable[[Key, ReplicaEvent], None]
"""Receives each event of a partition's in-sync replicas."""


class Replicated(Protocol):
    """A partition that this broker leads, as the keeper uses it (`kraft_native.partition.partition.Partition`)."""

    def set_isr(self, isr: tuple[int, ...], maximal: tuple[int, ...] | None = None) -> None: ...
    def lagging(self, lag_max_ms: int) -> list[int]: ...
    def broker_epoch_of(self, node_id: int) -> int: ...


@mutable
class Led:
    """A led partition. `isr` is the last committed set, of `partition_epoch`; `proposed` may be in force too."""

    key: Key
    partition: Replicated
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    recovery: int
    proposed: tuple[int, ...] | None = None
    checks_left: int = 0
    """Checks until the proposal is sent again, where the metadata has to decide it; 0: an answer will."""

    @property
    def maximal(self) -> tuple[int, ...]:
        more = self.proposed or ()
        return (*self.isr, *(replica for replica in more if replica not in self.isr))


class IsrKeeper:
    """Keeper of the in-sync replicas. Single-threaded. `submit(request)` sends a request to the controller; its answer
    arrives at `answered` later. `epoch_of(broker id)` returns the epoch of a broker that takes part according to the
    metadata, None for any other."""

    def __init__(self, node_id: int, submit: Callable[[AlterPartitionRequest], None],
                 epoch_of: Callable[[int], int | None], trace: Trace = lambda _key, _event: None) -> None:
        self._node_id = node_id
        self._submit = submit
        self._epoch_of = epoch_of
        self._trace = trace
        self._led: dict[Key, Led] = {}
        self._due: dict[Key, Led] = {}
        self._requested: dict[Key, Led] | None = None
        self._refused: dict[Key, None] = {}
        self.deadline_ms = NEVER_MS
        """Time when `tick` is due."""
        self.expands_total = 0
        self.shrinks_total = 0
        self.failures_total = 0

    def __len__(self) -> int:
        """Number of partitions that this broker leads."""
        return len(self._led)

    def knows_newer(self, key: Key, registration: PartitionRegistration) -> bool:
        """Return whether the controller answered with a newer state of the same leader epoch."""
        led = self._led.get(key)
        return (led is not None and led.leader_epoch == registration.leader_epoch
                and led.partition_epoch > registration.partition_epoch)

    def proposed(self, key: Key) -> tuple[int, ...] | None:
        """Return the set that may be in force besides the committed one; None without a proposal."""
        led = self._led.get(key)
        return None if led is None else led.proposed

    def maximal(self, key: Key, registration: PartitionRegistration) -> tuple[int, ...]:
        """Return the replicas that may be in sync in that state of the partition."""
        led = self._led.get(key)
        return led.maximal if led is not None and _is_same(led, registration) else registration.isr

    def lead(self, key: Key, partition: Replicated, registration: PartitionRegistration) -> None:
        """Apply metadata in which this broker leads with these in-sync replicas. An open proposal is decided by it,
        unless it is based on exactly this state, which the controller already answered with."""
        led = self._led.get(key)
        if led is not None and led.partition is partition and _is_same(led, registration):
            partition.set_isr(led.isr, led.maximal)
            return
        if led is not None and led.proposed is not None:
            self._trace(key, IsrDecided(led.leader_epoch, registration.isr))
        self.resign(key)
        self._led[key] = Led(key, partition, registration.leader_epoch, registration.partition_epoch, registration.isr,
                             registration.leader_recovery_state)

    def resign(self, key: Key) -> None:
        """Stop keeping a partition that this broker no longer leads."""
        self._led.pop(key, None)
        self._due.pop(key, None)

    def caught_up(self, key: Key, node_id: int) -> bool:
        """Propose a follower outside the set that has everything. Return whether it is proposed or needs no proposal.

        It is not proposed while its broker does not take part according to the metadata, or while another process of
        that broker did the fetching. Nor is it for `RETRY_MS` after a refusal, which wakes the follower's Fetch."""
        led = self._led.get(key)
        if led is None or node_id in led.maximal:
            return True
        if led.proposed is not None:
            return False
        epoch, seen = self._epoch_of(node_id), led.partition.broker_epoch_of(node_id)
        if epoch is None or seen not in (-1, epoch):
            reason, details = (WithheldReason.NOT_ACTIVE, ()) if epoch is None else (
                WithheldReason.OTHER_PROCESS, (seen, epoch))
            self._trace(key, ProposalWithheld(led.leader_epoch, node_id, reason, details))
            return False
        if key in self._refused:
            return False
        self._propose(led, (*led.isr, node_id), ProposalReason.CAUGHT_UP, node_id)
        decided = self._led.get(key)   # a controller on this node has answered by now
        return decided is None or node_id in decided.maximal

    def drop_lagging(self, lag_max_ms: int) -> None:
        """Propose sets without the followers that lag for longer than `lag_max_ms`, and send proposals again that the
        metadata did not decide."""
        finish(self.drop_lagging_steps(lag_max_ms))

    def drop_lagging_steps(self, lag_max_ms: int) -> Generator[None]:
        """Do the same, with a pause after some partitions. Partitions may be resigned meanwhile."""
        for number, led in enumerate(list(self._led.values()), 1):
            if number % CHECKED_STEP == 0:
                yield
            if self._led.get(led.key) is not led:
                continue
            if led.checks_left:
                led.checks_left -= 1
                if led.checks_left == 0:
                    self._due[led.key] = led
                    self._send_requested()
            elif led.proposed is None and len(led.isr) > 1:
                lagging = led.partition.lagging(lag_max_ms)
                if lagging:
                    self._propose(led, tuple(replica for replica in led.isr if replica not in lagging),
                                  ProposalReason.LAGGING, lag_max_ms)

    def recovered(self, key: Key) -> None:
        """Report to the controller that the leader of an unclean election has restored its log."""
        led = self._led.get(key)
        if led is not None and led.recovery != 0 and led.proposed is None:
            led.recovery = 0
            self._propose(led, led.isr, ProposalReason.RECOVERED)

    def tick(self, now_ms: int) -> None:
        """Send again the proposals that were answered without an outcome, and allow others in place of those that were
        refused."""
        if now_ms >= self.deadline_ms:
            self.deadline_ms = NEVER_MS
            self._refused.clear()
            self._send_requested()

    def answered(self, response: AlterPartitionResponse, now_ms: int) -> None:
        """Process the controller's answer to the last request."""
        requested, self._requested = self._requested or {}, None
        is_unanswered = False
        outcomes: dict[Key, Outcome] = {}
        if response.error_code == ErrorCode.NONE:
            outcomes = {(topic.topic_id, part.partition_index): part
                        for topic in response.topics for part in topic.partitions}
        for key, led in requested.items():
            if self._led.get(key) is led and led.proposed is not None:
                outcome = outcomes.get(key)
                if outcome is None or not self._settled(led, outcome, now_ms):
                    code = response.error_code if outcome is None else outcome.error_code
                    self._trace(key, IsrUnanswered(led.leader_epoch, led.proposed, code))
                    self._due[key] = led
                    self.deadline_ms = now_ms + RETRY_MS
                    is_unanswered = True
        if not is_unanswered:
            self._send_requested()

    # --- internals ----------------------------------------------------------------------------------------------------

    def _propose(self, led: Led, isr: tuple[int, ...], reason: ProposalReason, *details: int) -> None:
        if len(isr) > len(led.isr):
            self.expands_total += 1
        elif len(isr) < len(led.isr):
            self.shrinks_total += 1
        self._trace(led.key, IsrProposed(led.leader_epoch, led.isr, isr, reason, details))
        led.proposed = isr
        led.partition.set_isr(led.isr, led.maximal)
        self._due[led.key] = led
        self._send_requested()

    def _settled(self, led: Led, outcome: Outcome, now_ms: int) -> bool:
        """Apply the outcome of a proposal. Return whether it needs no further request."""
        code = outcome.error_code
        if code == ErrorCode.NONE:
            if outcome.leader_epoch != led.leader_epoch or outcome.partition_epoch < led.partition_epoch:
                led.checks_left = CHECKS_WITHOUT_NEWS
                return True            # the metadata will bring what is newer than this
            self._trace(led.key, IsrDecided(led.leader_epoch, tuple(outcome.isr)))
            self._commit(led, tuple(outcome.isr), outcome.partition_epoch)
        elif code in REVERTED or code in OVERTAKEN:
            self.failures_total += 1
            self._trace(led.key, IsrRefused(led.leader_epoch, led.proposed or (), code))
            if code in REVERTED:
                self._refused[led.key] = None      # before the follower's Fetch, which the next line wakes
                self.deadline_ms = now_ms + RETRY_MS
                self._commit(led, led.isr, led.partition_epoch)
            else:
                led.checks_left = CHECKS_WITHOUT_NEWS
        else:
            return False
        return True

    def _commit(self, led: Led, isr: tuple[int, ...], partition_epoch: int) -> None:
        led.isr, led.partition_epoch, led.proposed = isr, partition_epoch, None
        led.partition.set_isr(isr)

    def _send_requested(self) -> None:
        if self._requested is not None or not self._due:
            return
        own_epoch = self._epoch_of(self._node_id)
        requested = dict(islice(self._due.items(), PROPOSALS_MAX))
        for key in requested:
            del self._due[key]
        topics: dict[UUID, list[PartitionData]] = {}
        for (topic_id, index), led in requested.items():
            topics.setdefault(topic_id, []).append(PartitionData(
                partition_index=index, leader_epoch=led.leader_epoch, partition_epoch=led.partition_epoch,
                leader_recovery_state=led.recovery, new_isr_with_epochs=self._states(led.proposed or led.isr, led)))
        self._requested = requested
        self._submit(AlterPartitionRequest(
            broker_id=self._node_id, broker_epoch=-1 if own_epoch is None else own_epoch,
            topics=[TopicData(topic_id=topic_id, partitions=parts) for topic_id, parts in topics.items()]))

    def _states(self, isr: Sequence[int], led: Led) -> list[BrokerState]:
        return [BrokerState(broker_id=replica, broker_epoch=(
            self._epoch_of(replica) or -1 if replica == self._node_id else led.partition.broker_epoch_of(replica)))
            for replica in isr]


def _is_same(led: Led, registration: PartitionRegistration) -> bool:
    return (led.leader_epoch == registration.leader_epoch and led.partition_epoch == registration.partition_epoch)
