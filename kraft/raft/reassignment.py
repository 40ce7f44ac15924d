"""Reassignment from any set of voters to any other, by steps of one member (KIP-642, "Reassignment Algorithm"). Pure:
it computes what the leader would do next.

If two sets differ by one member, any majority of one and any majority of the other have a common voter. So each step is
safe by itself, and a reassignment may stop, change its targets, or lose its leader between any two.
"""

from collections.abc import Callable, Collection

from kraft.protocol.message import ZERO_UUID
from kraft.raft.types import ReplicaKey
from kraft.raft.voters import VoterSet
from kraft.structs import immutable


@immutable
class Add:
    """Add this voter next."""

    key: ReplicaKey

    def __str__(self) -> str:
        return f"add {self.key}"


@immutable
class Remove:
    """Remove this voter next."""

    key: ReplicaKey

    def __str__(self) -> str:
        return f"remove {self.key}"


@immutable
class HandOver:
    """Only the leader remains to be removed: it gives up, and the next leader removes it."""

    def __str__(self) -> str:
        return "hand over"


@immutable
class Done:
    """The targets are the voters, and no other node is: the targets are cleared."""

    def __str__(self) -> str:
        return "done"


@immutable
class Wait:
    """None of the voters to be added has caught up."""

    missing: tuple[ReplicaKey, ...]


Step = Add | Remove | HandOver | Done | Wait


def next_step(voters: VoterSet, leader: ReplicaKey, find_caught_up: Callable[[ReplicaKey], ReplicaKey | None],
              behind: Collection[ReplicaKey] = ()) -> Step:
    """Return the next step toward `voters.targets`, which must exist.

    `find_caught_up` returns the key, disk included, of a replica that may be added now; None when it lags or was not
    seen. Voters are added first while at least as many are to be added as removed. So the set does not shrink below
    both its first and its last size on the way. Of those to be removed, the ones that are `behind` are removed first:
    while they vote, a majority may need each of the others.
    """
    assert voters.targets is not None
    removing = [key for key in voters.keys if not any(_meets(key, target) for target in voters.targets)]
    new = [target for target in voters.targets if not any(_meets(key, target) for key in voters.keys)]
    if not removing and not new:
        return Done()
    # A node whose disk was replaced is in both lists: its old disk must be removed before the new one can be added.
    addable = [target for target in new if voters.find(target.node_id) is None]
    if addable and len(new) >= len(removing):
        found = [key for target in addable if (key := find_caught_up(target)) is not None]
        return Add(found[0]) if found else Wait(tuple(addable))
    others = [key for key in removing if not key.is_same(leader)]
    if others:
        replaced = [key for key in others if any(target.node_id == key.node_id for target in new)]
        return Remove((replaced or [key for key in others if key in behind] or others)[-1])
    return HandOver()


def _meets(key: ReplicaKey, target: ReplicaKey) -> bool:
    """Return whether a voter is the one that a target names; the zero directory means any disk."""
    return key.node_id == target.node_id and target.directory_id in (ZERO_UUID, key.directory_id)
