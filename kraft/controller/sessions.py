"""When each broker was last heard of, and whether there is doubt that it lives: soft state of the active controller
(Kafka's `BrokerHeartbeatManager`, and what it has not: a broker whose process ended is noticed before its session is
over).

    alive --- connection closed --> in doubt --- probed at once, and every 25 ms within the grace --> refused: fenced
      |  ^------- a heartbeat ----------'                             when the grace is over --> no answer: fenced
      |                                                                                      accepted: session decides
      '------ new controller ------> in doubt --- probed as above --> refused: fenced
                                                                     no answer, accepted: session decides

It is not in the log. A new active controller, and one that was paused itself, counts every broker as just heard of,
because its own silence proves nothing about theirs.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

NEVER_MS: Final = (1 << 63) - 1
PROBE_INTERVAL_MS: Final = 25
"""Between two probes of a broker whose connection closed. A process that is being ended closes its listeners a moment
after its connections, and until then they accept."""


class Doubt(Enum):
    """Why a broker may be gone, for the log."""

    CLOSED = "its connection to the controller was closed"
    UNHEARD = "it did not speak to the new controller"


class Found(Enum):
    """What came of connecting to a broker, for the log. A refused connection is proof that no process listens there."""

    GONE = "its address refuses connections"
    SILENT = "its address does not answer"
    THERE = "its address accepts connections"


@dataclass(slots=True)
class BrokerSession:
    """`metadata_offset`: how far the broker has replayed. `shutdown_offset`: what the others must have replayed before
    it may go; -1 while it is not shutting down. `probe_ms`: when a broker in doubt is to be probed."""

    last_contact_ms: int
    metadata_offset: int = -1
    shutdown_offset: int = -1
    doubt: Doubt | None = None
    doubt_ms: int = NEVER_MS
    probe_ms: int = NEVER_MS


class BrokerSessions:
    """The brokers heard of, by id. Ids are looked up and compared, never used to order anything but time.

    `timeout_ms`: of a session. `grace_ms`: in which a broker in doubt may speak before it is probed.
    """

    def __init__(self, timeout_ms: int, grace_ms: int):
        self.timeout_ms = timeout_ms
        self.grace_ms = grace_ms
        self.by_id: dict[int, BrokerSession] = {}

    def contact(self, broker_id: int, now_ms: int, metadata_offset: int = -1) -> BrokerSession:
        """Notes that the broker spoke. A `metadata_offset` of -1 keeps what was known."""
        session = self.by_id.get(broker_id)
        if session is None:
            session = self.by_id[broker_id] = BrokerSession(now_ms)
        session.last_contact_ms = now_ms
        session.metadata_offset = max(session.metadata_offset, metadata_offset)
        session.doubt, session.doubt_ms, session.probe_ms = None, NEVER_MS, NEVER_MS
        return session

    def restart(self, broker_id: int, now_ms: int) -> None:
        """A new incarnation: nothing of the old one counts."""
        self.by_id[broker_id] = BrokerSession(now_ms)

    def forget(self, broker_id: int) -> None:
        self.by_id.pop(broker_id, None)

    def renew_all(self, now_ms: int) -> None:
        """The controller itself was silent: every session and every grace begins again."""
        for session in self.by_id.values():
            session.last_contact_ms = now_ms
            if session.doubt is not None:
                session.doubt_ms = session.probe_ms = now_ms

    def valid(self, broker_id: int, now_ms: int) -> bool:
        """Whether the broker was heard of within the session time-out."""
        session = self.by_id.get(broker_id)
        return session is not None and now_ms - session.last_contact_ms < self.timeout_ms

    def holds(self, broker_id: int, now_ms: int) -> bool:
        """Whether the broker keeps another process from taking its place: its session lasts, and it is not in doubt for
        longer than the grace."""
        return self.valid(broker_id, now_ms) and now_ms - self.by_id[broker_id].doubt_ms < self.grace_ms

    # --- doubt

    def doubt(self, broker_id: int, doubt: Doubt, now_ms: int) -> None:
        """The broker may have ended: it is probed at once."""
        session = self.by_id.get(broker_id)
        if session is not None:
            session.doubt, session.doubt_ms, session.probe_ms = doubt, now_ms, now_ms

    def take_probes(self, now_ms: int) -> list[int]:
        """The brokers that are to be probed now. Each is told once."""
        due = [broker_id for broker_id, session in self.by_id.items() if session.probe_ms <= now_ms]
        for broker_id in due:
            self.by_id[broker_id].probe_ms = NEVER_MS
        return due

    def probed(self, broker_id: int, found: Found, now_ms: int) -> Doubt | None:
        """Notes the result of a probe. Returns the doubt when it was right: the broker has ended.

        A refused connection proves it. No answer proves nothing; after a closed connection it counts once the grace is
        over, because the broker did not come back either. Within the grace the broker is probed again.
        """
        session = self.by_id.get(broker_id)
        if session is None or session.doubt is None:
            return None
        if found is Found.GONE:
            return session.doubt
        end_ms = session.doubt_ms + self.grace_ms
        if now_ms < end_ms:
            session.probe_ms = min(now_ms + PROBE_INTERVAL_MS, end_ms)
            return None
        return session.doubt if found is Found.SILENT and session.doubt is Doubt.CLOSED else None

    def due_ms(self, broker_id: int) -> int:
        """When the broker is to be looked at again unless it speaks."""
        session = self.by_id[broker_id]
        return min(session.last_contact_ms + self.timeout_ms, session.probe_ms)
