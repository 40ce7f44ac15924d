"""Invariants, by name: those of Kafka's own simulation, of the TLA+ models of KIP-853 and KIP-996, and those that
sentences of the specifications add. A function here is one invariant. Its name in a report is the function's name in
CamelCase.

`AFTER_EVERY_EVENT` checks the state of one node, which is cheap. `NOW_AND_THEN` walks logs, every `EXPENSIVE_EVERY`
events. The other functions are called where the judged action happens. Some invariants are elsewhere:

- `Ledger` has LogMatching, ElectionSafety, OneVotePerEpoch and ConsistentCommittedData;
- `Node` has LeaderNeverLoadSnapshot and NoBusyLoop;
- `liveness` has what must become true in the end.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from kraft.raft.messages import FetchRequest, FetchSnapshotRequest, Loss, Lost, Message, VoteRequest, VoteResponse
from kraft.raft.ready import HardState
from kraft.raft.records import KRaftVersion, Voters
from kraft.raft.roles import Candidate, Follower, Leader, Prospective, Resigned, Unattached
from kraft.raft.types import NOBODY, ReplicaKey
from kraft.raft.voters import VoterHistory
from kraft.testing.sim.batches import Batch, Payloads, Value
from kraft.testing.sim.views import LedgerView, LogView, NodeView
from kraft.testing.sim.violation import ViolationError
from kraft_native.partition.watermark import majority_value

EXPENSIVE_EVERY: Final = 500
CHECK_QUORUM_SLACK_MS: Final = 1000
PRE_VOTE_UNKNOWN: Final = -1
CONSENTS_MAX: Final = 16


class Memory:
    """State of a node at its last check. It is reset for each life of the node, except the saved epoch: that lasts as
    long as the disk."""

    def __init__(self, node: NodeView, earlier: "Memory | None") -> None:
        self.life = node.life
        self.key = node.key
        self.high_watermark = 0
        self.epoch = 0
        self.saved_epoch: int = earlier.saved_epoch if earlier is not None and earlier.key == node.key else 0
        self.leader_since_ms = 0
        self.led_epoch = NOBODY
        self.contact_ms: dict[int, int] = {}
        self.consents: dict[int, dict[int, bool]] = {}


def broken(name: str, text: str) -> ViolationError:
    return ViolationError(name, text)


# --- after every event: one node --------------------------------------------------------------------------------------


def monotonic_high_watermark(node: NodeView, memory: Memory) -> None:
    """Check that the high watermark of a process never falls."""
    high_watermark = node.raft.replica.high_watermark
    if high_watermark < memory.high_watermark:
        raise broken("MonotonicHighWatermark", f"{node}: {high_watermark} after {memory.high_watermark}")
    memory.high_watermark = high_watermark


def monotonic_epoch(node: NodeView, memory: Memory) -> None:
    """Check that neither the epoch of a process nor the one on its disk falls, and that the disk is not ahead."""
    epoch = node.raft.replica.epoch
    if epoch < memory.epoch or node.saved.epoch < memory.saved_epoch or node.saved.epoch > epoch:
        raise broken("MonotonicEpoch", f"{node}: epoch {epoch} after {memory.epoch}, on disk {node.saved.epoch} "
                                       f"after {memory.saved_epoch}")
    memory.epoch, memory.saved_epoch = epoch, node.saved.epoch


def no_truncation_below_high_watermark(node: NodeView, _memory: Memory) -> None:
    """Check that what is committed is in the log, or in the snapshot before it."""
    end_offset = node.log.end.offset
    if end_offset < node.raft.replica.high_watermark or end_offset < node.applied:
        raise broken("NoTruncationBelowHighWatermark", f"{node}: log ends at {end_offset}, applied is {node.applied}")


def valid_roles_and_states(node: NodeView, _memory: Memory) -> None:
    """NoIllegalState, ValidRolesAndStates: check that role, leader, vote and voters fit together."""
    replica = node.raft.replica
    leader_id, mine, voted = replica.leader_id, replica.config.key, replica.voted
    match replica.role:
        case Leader():
            fits = leader_id == node.id
        case Resigned():
            fits = leader_id == node.id
        case Follower():
            fits = leader_id not in (NOBODY, node.id)
        case Candidate():
            fits = leader_id == NOBODY and voted == mine and _may_campaign(node)
        case Prospective():
            fits = leader_id != node.id and _may_campaign(node)
        case Unattached():
            # A leader id that was found on disk may have no known address. It is the node itself when that is the only
            # voter.
            fits = leader_id != node.id or replica.voters.ids == (node.id,)
    if not fits:
        raise broken("ValidRolesAndStates", f"{node} is {replica.role.role} in epoch {replica.epoch}: leader "
                                            f"{leader_id}, vote {voted}, voters {replica.voters}")


def _may_campaign(node: NodeView) -> bool:
    """Return whether a node may campaign: it is a voter, or the record that removed it is not committed yet. Until then
    its vote may be needed to commit that record."""
    replica = node.raft.replica
    if replica.voters.has(replica.config.key):
        return True
    entries = replica.history.entries
    return (len(entries) > 1 and entries[-1].offset >= replica.high_watermark
            and entries[-2].voters.has(replica.config.key))


def single_leader(node: NodeView, memory: Memory) -> None:
    """Record since when a node leads, for `check_quorum`."""
    replica = node.raft.replica
    if not isinstance(replica.role, Leader):
        memory.led_epoch = NOBODY
    elif memory.led_epoch != replica.epoch:
        memory.led_epoch, memory.leader_since_ms = replica.epoch, node.clock.now_ms
        memory.contact_ms.clear()


def check_quorum(node: NodeView, memory: Memory) -> None:
    """Check that a leader which a majority has not fetched from for 1.5 fetch time-outs resigns (KIP-996). A leader
    removed from the voters does not count itself. The time is that of the last event that reached the core."""
    replica = node.raft.replica
    if not isinstance(replica.role, Leader):
        return
    now_ms = replica.now_ms
    contacts = [now_ms if replica.config.key.is_same(key)
                else memory.contact_ms.get(key.node_id, memory.leader_since_ms)
                for key in replica.voters.keys]
    silent_ms = now_ms - majority_value(contacts)
    if silent_ms > replica.config.check_quorum_timeout_ms + CHECK_QUORUM_SLACK_MS:
        raise broken("CheckQuorum", f"{node} leads epoch {replica.epoch} and had no majority for {silent_ms} ms")


AFTER_EVERY_EVENT: Final[tuple[Callable[[NodeView, Memory], None], ...]] = (
    monotonic_high_watermark, monotonic_epoch, no_truncation_below_high_watermark, valid_roles_and_states,
    single_leader, check_quorum,
)


# --- now and then: one node against the truth -------------------------------------------------------------------------


def snapshot_at_log_start(node: NodeView, ledger: LedgerView) -> None:
    """Check that a log starts at 0 or at the end of an existing snapshot, and that a snapshot is of committed
    records."""
    start = node.log.start_offset
    if start > 0 and start not in [each.offset for each in node.disk.snapshots]:
        raise broken("SnapshotAtLogStart", f"{node}: log starts at {start}, snapshots are {list(node.disk.snapshots)}")
    for each in node.disk.snapshots.values():
        if ledger.chain_at(each.id.offset) != each.chain:
            raise broken("SnapshotAtLogStart", f"{node}: snapshot {each.id} is not of what is committed")
        at = node.log.id_at(each.id.offset)
        if at is not None and (at[0].epoch != each.id.epoch or at[1] != each.chain):
            raise broken("SnapshotAtLogStart", f"{node}: snapshot {each.id}, the log has {at[0]} there")


def epoch_cache_matches_log(node: NodeView, _ledger: LedgerView) -> None:
    """Check that the epochs of records do not fall, and that none is above the node's."""
    epochs = [batch.epoch for batch in node.log.batches]
    if sorted(epochs) != epochs or (epochs and epochs[-1] > node.raft.replica.epoch):
        raise broken("EpochsInOrder", f"{node} in epoch {node.raft.replica.epoch} has records of {epochs[-5:]}")


