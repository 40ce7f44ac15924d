"""Names, particulars and reasons of events of in-sync replicas, as entries of the flight recorder have them."""

from collections.abc import Mapping
from typing import Any, Final

from kraft.broker.isr_events import (
    IsrDecided,
    IsrEvent,
    IsrProposed,
    IsrRefused,
    IsrUnanswered,
    ProposalReason,
    ProposalWithheld,
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


def described(event: IsrEvent) -> tuple[str, dict[str, Any]]:
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
    raise AssertionError(f"an event without a name: {event}")
