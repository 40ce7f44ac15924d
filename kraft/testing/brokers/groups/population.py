"""Members of one group: they join, leave, die, hang and change their subscription, until the run is healed."""

from collections.abc import Callable
from random import Random
from typing import Final

from kraft.testing.brokers.groups.classic import ClassicMember
from kraft.testing.brokers.groups.consumers import ConsumerMember
from kraft.testing.brokers.groups.members import Setting
from kraft.testing.sim.options import MILLISECOND, Options

AnyMember = ConsumerMember | ClassicMember

NO_TOPICS_PER_MILLE: Final = 60
"""Odds that a member of the consumer protocol subscribes to nothing (KAFKA-16930)."""
MAY_MIX: Final = (1, 3)
"""Policies under which a group may keep members of both protocols, whichever came first."""


class Population:
    """Members of one group. `new_number` returns the number of another client, `random_of` its generator."""

    def __init__(self, setting: Setting, random: Random, new_number: Callable[[], int],
                 random_of: Callable[[int], Random]) -> None:
        self.setting = setting
        self.members: list[AnyMember] = []
        self._random = random
        self._new_number = new_number
        self._random_of = random_of
        self._is_on = True

    @property
    def group(self) -> str:
        return self.setting.group

    @property
    def alive(self) -> list[AnyMember]:
        """Members that have not ended."""
        return [each for each in self.members if not each.is_over]

    def begin(self) -> None:
        """Let the first members join, and others do something from time to time."""
        for _ in range(1 + self._random.randrange(self._options.members)):
            self._join()
        self._later()

    @property
    def _options(self) -> Options:
        return self.setting.around.options()

    def _later(self) -> None:
        mean_us = self._options.member_every_ms * MILLISECOND
        self.setting.around.loop.after(1 + int(self._random.expovariate(1 / mean_us)), self._step)

    def _step(self) -> None:
        if not self._is_on:
            return
        alive = self.alive
        if len(alive) < self._options.members and (not alive or self._random.random() < 0.5):
            self._join()
        else:
            self._disturb(self._random.choice(alive))
        self._later()

    def _happens(self, per_mille: int) -> bool:
        return self._random.randrange(1000) < per_mille

    def _topics(self, *, may_be_none: bool = False) -> list[str]:
        names = self.setting.topic_names()
        if may_be_none and self._happens(NO_TOPICS_PER_MILLE):
            return []
        return sorted(self._random.sample(names, 1 + self._random.randrange(len(names))))

    def _join(self) -> None:
        """Let a new process join, as the successor of a static one perhaps."""
        options = self._options
        used = [each.instance_id for each in self.alive]
        free = [name for place in range(options.members) if (name := f"{self.group}-{place}") not in used]
        instance_id = free[0] if free and self._happens(options.static_per_mille) else None
        number = self._new_number()
        random = self._random_of(number)
        member: AnyMember
        if self._happens(options.classic_per_mille):
            member = ClassicMember(number, self.setting, random, instance_id, self._topics())
        else:
            member = ConsumerMember(number, self.setting, random, instance_id, self._topics(may_be_none=True),
                                    regex=self._happens(options.regex_per_mille))
        self._count("members that join")
        member.is_steady = not self._is_on
        self.members.append(member)
        member.begin()

    def _disturb(self, member: AnyMember) -> None:
        kind = self._random.randrange(10)
        if kind < 3:
            self._count("members that leave")
            member.leaves = True
        elif kind < 6:
            self._count("members that die")
            member.die()
        elif kind < 8 or isinstance(member, ClassicMember) or member.regex:
            self._count("members that hang")
            member.hangs_ms = self._options.group_session_ms
        else:
            self._count("subscriptions changed")
            member.resubscribe(self._topics(may_be_none=True))

    def _count(self, name: str) -> None:
        self.setting.around.counts[name] += 1

    # --- healed -------------------------------------------------------------------------------------------------------

    def heal(self) -> None:
        """Let the members stay as they are from now on. Where the policy lets no group keep members of both protocols,
        those of one leave."""
        self._is_on = False
        kinds = {each.protocol: None for each in self.alive}
        if len(kinds) > 1 and (self._options.migration_policy not in MAY_MIX or self._happens(600)):
            kind = self._random.choice(list(kinds))
            for each in self.alive:
                each.leaves = each.protocol != kind
        for each in self.alive:
            each.is_steady = True
            each.hangs_ms = 0
        self.refill()

    def refill(self) -> None:
        """Let a member join when none is left: a static one may end because its own request, which was late, put
        another one in its place."""
        if all(each.leaves for each in self.alive):
            self._join()

    def resume(self) -> None:
        """Let the members be disturbed again, in another phase with faults."""
        self._is_on = True
        for each in self.alive:
            each.is_steady = False
        self._later()
