"""Names, particulars and reasons of events, as entries of the flight recorder have them."""

from collections.abc import Mapping
from typing import Final

from kraft.raft import events
from kraft.raft.events import ChangeReason, Event, SnapshotLoss, VoteRefusal

Particulars = tuple[tuple[str, object], ...]

COMMITS: Final = "commits"
"""Name of the most frequent event."""
FENCES: Final = "fences"

REASONS: Final[Mapping[VoteRefusal | ChangeReason | SnapshotLoss, str]] = {
    VoteRefusal.SHORTER_LOG: "the log here ends at {}",
    VoteRefusal.HAS_LEADER: "{} leads",
    VoteRefusal.HAS_VOTED: "voted for {}",
    VoteRefusal.ROLE: "is {}",
    ChangeReason.REMOVAL: "requested to remove {}",
    ChangeReason.ADDITION: "requested to add {}, which has caught up",
    ChangeReason.REPORT: "{} reports its address and versions",
    ChangeReason.OWN_ADDRESS: "its own address or versions are others",
    ChangeReason.TARGETS: "requested: {}",
    ChangeReason.TARGETS_CANCELLED: "requested to end the reassignment",
    ChangeReason.STEP: "the reassignment's next step: {}",
    SnapshotLoss.REFUSED: "error {}",
    SnapshotLoss.TOO_OLD: "it is older than what is committed here",
    SnapshotLoss.UNUSABLE: "{}",
}


def text_of(event: Event) -> str:
    """Return the event in one line."""
    return joined(*described(event))


def joined(what: str, particulars: Particulars) -> str:
    return " ".join([what, *(f"{name}={value}" for name, value in particulars)])


def described(event: Event) -> tuple[str, Particulars]:
    """Return the name of the event and its particulars. Those that are None are left out."""
    what, particulars = _named(event)
    return what, tuple((name, value) for name, value in particulars if value is not None)


def _named(event: Event) -> tuple[str, Particulars]:
    match event:
        case events.Committed(high_watermark, leader, by):
            return COMMITS, (("hw", high_watermark), ("leader", leader), ("by", by))
        case events.Started(role, epoch, end, voters):
            return "started", (("role", role), ("epoch", epoch), ("end", end), ("voters", voters))
        case events.RoleChanged(role, epoch, leader, cause, source):
            return "becomes", (("role", role), ("epoch", epoch), ("leader", leader), ("because", cause.value),
                               ("source", source))
        case events.Voted(candidate, epoch, end):
            return "votes", (("candidate", candidate), ("epoch", epoch),
                             ("because", f"its log does not end before {end}, as the one here does"))
        case events.VoteAnswered(candidate, epoch, end, pre_vote, refusal, detail):
            return "answers pre-vote" if pre_vote else "answers vote", (
                ("candidate", candidate), ("epoch", epoch), ("end", end), ("granted", event.granted),
                ("because", None if refusal is None else REASONS[refusal].format(detail)))
    return _named_of_voters(event) or _named_of_log(event)


def _named_of_voters(event: Event) -> tuple[str, Particulars] | None:
    match event:
        case events.VotersWritten(ChangeReason.TARGETS as reason, tuple(targets)):
            return "changes voters", (("because", REASONS[reason].format(", ".join(map(str, targets)))),)
        case events.VotersWritten(reason, detail):
            return "changes voters", (("because", REASONS[reason].format(detail)),)
        case events.VotersApplied(offset, version, voters, leader):
            return "voters", (("offset", offset), ("kraft", version), ("voters", voters), ("leader", leader))
        case events.VotersReverted(version, voters):
            return "voters", (("reverted", True), ("kraft", version), ("voters", voters))
        case events.VoterChangeRefused(error, text):
            return "refuses voter change", (("error", error.name), ("why", text))
        case events.LeadershipHandedOver():
            return "hands over", (("because", "only the leader is left to be removed"),)
        case events.MajorityLost(epoch):
            return "loses majority", (("epoch", epoch),)
        case events.ConnectionLost(leader):
            return "loses its connection", (("leader", leader),)
        case events.LeaderRefused(leader, epoch, known):
            return "refuses leader", (("leader", leader), ("epoch", epoch), ("known", known))
        case events.VersionRaised(version):
            return "upgrades", (("kraft", version),)
    return None


def _named_of_log(event: Event) -> tuple[str, Particulars]:
    match event:
        case events.LogTruncated(to, end):
            return "truncates", (("to", to), ("end", end))
        case events.LogTrimmed(start):
            return "trims", (("start", start),)
        case events.SnapshotRequested(snapshot):
            return "fetches snapshot", (("snapshot", snapshot),)
        case events.SnapshotGivenUp(snapshot, loss, detail):
            return "gives up snapshot", (("snapshot", snapshot), ("why", REASONS[loss].format(detail)))
        case events.SnapshotInstalled(snapshot, voters):
            return "installed", (("snapshot", snapshot), ("voters", voters))
        case events.RecordsRefused(error):
            return "refuses records", (("error", error),)
        case events.DivergenceRefused(at, end):
            return "refuses divergence", (("at", at), ("end", end))
    raise AssertionError(f"an event without a name: {event}")
