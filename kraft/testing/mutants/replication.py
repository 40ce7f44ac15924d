"""Bugs in replication, and in the rules for committed records."""

from collections.abc import Callable, Sequence
from typing import Any

from kraft.protocol.error_codes import ErrorCode
from kraft.raft import following, leading
from kraft.raft.messages import FetchRequest, FetchResponse, FetchSnapshotRequest, FetchSnapshotResponse
from kraft.raft.records import ControlRecord
from kraft.raft.replica import Replica
from kraft.raft.roles import Follower, Leader
from kraft.testing.mutants.patches import Collection, Patches
from kraft.testing.sim.log import SimLog
from kraft_native.partition.watermark import majority_value

REPLICATION = Collection()
Update = Callable[[Replica, Leader], None]


@REPLICATION.add(4, "KAFKA-12619")
def commits_before_own_epoch(patches: Patches) -> None:
    """The records of earlier epochs count as committed before the first of the leader's own does (Raft, figure 8)."""
    def around(original: Update) -> Update:
        def update(replica: Replica, leader: Leader) -> None:
            leader.epoch_start -= 1
            original(replica, leader)
            leader.epoch_start += 1

        return update

    patches.wrap(leading, "_update_high_watermark", around)


@REPLICATION.add(5, "KAFKA-12331")
def control_batch_at_zero(patches: Patches) -> None:
    """A control batch is written with base offset 0 instead of the log end."""
    def append_control(log: Any, records: Sequence[ControlRecord], epoch: int, _now_ms: int) -> int:
        batch = log._contents.encode(0, epoch, tuple(records), log.chain)
        log._write(batch)
        return int(batch.end_offset)

    patches.put(SimLog, "append_control", append_control)


@REPLICATION.add(7, "KAFKA-16530")
def removed_leader_counts_itself(patches: Patches) -> None:
    """The high watermark counts a leader that is not a voter any more."""
    def around(original: Update) -> Update:
        def update(replica: Replica, leader: Leader) -> None:
            original(replica, leader)
            if not replica.voters.has(replica.config.key):
                ends = [leader.progress[key].end_offset for key in replica.voters.keys if key in leader.progress]
                committed = majority_value([replica.flushed, *ends])
                if committed > leader.epoch_start:
                    leader.is_established = True
                    replica.advance_high_watermark(committed)

        return update

    patches.wrap(leading, "_update_high_watermark", around)


@REPLICATION.add(22, "KAFKA-13959")
def idle_leader_keeps_the_high_watermark(patches: Patches) -> None:
    """A parked Fetch is answered for new records only. The high watermark is sent with the next answer, or late."""
    def has_news(replica: Replica, _leader: Leader, request: FetchRequest) -> bool:
        return request.fetch_offset != replica.log.end.offset

    patches.put(leading, "_has_news", has_news)


@REPLICATION.add(19, "KAFKA-14222")
def snapshots_must_fit_into_one_answer(patches: Patches) -> None:
    """A snapshot that is larger than one answer is not served."""
    def around(original: Callable[[Replica, FetchSnapshotRequest], FetchSnapshotResponse],
               ) -> Callable[[Replica, FetchSnapshotRequest], FetchSnapshotResponse]:
        def part_for(replica: Replica, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
            answer = original(replica, request)
            if answer.size <= request.max_bytes:
                return answer
            return FetchSnapshotResponse(error=ErrorCode.SNAPSHOT_NOT_FOUND, snapshot=request.snapshot)

        return part_for

    patches.wrap(leading, "part_for", around)


@REPLICATION.add(0, "KAFKA-14704")
def diverging_records_are_committed(patches: Patches) -> None:
    """A follower raises its high watermark before it truncates diverging records."""
    def around(original: Callable[[Replica, Follower, FetchResponse], None],
               ) -> Callable[[Replica, Follower, FetchResponse], None]:
        def take(replica: Replica, role: Follower, answer: FetchResponse) -> None:
            if answer.diverging is not None:
                replica.advance_high_watermark(replica.log.end.offset)
            original(replica, role, answer)

        return take

    patches.wrap(following, "_take", around)


@REPLICATION.add(0, "KAFKA-13207")
def diverging_fetch_acknowledges(patches: Patches) -> None:
    """A leader accepts the offset of a Fetch although the log before it diverges."""
    def around(original: Callable[[Replica, FetchRequest], FetchResponse | None],
               ) -> Callable[[Replica, FetchRequest], FetchResponse | None]:
        def disagreement(replica: Replica, request: FetchRequest) -> FetchResponse | None:
            answer = original(replica, request)
            return None if answer is not None and answer.snapshot is None else answer

        return disagreement

    patches.wrap(leading, "_disagreement", around)
