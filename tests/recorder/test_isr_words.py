"""Every event of in-sync replicas has a name, and every reason has words for its details."""

import pytest

from kraft.broker import isr_events
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
from kraft.protocol.error_codes import ErrorCode
from kraft.recorder.isr_words import described

CODE = ErrorCode.INELIGIBLE_REPLICA
EVENTS: list[tuple[IsrEvent, str, dict[str, object]]] = [
    (IsrProposed(3, (1,), (1, 2), ProposalReason.CAUGHT_UP, (2,)), "proposes isr",
     {"epoch": 3, "isr": [1], "proposed": [1, 2], "because": "broker 2 has everything"}),
    (IsrProposed(3, (1, 2), (1,), ProposalReason.LAGGING, (500,)), "proposes isr",
     {"epoch": 3, "isr": [1, 2], "proposed": [1],
      "because": "not all had everything at some time in the last 500 ms"}),
    (IsrProposed(3, (1,), (1,), ProposalReason.RECOVERED), "proposes isr",
     {"epoch": 3, "isr": [1], "proposed": [1],
      "because": "the leader of an unclean election has made its log whole"}),
    (IsrDecided(3, (1, 2)), "isr decided", {"epoch": 3, "isr": [1, 2]}),
    (IsrRefused(3, (1, 2), CODE), "isr refused", {"epoch": 3, "proposed": [1, 2], "because": "INELIGIBLE_REPLICA"}),
    (IsrUnanswered(3, (1, 2), CODE), "isr unanswered",
     {"epoch": 3, "proposed": [1, 2], "because": "INELIGIBLE_REPLICA"}),
    (ProposalWithheld(3, 2, WithheldReason.NOT_ACTIVE), "does not propose",
     {"epoch": 3, "replica": 2, "because": "its broker is not registered, or is fenced or stopping"}),
    (ProposalWithheld(3, 2, WithheldReason.OTHER_PROCESS, (4, 5)), "does not propose",
     {"epoch": 3, "replica": 2, "because": "its broker fetched in broker epoch 4, and the metadata has 5"}),
]


@pytest.mark.parametrize(("event", "what", "values"), EVENTS)
def test_events_in_words(event: IsrEvent, what: str, values: dict[str, object]) -> None:
    assert described(event) == (what, values)


def test_all_events_are_tried() -> None:
    assert {type(event) for event, _, _ in EVENTS} == {
        kind for kind in vars(isr_events).values()
        if isinstance(kind, type) and issubclass(kind, IsrEvent) and kind is not IsrEvent}
    reasons = {event.reason for event, _, _ in EVENTS if isinstance(event, IsrProposed | ProposalWithheld)}
    assert reasons == {*ProposalReason, *WithheldReason}
