"""Kinds of events that `kraft.audit.events` selects from, and the topic that holds events."""

from typing import Final

FAILED_LOGINS: Final = "failed-logins"
LOGINS: Final = "logins"
DENIALS: Final = "denials"
CHANGES: Final = "changes"
DATA: Final = "data"
KINDS: Final = (FAILED_LOGINS, LOGINS, DENIALS, CHANGES, DATA)
AUDIT_TOPIC: Final = "__kraft_audit"
