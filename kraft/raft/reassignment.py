"""From any set of voters to any other by steps of one member (KIP-642, "Reassignment Algorithm"). Pure: what the leader
would do next.

Two sets that differ by one member have in every two majorities a common voter, so each step is safe by itself, and a
reassignment may stop, change its mind, or lose its leader between any two.
"""

from collections.abc import Callable, Collection

from kraft.immutable import immutable
from kraft.protocol.message import ZERO_UUID
from kraft.raft.types import ReplicaKey
from kraft.raft.voters import VoterSet


@immutable
class Add:
    """The next voter."""

    key: ReplicaKey

    def __str__(self) -> str:
        return f"add {self.key}"


@immutable
class Remove:
    """The next one to go."""

    key: ReplicaKey

    def __str__(self) -> str:
        return f"remove {self.key}"


@immutable
class HandOver:
    """Only the leader is left to be removed: it gives up, and the next leader removes it."""

    def __str__(self) -> str:
        return "hand over"


@immutable
class Done:
    """The targets vote, and nobody else: the targets are cleared."""

    def __str__(self) -> str:
        return "done"


@immutable
class Wait:
    """Nobody is to be added that has caught up."""

    missing: tuple[ReplicaKey, ...]


Step = Add | Remove | HandOver | Done | Wait


def next_step(voters: VoterSet, leader: ReplicaKey, find_caught_up: Callable[[ReplicaKey], ReplicaKey | None],
              behind: Collection[ReplicaKey] = ()) -> Step:
    """The next step toward `voters.targets`, which are there.

    `find_caught_up` gives the key, disk included, of a replica that may be added now, None when it lags or was not
    seen. Voters are added first while there are at least as many new ones as old ones to go, so that the set does not
    shrink below both of its ends on the way. Of those to go, the ones that are `behind` go first: while they vote, a
    majority may need each of the others.
    """
    assert voters.targets is not None
    removing = [key for key in voters.keys if not any(_meets(key, target) for target in voters.targets)]
    new = [target for target in voters.targets if not any(_meets(key, target) for key in voters.keys)]
    if not removing and not new:
        return Done()
    # A node whose disk was replaced is both: its old disk has to leave before the new one can come.
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
    """Whether a voter is what a target asks for; the zero directory asks for any disk."""
    return key.node_id == target.node_id and target.directory_id in (ZERO_UUID, key.directory_id)
