"""Every event of a broker's replicas has a name, and every reason has words for its details."""

import pytest

from kraft.broker import replica_events
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
from kraft.protocol.error_codes import ErrorCode
from kraft.recorder.replica_words import described

CODE = ErrorCode.INELIGIBLE_REPLICA
EVENTS: list[tuple[ReplicaEvent, str, dict[str, object]]] = [
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
    (LeaderConnected("h:1"), "connects", {"address": "h:1"}),
    (LeaderUnreachable(), "cannot connect", {"because": "it is not registered, or not with the listener of brokers"}),
    (LeaderUnreachable("h:1", OSError("refused")), "cannot connect",
     {"address": "h:1", "because": "OSError('refused')"}),
    (LeaderLost(), "loses connection", {}),
    (LeaderUnresponsive(500), "gets no answer", {"because": "no answer for 500 ms"}),
    (FetchFailed(2, CODE), "fetch fails", {"leader": 2, "because": "INELIGIBLE_REPLICA"}),
    (FetchFailed(2, 0, ValueError("x")), "fetch fails", {"leader": 2, "because": "x"}),
    (LogCut(9, 4, "it differs"), "truncates", {"end": 9, "to": 4, "because": "it differs"}),
]


@pytest.mark.parametrize(("event", "what", "values"), EVENTS)
def test_events_in_words(event: ReplicaEvent, what: str, values: dict[str, object]) -> None:
    assert described(event) == (what, values)


def test_all_events_are_tried() -> None:
    assert {type(event) for event, _, _ in EVENTS} == {
        kind for kind in vars(replica_events).values()
        if isinstance(kind, type) and issubclass(kind, ReplicaEvent) and kind is not ReplicaEvent}
    reasons = {event.reason for event, _, _ in EVENTS if isinstance(event, IsrProposed | ProposalWithheld)}
    assert reasons == {*ProposalReason, *WithheldReason}
