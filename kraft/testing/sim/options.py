"""What one run is like. Every knob is drawn from the seed (swarm testing): a run with few faults of one kind finds what
a run with all of them hides."""

from dataclasses import dataclass, fields
from random import Random
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class SimOptions:
    """Times are milliseconds of virtual time; probabilities are of one message or one moment; an interval of 0 means
    never."""

    voters: int = 3
    observers: int = 1
    safety_ms: int = 60_000                 # with faults
    healing_ms: int = 45_000                # without: everything must come together
    latency_ms: int = 5                     # of a message, at most
    loss: float = 0.0
    duplicates: float = 0.0
    told_losses: float = 0.5                # of the losses that the asking side hears of
    flush_ms: int = 2                       # of a flush or of quorum-state, at most
    slow_flushes: float = 0.0               # that take up to 15 seconds
    crash_interval_ms: int = 0              # between crashes, on average
    down_ms: int = 2_000                    # for which a node is down, at most
    lost_writes: float = 0.5                # crashes that lose all that is not durable; others lose a part
    cut_interval_ms: int = 0                # between partitions
    cut_ms: int = 4_000                     # for which one lasts, at most
    one_way_cuts: float = 0.3
    pause_interval_ms: int = 0              # between pauses of one process
    pause_ms: int = 3_000
    clock_skew: float = 0.0                 # by which a clock runs faster or slower, at most
    proposal_interval_ms: int = 50
    snapshot_interval_ms: int = 0           # between snapshots of some node
    voter_change_interval_ms: int = 0
    resign_interval_ms: int = 0
    fetch_bytes: int = 800                  # of records or of a snapshot in one answer

    @classmethod
    def draw(cls, random: Random) -> Self:
        """A swarm member. Every fault is absent in some runs."""

        def sometimes(*values: int) -> int:
            return random.choice((0, *values))

        def rate(*values: float) -> float:
            return random.choice((0.0, *values))

        proposal_interval_ms = random.choice((5, 50, 500))
        return cls(
            voters=random.choice((1, 2, 3, 3, 3, 4, 5, 5)),
            observers=random.choice((0, 1, 2, 3)),
            latency_ms=random.choice((1, 5, 30, 200)),
            loss=rate(0.01, 0.05, 0.2),
            duplicates=rate(0.02, 0.2),
            told_losses=random.choice((0.0, 0.5, 1.0)),
            flush_ms=random.choice((1, 2, 20, 400)),
            slow_flushes=rate(0.001, 0.02),
            crash_interval_ms=sometimes(1_000, 4_000, 15_000),
            down_ms=random.choice((50, 2_000, 10_000)),
            lost_writes=random.choice((0.0, 0.5, 1.0)),
            cut_interval_ms=sometimes(1_500, 6_000, 15_000),
            cut_ms=random.choice((200, 4_000, 15_000)),
            one_way_cuts=random.choice((0.0, 0.3, 1.0)),
            pause_interval_ms=sometimes(3_000, 10_000),
            clock_skew=rate(0.01, 0.3),
            proposal_interval_ms=proposal_interval_ms,
            snapshot_interval_ms=sometimes(500, 5_000),
            voter_change_interval_ms=sometimes(500, 3_000, 10_000),
            resign_interval_ms=sometimes(5_000),
            fetch_bytes=random.choice((100, 800, 100_000)) if proposal_interval_ms > 5 else 100_000,
        )

    def __str__(self) -> str:
        return " ".join(f"{each.name}={getattr(self, each.name)}" for each in fields(self))