def voters_follow_log(node: NodeView, _ledger: LedgerView) -> None:
    """Check that the voters are those of the last Voters record in the node's own log, committed or not."""
    replica = node.raft.replica
    expected = VoterHistory(replica.config.static_voters)
    snapshot = replica.snapshots.latest()
    if snapshot is not None:
        controls = replica.snapshots.controls(snapshot)
        expected.restart(
            snapshot.offset, next((each.level for each in controls if isinstance(each, KRaftVersion)), 0),
            next((each.voters for each in controls if isinstance(each, Voters)), replica.config.static_voters))
    for offset, record in node.log.controls():
        if snapshot is None or offset >= snapshot.offset:
            if isinstance(record, Voters):
                expected.set_voters(offset, record.voters)
            elif isinstance(record, KRaftVersion):
                expected.set_version(offset, record.level)
    if expected.latest.voters != replica.voters:
        raise broken("VotersFollowLog", f"{node} has voters {replica.voters}, its log says {expected.latest.voters}")


def state_follows_log(node: NodeView, ledger: LedgerView) -> None:
    """Check that the state of the state machine follows from the committed records (KAFKA-14275)."""
    expected = ledger.chain_at(node.applied)
    if expected is not None and node.state != expected:
        raise broken("StateFollowsLog", f"{node} applied everything below {node.applied}, and has another state")


