"""Last contact of each broker, and doubts whether it is alive: soft state of the active controller.

This is Kafka's `BrokerHeartbeatManager` with an addition: a broker whose process ended is detected before its session
ends.

    alive --- connection closed --> in doubt --- probed at once, and every 25 ms within the grace --> refused: fenced
      |  ^------- a heartbeat ----------'                             when the grace is over --> no answer: fenced
      |                                                                                      accepted: session decides
      '------ new controller ------> in doubt --- probed as above --> refused: fenced
                                                                     no answer, accepted: session decides

This state is not in the log. A new active controller, and one that was paused itself, treats every broker as just
contacted, because its own pause proves nothing about the brokers.
"""

from enum import Enum
from typing import Final

from kraft.deadlines import NEVER_MS
from kraft.structs import mutable

PROBE_INTERVAL_MS: Final = 25
"""Time between two probes of a broker whose connection closed. A process that is being ended closes its listeners a
moment after its connections, and until then they accept."""


class Doubt(Enum):
    """Reason why a broker may have ended, for the log."""

    CLOSED = "its connection to the controller was closed"
    NO_CONTACT = "it did not speak to the new controller"


class Found(Enum):
    """Result of connecting to a broker, for the log. A refused connection is proof that no process listens there."""

    REFUSED = "its address refuses connections"
    UNANSWERED = "its address does not answer"
    ACCEPTED = "its address accepts connections"


@mutable
class BrokerSession:
    """Session of one broker.

    - `metadata_offset`: its replay progress.
    - `shutdown_offset`: the offset that the others must have replayed before it may end; -1 while it is not shutting
      down.
    - `probe_ms`: the time of the next probe of a broker in doubt.
    """

    last_contact_ms: int
    metadata_offset: int = -1
    shutdown_offset: int = -1
    doubt: Doubt | None = None
    doubt_ms: int = NEVER_MS
    probe_ms: int = NEVER_MS


class BrokerSessions:
    """Sessions of the known brokers, by id. Ids are only used for lookup and comparison; only time orders sessions.

    `timeout_ms`: of a session. `grace_ms`: the length of a doubt after which an unanswered probe fences the broker, or
    another process may take its place.
    """

    def __init__(self, timeout_ms: int, grace_ms: int):
        self.timeout_ms = timeout_ms
        self.grace_ms = grace_ms
        self.by_id: dict[int, BrokerSession] = {}

    def contact(self, broker_id: int, now_ms: int, metadata_offset: int = -1) -> BrokerSession:
        """Note a contact of the broker. A `metadata_offset` of -1 keeps the known one."""
        session = self.by_id.get(broker_id)
        if session is None:
            session = self.by_id[broker_id] = BrokerSession(now_ms)
        session.last_contact_ms = now_ms
        session.metadata_offset = max(session.metadata_offset, metadata_offset)
        session.doubt, session.doubt_ms, session.probe_ms = None, NEVER_MS, NEVER_MS
        return session

    def restart(self, broker_id: int, now_ms: int) -> None:
        """Begin the session of a new incarnation: nothing of the old one applies."""
        self.by_id[broker_id] = BrokerSession(now_ms)

    def forget(self, broker_id: int) -> None:
        self.by_id.pop(broker_id, None)

    def renew_all(self, now_ms: int) -> None:
        """Restart every session and every grace: the controller itself was paused."""
        for session in self.by_id.values():
            session.last_contact_ms = now_ms
            if session.doubt is not None:
                session.doubt_ms = session.probe_ms = now_ms

    def valid(self, broker_id: int, now_ms: int) -> bool:
        """Return whether the last contact of the broker is within the session time-out."""
        session = self.by_id.get(broker_id)
        return session is not None and now_ms - session.last_contact_ms < self.timeout_ms

    def holds(self, broker_id: int, now_ms: int) -> bool:
        """Return whether the broker keeps another process from taking its place: its session lasts, and it is not in
        doubt for longer than the grace."""
        return self.valid(broker_id, now_ms) and now_ms - self.by_id[broker_id].doubt_ms < self.grace_ms

    # --- doubt

    def doubt(self, broker_id: int, doubt: Doubt, now_ms: int) -> None:
        """Note that the broker may have ended: it is probed at once."""
        session = self.by_id.get(broker_id)
        if session is not None:
            session.doubt, session.doubt_ms, session.probe_ms = doubt, now_ms, now_ms

    def take_probes(self, now_ms: int) -> list[int]:
        """Return the brokers to probe now, each once."""
        due = [broker_id for broker_id, session in self.by_id.items() if session.probe_ms <= now_ms]
        for broker_id in due:
            self.by_id[broker_id].probe_ms = NEVER_MS
        return due

    def probed(self, broker_id: int, found: Found, now_ms: int) -> Doubt | None:
        """Note the result of a probe. Return the doubt when it was right: the broker has ended.

        A refused connection proves it. No answer proves nothing. After a closed connection, however, no answer is
        decisive once the grace is over, because the broker did not come back either. Within the grace the broker is
        probed again.
        """
        session = self.by_id.get(broker_id)
        if session is None or session.doubt is None:
            return None
        if found is Found.REFUSED:
            return session.doubt
        end_ms = session.doubt_ms + self.grace_ms
        if now_ms < end_ms:
            session.probe_ms = min(now_ms + PROBE_INTERVAL_MS, end_ms)
            return None
        return session.doubt if found is Found.UNANSWERED and session.doubt is Doubt.CLOSED else None

    def due_ms(self, broker_id: int) -> int:
        """Time of the next check of the broker unless it sends a heartbeat."""
        session = self.by_id[broker_id]
        return min(session.last_contact_ms + self.timeout_ms, session.probe_ms)
