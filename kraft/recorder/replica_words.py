"""Names, particulars and reasons of events of a broker's replicas, as entries of the flight recorder have them."""

from collections.abc import Mapping
from typing import Any, Final

from kraft.broker.replica_events import (
    FetchFailed,
    IsrDecided,
    IsrProposed,
    IsrRefused,
    IsrUnanswered,
    LeaderConnected,
    LeaderLost,
    LeaderUnreachable,
    LeaderUnresponsive,
    LogCut,
    ProposalReason,
    ProposalWithheld,
    ReplicaEvent,
    WithheldReason,
)
from kraft.protocol.error_names import name_of

REASONS: Final[Mapping[ProposalReason | WithheldReason, str]] = {
    ProposalReason.CAUGHT_UP: "broker {} has everything",
    ProposalReason.LAGGING: "not all had everything at some time in the last {} ms",
    ProposalReason.RECOVERED: "the leader of an unclean election has made its log whole",
    WithheldReason.NOT_ACTIVE: "its broker is not registered, or is fenced or stopping",
    WithheldReason.OTHER_PROCESS: "its broker fetched in broker epoch {}, and the metadata has {}",
}


def described(event: ReplicaEvent) -> tuple[str, dict[str, Any]]:
    """Return the name of the event and its particulars as plain values."""
    match event:
        case IsrProposed(epoch, isr, proposed, reason, details):
            return "proposes isr", {"epoch": epoch, "isr": list(isr), "proposed": list(proposed),
                                    "because": REASONS[reason].format(*details)}
        case IsrDecided(epoch, isr):
            return "isr decided", {"epoch": epoch, "isr": list(isr)}
        case IsrRefused(epoch, proposed, error):
            return "isr refused", {"epoch": epoch, "proposed": list(proposed), "because": name_of(error)}
        case IsrUnanswered(epoch, proposed, error):
            return "isr unanswered", {"epoch": epoch, "proposed": list(proposed), "because": name_of(error)}
        case ProposalWithheld(epoch, replica, reason, details):
            return "does not propose", {"epoch": epoch, "replica": replica, "because": REASONS[reason].format(*details)}
    return _described_of_follower(event)


def _described_of_follower(event: ReplicaEvent) -> tuple[str, dict[str, Any]]:
    match event:
        case LeaderConnected(address):
            return "connects", {"address": address}
        case LeaderUnreachable(None):
            return "cannot connect", {"because": "it is not registered, or not with the listener of brokers"}
        case LeaderUnreachable(address, cause):
            return "cannot connect", {"address": address, "because": repr(cause)}
        case LeaderLost():
            return "loses connection", {}
        case LeaderUnresponsive(timeout_ms):
            return "gets no answer", {"because": f"no answer for {timeout_ms} ms"}
        case FetchFailed(leader, error, cause):
            return "fetch fails", {"leader": leader, "because": str(cause or name_of(error))}
        case LogCut(before, end, because):
            return "truncates", {"end": before, "to": end, "because": because}
    raise AssertionError(f"an event without a name: {event}")