def snapshots_are_made(node: NodeView, _ledger: LedgerView) -> None:
    """Check that a snapshot that is due is being written (KAFKA-14300)."""
    if node.owes_snapshot:
        raise broken("SnapshotsAreMade", f"{node} applied {node.applied} and makes no snapshot")


NOW_AND_THEN: Final[tuple[Callable[[NodeView, LedgerView], None], ...]] = (
    snapshot_at_log_start, epoch_cache_matches_log, voters_follow_log, state_follows_log, snapshots_are_made,
)


def durability(ledger: LedgerView, logs: Iterable[LogView]) -> None:
    """Check that what is committed is durable somewhere: in a log that ends no earlier, or in a snapshot."""
    end_offset = ledger.end_offset
    chain = ledger.chain_at(end_offset)
    for log in logs:
        at = log.id_at(end_offset)
        if at is not None and at[1] == chain and log.durable_offset >= end_offset:
            return
    if end_offset:
        raise broken("Durability", f"nobody has what is committed up to {end_offset}")


# --- when a record enters a log ---------------------------------------------------------------------------------------


def appended(node: NodeView, batch: Batch, ledger: LedgerView) -> None:
    """LogMatching. For a leader's own records, also check that LeaderChange comes first and that voters change one at a
    time."""
    replica = node.raft.replica
    # A single voter writes in an epoch that is not on its disk yet. No other node has seen that epoch, and none will
    # see it if the voter dies.
    if batch.epoch <= node.saved.epoch:
        ledger.appended(batch, node)
    if not isinstance(replica.role, Leader) or isinstance(batch.content, (Value, Payloads)):
        return
    if replica.role.epoch_start == batch.base_offset:
        return
    for record in batch.content:
        if isinstance(record, Voters):
            _voters_change_one_at_a_time(node, record)


def _voters_change_one_at_a_time(node: NodeView, record: Voters) -> None:
    """Check that at most one change is uncommitted, that it concerns one member, and that the leader has first
    committed a record of its own epoch."""
    replica = node.raft.replica
    assert isinstance(replica.role, Leader)
    before = replica.history.latest
    removed = [key for key in before.voters.keys if key not in record.voters.keys]
    come = [key for key in record.voters.keys if key not in before.voters.keys]
    if (replica.high_watermark <= replica.role.epoch_start or before.offset >= replica.high_watermark
            or len(removed) + len(come) > 1):
        raise broken("VotersChangeOneAtATime",
                     f"leader {node} of {replica.epoch}, first record {replica.role.epoch_start}, committed "
                     f"{replica.high_watermark}, writes {record.voters} over {before.voters} of {before.offset}")


# --- when a record is committed, or a node leads ----------------------------------------------------------------------


def applied(node: NodeView, high_watermark: int, ledger: LedgerView) -> None:
    """ConsistentCommittedData, ConsistentRead: check that all nodes apply the same records, without gaps, batch by
    batch."""
    if high_watermark < node.applied or node.applied < node.log.start_offset:
        raise broken("AppliedInOrder", f"{node} applies up to {high_watermark}, has {node.applied}, log starts at "
                                       f"{node.log.start_offset}")
    if node.log.id_at(high_watermark) is None:
        raise broken("AppliedInOrder", f"{node}: the high watermark {high_watermark} is no end of a batch in its log")
    ledger.commits(node.log.between(node.applied, high_watermark), node.raft.replica.epoch, node)


def committed(node: NodeView, end_offset: int, held: Mapping[ReplicaKey, LogView]) -> None:
    """OwnEpochCommits: a leader commits nothing before it commits a record of its own epoch (Raft 5.4.2).
    MajorityReachedHighWatermark: what a leader commits is durable on the disks of a majority of the voters of its log,
    including voters that are down."""
    voters = node.raft.replica.voters
    found = node.log.id_at(end_offset)
    chain = None if found is None else found[1]
    if found is not None and found[0].epoch != node.raft.replica.epoch:
        raise broken("OwnEpochCommits", f"leader {node} of {node.raft.replica.epoch} commits {found[0]} only")
    count = 0
    for key in voters.keys:
        for holder in held:
            if holder.is_same(key):
                log = held[holder]
                at = log.id_at(end_offset)
                has_it = log.start_offset > end_offset or (at is not None and at[1] == chain)
                if has_it and log.durable_offset >= end_offset:
                    count += 1
                    break
    if count < voters.majority:
        raise broken("MajorityReachedHighWatermark",
                     f"{node} takes {end_offset} for committed, {count} of {voters} have it durably")


