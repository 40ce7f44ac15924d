"""Bugs in the states of share partitions, applied to the real code of the share coordinator."""

from typing import Any, Final

from kraft.broker.share_state import coordinator
from kraft.broker.share_state.shard import ShareStateShard
from kraft.testing.mutants.patches import Collection, Patches

SHARE_STATES = Collection()

LEADERS: Final[dict[str, int | bool]] = {"share": 4, "transactions": 1, "readers": 0, "quiet_seconds": 0, "phases": 1,
                                         "transaction_every_ms": 20}


@SHARE_STATES.add(0, "missing rule", **LEADERS)
def new_leader_of_a_share_partition_is_not_written(patches: Patches) -> None:
    """A read by a new leader does not write its epoch, so the previous leader still writes."""
    def around(original: Any) -> Any:
        def read(self: ShareStateShard, key: Any, leader_epoch: int) -> Any:
            return original(self, key, -1 if key in self.states else leader_epoch)

        return read

    patches.wrap(ShareStateShard, "read", around)


@SHARE_STATES.add(0, "unsafe order", kill_every_ms=1500, **LEADERS)
def share_state_is_acknowledged_before_its_commit(patches: Patches) -> None:
    """The answer to a write does not wait for the followers."""
    def around(original: Any) -> Any:
        def write(state: ShareStateShard, key: Any, data: Any) -> None:
            original(state, key, data)
            state.shard.committed(state.shard.end_offset)

        return write

    patches.wrap(coordinator, "_write", around)


@SHARE_STATES.add(0, "missing rule", **LEADERS)
def snapshot_of_a_share_state_lacks_its_updates(patches: Patches) -> None:
    """A snapshot has only what the last write adds."""
    def around(original: Any) -> Any:
        def advance(self: ShareStateShard, key: Any, state: Any, leader_epoch: int, start_offset: int, count: int,
                    batches: Any) -> None:
            if state.updates >= self.environment.config.updates_per_snapshot:
                state.batches.clear()
            original(self, key, state, leader_epoch, start_offset, count, batches)

        return advance

    patches.wrap(ShareStateShard, "_advance", around)
