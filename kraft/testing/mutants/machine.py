"""Bugs in the state machine above the core, and in the events that the core reports to it: those of the metadata
controller, and those of snapshots."""

from dataclasses import replace
from typing import Any

from kraft.raft.raft import Raft
from kraft.raft.ready import Ready
from kraft.raft.transitions import Role
from kraft.raft.types import NOBODY, OffsetAndEpoch
from kraft.testing.mutants.patches import Collection, Patches
from kraft.testing.sim.batches import next_chain
from kraft.testing.sim.node import Node

MACHINE = Collection()
SKIPPED_EVERY = 8


@MACHINE.add(8, "KAFKA-17608")
def proposals_are_not_rolled_back(patches: Patches) -> None:
    """A leader that loses the leadership keeps its uncommitted proposals in its state."""
    def around(original: Any) -> Any:
        def leadership(node: Any, now: Any) -> None:
            led = node.leads_epoch != NOBODY
            original(node, now)
            if led and node.leads_epoch == NOBODY and node.log.end.offset > node.applied:
                node.state = next_chain(node.state, node.log.batches[-1].data)

        return leadership

    patches.wrap(Node, "leadership", around)


@MACHINE.add(9, "KAFKA-17333")
def leads_before_it_has_caught_up(patches: Patches) -> None:
    """The state machine starts to lead before it has applied the log."""
    def around(original: Any) -> Any:
        return property(lambda raft: original.fget(raft)._replace(epoch_start=-1))

    patches.wrap(Raft, "leadership", around)


@MACHINE.add(14, "KAFKA-14275")
def standby_passes_over_a_record(patches: Patches) -> None:
    """A standby that fails to apply a record continues with the next."""
    def apply(node: Any, high_watermark: int) -> None:
        for batch in node.log.between(node.applied, high_watermark):
            if node.leads_epoch != NOBODY or batch.end_offset % SKIPPED_EVERY:
                node.state = next_chain(node.state, batch.data)
        node.applied = high_watermark

    patches.put(Node, "_apply", apply)


@MACHINE.add(15, "KAFKA-14618")
def snapshot_id_off_by_one(patches: Patches) -> None:
    """A snapshot's id has the last offset in it instead of the end offset."""
    def around(original: Any) -> Any:
        def snapshot_id(raft: Raft, end_offset: int) -> OffsetAndEpoch:
            found: OffsetAndEpoch = original(raft, end_offset)
            return found._replace(offset=found.offset - 1)

        return snapshot_id

    patches.wrap(Raft, "snapshot_id", around)


@MACHINE.add(16, "KAFKA-15076")
def snapshot_is_not_loaded_at_the_start(patches: Patches) -> None:
    """A state machine that starts on a log with a snapshot begins at offset 0."""
    def around(original: Any) -> Any:
        def load(node: Any, snapshot: OffsetAndEpoch) -> None:
            if node.is_up:
                original(node, snapshot)

        return load

    patches.wrap(Node, "_load", around)


@MACHINE.add(17, "KAFKA-12958")
def leader_loads_a_snapshot(patches: Patches) -> None:
    """A leader's state machine must load a snapshot although it has everything."""
    def around(original: Any) -> Any:
        def take_ready(raft: Any) -> Ready:
            ready: Ready = original(raft)
            latest = raft.replica.snapshots.latest()
            if ready.leadership is None and latest is not None and raft._reported[1].role is Role.LEADER:
                return replace(ready, installed=latest)
            return ready

        return take_ready

    patches.wrap(Raft, "take_ready", around)


@MACHINE.add(18, "KAFKA-14300")
def no_snapshot_after_a_leadership(patches: Patches) -> None:
    """A node whose leadership has ended never checks again whether a snapshot is due."""
    def around(original: Any) -> Any:
        def maybe_snapshot(node: Any) -> None:
            if node.leads_epoch != NOBODY:
                node.led_in_life = node.life
            if node.leads_epoch != NOBODY or getattr(node, "led_in_life", -1) != node.life:
                original(node)

        return maybe_snapshot

    patches.wrap(Node, "_maybe_snapshot", around)
