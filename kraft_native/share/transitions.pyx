"""The life of a record in a share group (KIP-932).

    AVAILABLE --acquire--> ACQUIRED --accept--> ACCEPTING --written--> ACKNOWLEDGED
        ^  ^                |  |  |--reject, gap--> REJECTING --written--> ARCHIVED
        |  |--expire, leave-|  |--release--> RELEASING --written--> AVAILABLE

A decided change that cannot be written goes back to ACQUIRED, with the lock that it had. A record that was delivered as
often as is allowed is archived instead of becoming available. The event ARCHIVE applies to every state that is not
terminal. Gaps are offsets without a record.
"""

STATES: tuple[str, ...] = (
    "AVAILABLE", "ACQUIRED", "ACKNOWLEDGED", "RELEASING", "ARCHIVED", "ACCEPTING", "REJECTING",
)
EVENTS: tuple[str, ...] = (
    "GAP", "ACCEPT", "RELEASE", "REJECT", "RENEW", "ACQUIRE", "EXPIRE", "LEAVE", "WRITTEN", "FAILED", "ARCHIVE",
)


def transition(int state, int event, *, bint exhausted=False) -> int:
    """Return the number of the next state; -1 when the event does not apply. Numbers are places in `STATES` and
    `EVENTS`."""
    if not 0 <= state < SHARE_STATES or not 0 <= event < SHARE_EVENTS:
        return -1
    return next_state(state, event, exhausted)
