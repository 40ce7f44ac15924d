"""Transfer of snapshots, from a leader to a replica whose log the leader's log cannot continue.

Both sides are here. FetchSnapshot requests bytes from a position. The replica writes them to a file that becomes a
snapshot only when it is whole, and only then replaces its log.
"""

from kraft.protocol.error_codes import ErrorCode
from kraft.raft.events import SnapshotGivenUp, SnapshotLoss
from kraft.raft.messages import FetchSnapshotRequest, FetchSnapshotResponse, Lost, Response
from kraft.raft.replica import Replica
from kraft.raft.roles import Download, Follower
from kraft_native.base.errors import ProtocolError


def request_part(replica: Replica, download: Download) -> None:
    """Request the next part from the leader."""
    replica.send(replica.leader_id, FetchSnapshotRequest(
        cluster_id=replica.cluster_id, replica=replica.config.key, epoch=replica.epoch, snapshot=download.snapshot,
        position=download.position, max_bytes=replica.config.fetch_snapshot_max_bytes))


def handle_snapshot_answer(
    replica: Replica, node_id: int, request: FetchSnapshotRequest, answer: Response | Lost
) -> None:
    """Process a part. If anything is wrong with it, the replica starts over with a Fetch, whose answer names the
    current snapshot."""
    role = replica.role
    if not isinstance(role, Follower) or request.epoch != replica.epoch or node_id != replica.leader_id:
        return
    download = role.download
    if download is None or request.snapshot != download.snapshot or isinstance(answer, Lost):
        replica.requests.back_off(node_id, replica.now_ms)
        return
    if not isinstance(answer, FetchSnapshotResponse) or not _fits(download, answer):
        _give_up(replica, role, SnapshotLoss.REFUSED, answer.error.name)
        return
    replica.note_leader_contact(role)
    replica.snapshots.append(answer.data)
    download.position += len(answer.data)
    download.size = answer.size
    if download.is_whole:
        install(replica, role, download)


def _fits(download: Download, answer: FetchSnapshotResponse) -> bool:
    """Return whether the answer continues the part received so far. It must not be empty, or the exchange would
    continue indefinitely."""
    return (answer.error is ErrorCode.NONE and answer.snapshot == download.snapshot
            and answer.position == download.position and len(answer.data) > 0
            and download.position + len(answer.data) <= answer.size
            and download.size in (-1, answer.size))


def install(replica: Replica, role: Follower, download: Download) -> bool:
    """Replace the log by a snapshot that is whole, or give it up. Return False while it is being checked."""
    if download.snapshot.offset < replica.high_watermark:
        _give_up(replica, role, SnapshotLoss.TOO_OLD)
        return True
    try:
        if not replica.snapshots.install():
            return False
    except ProtocolError as error:
        _give_up(replica, role, SnapshotLoss.UNUSABLE, str(error))
        return True
    role.download = None
    replica.replaced_by_snapshot(download.snapshot)
    return True


def _give_up(replica: Replica, role: Follower, loss: SnapshotLoss, detail: object = None) -> None:
    replica.note(SnapshotGivenUp(role.download.snapshot if role.download else None, loss, detail))
    replica.snapshots.abandon()
    role.download = None
    replica.requests.back_off(replica.leader_id, replica.now_ms)


def part_for(replica: Replica, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
    """Return the leader's answer; the sender has been checked already."""
    max_bytes = min(request.max_bytes, replica.config.fetch_snapshot_max_bytes)
    part = replica.snapshots.read(request.snapshot, request.position, max_bytes)
    if part is None:
        return FetchSnapshotResponse(error=ErrorCode.SNAPSHOT_NOT_FOUND, snapshot=request.snapshot)
    if not 0 <= request.position < part.size:
        return FetchSnapshotResponse(error=ErrorCode.POSITION_OUT_OF_RANGE, snapshot=request.snapshot)
    return FetchSnapshotResponse(
        snapshot=request.snapshot, size=part.size, position=request.position, data=part.data)
