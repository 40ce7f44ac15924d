"""When each broker was last heard of: soft state of the active controller (Kafka's `BrokerHeartbeatManager`).

It is not in the log. A new active controller, and one that was paused itself, counts every broker as just heard of,
because its own silence proves nothing about theirs.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class BrokerSession:
    """`metadata_offset`: how far the broker has replayed. `shutdown_offset`: what the others must have replayed before
    it may go; -1 while it is not shutting down."""

    last_contact_ms: int
    metadata_offset: int = -1
    shutdown_offset: int = -1


class BrokerSessions:
    """The brokers heard of, by id. Ids are looked up and compared, never used to order anything but time."""

    def __init__(self, timeout_ms: int):
        self.timeout_ms = timeout_ms
        self.by_id: dict[int, BrokerSession] = {}

    def contact(self, broker_id: int, now_ms: int, metadata_offset: int = -1) -> BrokerSession:
        """Notes that the broker spoke. A `metadata_offset` of -1 keeps what was known."""
        session = self.by_id.get(broker_id)
        if session is None:
            session = self.by_id[broker_id] = BrokerSession(now_ms)
        session.last_contact_ms = now_ms
        session.metadata_offset = max(session.metadata_offset, metadata_offset)
        return session

    def restart(self, broker_id: int, now_ms: int) -> None:
        """A new incarnation: nothing of the old one counts."""
        self.by_id[broker_id] = BrokerSession(now_ms)

    def forget(self, broker_id: int) -> None:
        self.by_id.pop(broker_id, None)

    def renew_all(self, now_ms: int) -> None:
        for session in self.by_id.values():
            session.last_contact_ms = now_ms

    def valid(self, broker_id: int, now_ms: int) -> bool:
        """Whether the broker was heard of within the session time-out."""
        session = self.by_id.get(broker_id)
        return session is not None and now_ms - session.last_contact_ms < self.timeout_ms

    def expires_at_ms(self, broker_id: int) -> int:
        return self.by_id[broker_id].last_contact_ms + self.timeout_ms
