"""State of a replica, as values: read from its core while it runs, or derived from its entries afterwards."""

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from kraft.raft.pending import pending_change
from kraft.raft.raft import Raft
from kraft.raft.replica import Replica
from kraft.raft.roles import Candidate, Follower, Leader, Prospective
from kraft.raft.types import NOBODY
from kraft.recorder.entry import STATE, Entry, voter_values
from kraft.structs import mutable


def state_values(raft: Raft) -> dict[str, Any]:
    """Return everything about a replica that explains what it does and waits for. Times are ages in milliseconds."""
    replica, role = raft.replica, raft.replica.role
    values: dict[str, Any] = {
        "role": str(role.role), "disk": str(replica.config.key), "is_voter": replica.is_voter, "epoch": replica.epoch,
        "leader": replica.leader_id, "voted": None if replica.voted is None else str(replica.voted),
        "end": str(replica.log.end), "flushed": replica.flushed, "hw": replica.high_watermark,
        "start": replica.log.start_offset, "kraft": replica.history.latest.kraft_version,
        **voter_values(replica.voters),
    }
    match role:
        case Leader():
            values |= _leader_values(replica, role)
        case Prospective() | Candidate():
            values |= {
                "granting": list(role.tally.granting), "unanswered": list(role.tally.unanswered),
                "refusing": [node_id for node_id, granted in role.tally.answers.items() if not granted]}
        case Follower() if role.download is not None:
            values["download"] = f"{role.download.snapshot}: {role.download.position} of {role.download.size} bytes"
    return values


def _leader_values(replica: Replica, role: Leader) -> dict[str, Any]:
    pending = pending_change(replica)
    values: dict[str, Any] = {
        "is_established": role.is_established,
        "progress": [
            {"disk": str(key), "end": each.end_offset, "fetched_ms": _ago(replica, each.fetch_ms),
             "caught_up_ms": _ago(replica, each.caught_up_ms)} for key, each in role.progress.items()]}
    if pending is not None:
        values["pending"] = pending._asdict()
    return values


def _ago(replica: Replica, time_ms: int) -> int:
    return -1 if time_ms < 0 else replica.now_ms - time_ms


@mutable
class NodeState:
    """State of one node, derived from its entries. `values` are those of `state_values`, as far as they are known.

    - `role_ms`: since when it has its role, and `because` why; -1 and empty when the entries do not reach back so far.
    - `last_ms`: the time of the last entry.
    - `number`: of the last `state` entry, -1 without one.
    """

    node_id: int
    values: dict[str, Any] = field(default_factory=dict)
    role_ms: float = -1
    because: str = ""
    last_ms: float = -1
    number: int = -1

    @property
    def role(self) -> str:
        return str(self.values.get("role", "unknown"))

    @property
    def epoch(self) -> int:
        return int(self.values.get("epoch", 0))

    @property
    def leader_id(self) -> int:
        return int(self.values.get("leader", NOBODY))

    @property
    def end_offset(self) -> int:
        return int(str(self.values.get("end", "0@0")).partition("@")[0])

    @property
    def voters(self) -> list[str]:
        return list(self.values.get("voters", ()))

    def take(self, entry: Entry) -> None:
        """Apply the next entry of the node."""
        values = entry.values
        self.last_ms = max(entry.time_ms, entry.until_ms)
        if entry.what == STATE:
            self.values = dict(values)
            self.number = entry.number
            return
        if entry.what in ("started", "becomes"):
            if entry.what == "started":
                self.values.clear()
            self.values["leader"] = NOBODY
            self.role_ms, self.because = entry.time_ms, str(values.get("because", "it started"))
        names = _REPORTED.get(entry.what, ())
        self.values |= {name: values[name] for name in names if name in values}
        if entry.what == "voters":
            self.values.pop("targets", None)
        if "voters" in names and "targets" in values:
            self.values["targets"] = values["targets"]
        if entry.what == "votes":
            self.values["voted"] = values.get("candidate")


_REPORTED: Mapping[str, tuple[str, ...]] = {
    "started": ("role", "epoch", "end", "voters"),
    "becomes": ("role", "epoch", "leader"),
    "votes": ("epoch",),
    "commits": ("hw",),
    "voters": ("voters", "kraft"),
    "installed": ("voters",),
}
"""Particulars of an entry that become part of the replica's state."""


def states_of(entries: Iterable[Entry]) -> dict[int, NodeState]:
    """Return the last state of every node, by its id; `entries` must be in the order of time."""
    states: dict[int, NodeState] = {}
    for entry in entries:
        states.setdefault(entry.node_id, NodeState(entry.node_id)).take(entry)
    return states
