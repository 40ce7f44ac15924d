"""Bugs in the order of writes, flushes and messages, and in the files that outlive a process."""

from dataclasses import replace
from random import Random
from typing import Any

from kraft.raft.raft import Raft
from kraft.raft.ready import FollowLease, HardState, OutgoingRequest, Ready
from kraft.raft.replica import Replica
from kraft.runtime.quorum.raft_driver import RaftDriver
from kraft.testing.mutants.patches import Collection, Patches
from kraft.testing.sim.disk import Disk, QuorumStateFile
from kraft.testing.sim.flusher import Flusher
from kraft.testing.sim.peer_sender import PeerSender

DURABILITY = Collection()


@DURABILITY.add(3, "KAFKA-10533")
def nothing_is_flushed(patches: Patches) -> None:
    """Appended records count as durable, and are never flushed."""
    patches.shadow(Replica, "flushed", property(lambda replica: replica.log.end.offset, lambda _replica, _offset: None))
    patches.put(Flusher, "flush_soon", lambda _flusher: None)


@DURABILITY.add(0, "raft-and-fsync: follower, before it answers")
def follower_acknowledges_unflushed(patches: Patches) -> None:
    """A follower's next Fetch leaves before its last append is flushed."""
    def next_flush(raft: Any) -> int | None:
        if raft.replica.flushed < raft.replica.log.end.offset and raft._flushing is None:
            raft._flushing = raft.replica.log.end.offset
            return int(raft._flushing)
        return None

    patches.put(Raft, "_next_flush", next_flush)
    patches.put(Replica, "is_durable", property(lambda _replica: True))


@DURABILITY.add(0, "raft-and-fsync: leader, before it counts itself")
def leader_counts_unflushed(patches: Patches) -> None:
    """A leader counts itself up to its log end, flushed or not."""
    from kraft.raft import leading

    def around(original: Any) -> Any:
        def update(replica: Replica, leader: Any) -> None:
            flushed, replica.flushed = replica.flushed, replica.log.end.offset
            original(replica, leader)
            replica.flushed = flushed

        return update

    patches.wrap(leading, "_update_high_watermark", around)


@DURABILITY.add(0, "hard state, before messages")
def vote_leaves_before_it_is_durable(patches: Patches) -> None:
    """Messages do not wait until the quorum-state that they depend on is durable."""
    def carry_out(driver: RaftDriver, ready: Ready, *, is_iteration: bool) -> None:
        original(driver, replace(ready, hard_state=None), is_iteration=is_iteration)
        original(driver, Ready(hard_state=ready.hard_state), is_iteration=is_iteration)

    original: Any = vars(RaftDriver)["_carry_out"]
    patches.put(RaftDriver, "_carry_out", carry_out)


@DURABILITY.add(0, "a flush is reported by its end")
def flushes_are_reported_early(patches: Patches) -> None:
    """The driver reports the awaited flush as complete without a check how far it has got."""
    def settle(driver: Any) -> None:
        driver._revoke()
        end_offset, driver._flushing = driver._flushing, None
        if end_offset is not None:
            driver.raft.log_flushed(end_offset, driver._clock())

    patches.put(RaftDriver, "_settle", settle)


@DURABILITY.add(0, "what is sent ahead acknowledges")
def fetch_ahead_leaves_early(patches: Patches) -> None:
    """The Fetch that the flusher's thread sends does not wait for the end of the flush."""
    def send_when_durable(flusher: Any, _end_offset: int, _fd: int, _message: bytes) -> bool:
        flusher._host.send(flusher._send)
        return True

    patches.put(Flusher, "send_when_durable", send_when_durable)


@DURABILITY.add(0, "a lease is revoked before any event")
def lease_is_not_revoked(patches: Patches) -> None:
    """The driver reports events to a core that has leased the leader."""
    patches.put(RaftDriver, "_revoke", lambda _driver: None)


@DURABILITY.add(0, "a revoked lease has ended")
def follower_outlives_its_lease(patches: Patches) -> None:
    """The core has its lease back, and the leader's next answers are appended without it nevertheless."""
    def unfollow(sender: Any, lease: FollowLease, outstanding: OutgoingRequest | None) -> None:
        followed = sender._followed
        original(sender, lease, outstanding)
        if outstanding is not None and followed is not None and sender._follower.begin(lease.from_offset, None):
            sender._lease, sender._followed = lease, outstanding.correlation

    original: Any = vars(PeerSender)["unfollow"]
    patches.put(PeerSender, "unfollow", unfollow)


@DURABILITY.add(20, "KAFKA-15412")
def unknown_quorum_state_is_ignored(patches: Patches) -> None:
    """A quorum-state of a later release is treated as missing."""
    def around(original: Any) -> Any:
        return lambda file: HardState() if file.is_newer else original(file)

    patches.wrap(QuorumStateFile, "read", around)


@DURABILITY.add(0, "quorum-state, of which bits have flipped")
def damaged_quorum_state_is_ignored(patches: Patches) -> None:
    """A quorum-state that cannot be read is treated as missing."""
    def around(original: Any) -> Any:
        return lambda file: HardState() if file.is_damaged else original(file)

    patches.wrap(QuorumStateFile, "read", around)


@DURABILITY.add(21, "temporary file is not flushed before it is renamed")
def empty_quorum_state(patches: Patches) -> None:
    """An empty quorum-state, which a loss of power may leave, is treated as missing."""
    def lose_power(file: QuorumStateFile, random: Random) -> None:
        if file.pending is not None and random.random() < 0.5:
            file.durable = None
        file.pending = None

    patches.put(QuorumStateFile, "lose_power", lose_power)


@DURABILITY.add(21, "directory is not flushed after the rename")
def rename_may_vanish(patches: Patches) -> None:
    """The new quorum-state takes effect before the directory that names it is flushed."""
    patches.put(QuorumStateFile, "finish", lambda _file: None)


@DURABILITY.add(0, "fsyncgate")
def failed_flush_is_tried_again(patches: Patches) -> None:
    """A failed flush is retried, and the second time there is nothing left to write."""
    def around(original: Any) -> Any:
        def flush(disk: Any, mark: int) -> None:
            if disk.fail_flush:
                disk.fail_flush = False
                count = max(0, mark - disk._applied)
                del disk._pending[:count]
                disk._applied = max(mark, disk._applied)
            original(disk, mark)

        return flush

    patches.wrap(Disk, "flush", around)
