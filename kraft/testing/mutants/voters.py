"""Bugs in changes of the voters, and in the identification of disks."""

from typing import Any

from kraft.raft import membership, raft
from kraft.raft.messages import UpdateVoterRequest
from kraft.raft.replica import Replica
from kraft.raft.roles import Leader, VoterChange
from kraft.raft.types import ReplicaKey
from kraft.raft.voters import VoterHistory, VoterSet
from kraft.testing.mutants.patches import Collection, Patches

VOTERS = Collection()


@VOTERS.add(24, "KAFKA-19400")
def update_waits_for_its_commit(patches: Patches) -> None:
    """A voter that announces its address is answered only when that record is committed. Until then it does not fetch,
    so the record is not committed."""
    handlers: Any = raft.REQUEST_HANDLERS
    original = handlers[UpdateVoterRequest]

    def handle(replica: Replica, source: int, correlation: int, request: UpdateVoterRequest) -> None:
        end_offset = replica.log.end.offset
        original(replica, source, correlation, request)
        if replica.log.end.offset > end_offset and isinstance(replica.role, Leader) and replica.role.change is None:
            replica.outbox.pop()
            replica.role.change = VoterChange(
                source, correlation, replica.now_ms + 10 * replica.config.request_timeout_ms, offset=end_offset)

    patches.entry(handlers, UpdateVoterRequest, handle)


@VOTERS.add(27, "a wiped disk")
def disks_are_not_distinguished(patches: Patches) -> None:
    """A node that returns with an empty disk is treated as the voter that it was."""
    patches.put(ReplicaKey, "is_same", lambda mine, other: mine.node_id == other.node_id)
    patches.put(VoterSet, "has", lambda voters, key: voters.find(key.node_id) is not None)
    patches.put(Replica, "is_me", lambda replica, key: key.node_id in (-1, replica.config.node_id))


@VOTERS.add(0, "Ongaro, raft-dev 2015")
def change_before_own_epoch(patches: Patches) -> None:
    """A leader changes the voters before a record of its own epoch is committed, or while another change is
    uncommitted."""
    def around(original: Any) -> Any:
        def refusal(replica: Replica, request: Any, epoch: int) -> Any:
            found = original(replica, request, epoch)
            return None if found is not None and isinstance(replica.role, Leader) else found

        return refusal

    patches.wrap(membership, "_refusal", around)


@VOTERS.add(0, "KIP-642: one at a time")
def two_changes_at_a_time(patches: Patches) -> None:
    """An uncommitted change does not block the next."""
    patches.put(membership, "is_settled", lambda _replica: True)


@VOTERS.add(0, "KIP-642: revert")
def voters_survive_truncation(patches: Patches) -> None:
    """Voters whose record was truncated from the log still count."""
    patches.put(VoterHistory, "truncate", lambda _history, _end_offset: None)


@VOTERS.add(0, "KIP-642: from the moment it is appended")
def voters_count_when_committed(patches: Patches) -> None:
    """A change of the voters takes effect only when it is committed."""
    patches.put(Replica, "voters", property(
        lambda replica: replica.history.before(max(1, replica.high_watermark)).voters))
