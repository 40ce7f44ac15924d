"""Periodic work of the active controller: preferred elections, unclean ones where a topic allows them, and the removal
of expired delegation tokens."""

from collections.abc import Callable, Generator
from typing import Final

from kraft.controller.decision import UNCLEAN_LEADER_ELECTION, Context, ControllerSettings, Decision
from kraft.controller.delegation_tokens import remove_expired
from kraft.controller.elections import elect_preferred, elect_unclean
from kraft.deadlines import NEVER_MS
from kraft.metadata.snapshot import Record
from kraft.protocol.messages.config_record import ConfigRecord


class Round:
    """One kind of work. `interval_ms` 0: never."""

    def __init__(self, decide: Callable[[Context], Generator[None, None, Decision[bool]]], interval_ms: int):
        self.decide = decide
        self.interval_ms = interval_ms
        self.due_ms = NEVER_MS

    def begin(self, now_ms: int) -> None:
        """Schedule the next round an interval from now."""
        self.due_ms = now_ms + self.interval_ms if self.interval_ms else NEVER_MS

    def hold(self, context: Context) -> Generator[None, None, Decision[bool]]:
        """Decide what is due, in steps. Its amount is limited; when more remains, it is due at once."""
        decision = yield from self.decide(context)
        self.begin(context.now_ms)
        if decision.response and decision.records:
            self.due_ms = context.now_ms
        return decision


class Rounds:
    """All kinds of periodic work."""

    def __init__(self, settings: ControllerSettings):
        self._preferred = Round(elect_preferred, settings.balance_interval_ms)
        self._unclean = Round(elect_unclean, settings.unclean_interval_ms)
        tokens = Round(remove_expired, settings.token_sweep_ms if settings.token_secret else 0)
        self.all: Final = (self._preferred, self._unclean, tokens)

    @property
    def due_ms(self) -> int:
        return min(each.due_ms for each in self.all)

    def begin(self, now_ms: int) -> None:
        """Schedule all of them: the controller became active."""
        for each in self.all:
            each.begin(now_ms)

    def look(self, record: Record, now_ms: int) -> None:
        """Inspect a decided record: one that changes the permission of unclean elections makes the unclean round due at
        once."""
        if isinstance(record.message, ConfigRecord) and record.message.name == UNCLEAN_LEADER_ELECTION:
            self._unclean.due_ms = now_ms