def elected(node: NodeView, ledger: LedgerView) -> None:
    """ElectionSafety. LeaderCompleteness: a leader has everything that was committed in earlier epochs.

    A sole voter campaigns and leads in one step. No other node learns of it before its epoch is durable. If the epoch
    never becomes durable, another node may use it: `led` judges that.
    """
    replica = node.raft.replica
    if node.saved.epoch == replica.epoch:
        ledger.elected(replica.epoch, node.key)
    needed = ledger.end_before_epoch(replica.epoch)
    at = node.log.id_at(needed)
    has_it = node.log.start_offset > needed or (at is not None and at[1] == ledger.chain_at(needed))
    if not has_it:
        raise broken("LeaderCompleteness",
                     f"{node} leads epoch {replica.epoch} with a log up to {node.log.end}, committed is {needed}")


def led(node: NodeView, ledger: LedgerView) -> None:
    """Check that a state machine leads only when it has applied everything committed in earlier epochs (KAFKA-17333).
    Also ElectionSafety for all leaders."""
    reported = node.reported
    assert reported is not None
    ledger.elected(reported.epoch, node.key)
    needed = ledger.end_before_epoch(reported.epoch)
    if node.applied < needed:
        raise broken("LeadsWithEverything", f"{node} leads {reported.epoch}, has applied {node.applied} of {needed}")


# --- when a message leaves or arrives ---------------------------------------------------------------------------------


def _is_durable(saved: HardState, epoch: int, voted: ReplicaKey) -> bool:
    """Return whether no later crash lets the node vote for another candidate: the vote is on disk, or a later epoch is.
    Both may be saved in one iteration of the loop."""
    return saved.epoch > epoch or (saved.epoch, saved.voted) == (epoch, voted)


def answered(node: NodeView, question: Message, response: Message, saved: HardState, ledger: LedgerView) -> None:
    """OneVotePerEpoch; check that the vote is durable before the answer leaves."""
    if (isinstance(question, VoteRequest) and isinstance(response, VoteResponse) and response.granted
            and not question.pre_vote):
        if not _is_durable(saved, question.epoch, question.candidate):
            raise broken("VoteDurableBeforeAnswer",
                         f"{node} grants {question.candidate} epoch {question.epoch}, on its disk is {saved}")
        ledger.voted(node.key, question.epoch, question.candidate)


def sends(node: NodeView, request: Message, memory: Memory, ledger: LedgerView) -> None:
    """Check that the claims of a request are durable: a candidate's own vote, a follower's log. Also check that no
    epoch is raised without the consent of a majority, where all voters support pre-votes (KIP-996)."""
    saved, replica = node.saved, node.raft.replica
    if isinstance(request, VoteRequest) and not request.pre_vote:
        if not _is_durable(saved, request.epoch, node.key):
            raise broken("VoteDurableBeforeAnswer", f"{node} stands in {request.epoch}, on its disk is {saved}")
        ledger.voted(node.key, request.epoch, node.key)
        consents = memory.consents.get(request.epoch - 1, {})
        count = 1 + sum(consents.values())
        if count < replica.voters.majority and PRE_VOTE_UNKNOWN not in consents:
            raise broken("NoEpochWithoutConsent", f"{node} raised its epoch to {request.epoch} with {count} pre-votes")
    # Records may be truncated between the creation of the Fetch and its departure: in the same iteration of the loop,
    # or while its peer was unreachable. A leader does not take such a Fetch as an acknowledgement: the leader of that
    # epoch has another record there.
    elif (isinstance(request, FetchRequest)
            and node.log.durable_offset < request.fetch_offset <= node.log.end.offset
            and (found := node.log.id_at(request.fetch_offset)) is not None
            and found[0].epoch == request.last_fetched_epoch):
        raise broken("FetchIsDurable",
                     f"{node} acknowledges {request.fetch_offset}, durable is {node.log.durable_offset}")


def receives(node: NodeView, question: Message | None, message: Message, source: int, memory: Memory) -> None:
    """Record what `check_quorum` and `sends` need: which nodes fetched and which granted a pre-vote."""
    if isinstance(message, FetchRequest | FetchSnapshotRequest):
        memory.contact_ms[source] = node.clock.now_ms
    if isinstance(question, VoteRequest) and question.pre_vote:
        consents = memory.consents.setdefault(question.epoch, {})
        if isinstance(message, VoteResponse):
            consents[source] = message.granted or consents.get(source, False)
        if message == Lost(Loss.UNSUPPORTED) or (isinstance(message, VoteResponse) and message.pre_vote is False):
            consents[PRE_VOTE_UNKNOWN] = False
        while len(memory.consents) > CONSENTS_MAX:
            del memory.consents[min(memory.consents)]      # not the first recorded: answers may be very late
