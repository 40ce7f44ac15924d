"""Time without commits when a quorum's leader ends: from the signal to the first commit of the next leader."""

from __future__ import annotations

import signal
import statistics
import time
from pathlib import Path
from typing import Final

from bench.commit.quorums import KraftQuorum
from bench.table import Row

ELECTION_TIMEOUT_MS: Final = 1000
KILLED_P50_MS: Final = 1.5 * ELECTION_TIMEOUT_MS
KILLED_MAX_MS: Final = 2000
STOPPED_MS: Final = 100


def handovers(quorum: KraftQuorum, number: signal.Signals, times: int) -> list[float]:
    """End the leader that many times, and start it again each time; return the times in milliseconds."""
    taken = []
    for _ in range(times):
        old = quorum.leader
        began = time.monotonic()
        old.signal(number)
        taken.append((quorum.await_leader()["at"] - began) * 1e3)
        old.await_end()
        old.launch()
        quorum.await_event("follows", old.node_id)
    return taken


def rows(home: Path, kills: int) -> list[Row]:
    """Measure with a controller's default time-outs: 1 s for elections, 2 s for fetches."""
    quorum = KraftQuorum(home / "failover", 3)
    try:
        quorum.start()
        killed = handovers(quorum, signal.SIGKILL, kills)
        stopped = handovers(quorum, signal.SIGTERM, max(1, kills // 5))
    finally:
        quorum.stop()
    return [
        Row(f"kill -9 of the leader to the next commit, median of {len(killed)}", "ms", statistics.median(killed),
            target=KILLED_P50_MS, relative=False, better="less"),
        Row(f"kill -9 of the leader to the next commit, longest of {len(killed)}", "ms", max(killed),
            target=KILLED_MAX_MS, relative=False, better="less"),
        Row(f"graceful stop of the leader to the next commit, longest of {len(stopped)}", "ms", max(stopped),
            target=STOPPED_MS, relative=False, better="less"),
    ]
