"""Members of the consumer protocol (KIP-848), as Kafka's consumers are: one heartbeat at a time, which says everything
after a lost answer and only what changed otherwise."""

from collections.abc import Sequence
from random import Random
from typing import Final
from uuid import UUID

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from kraft.protocol.messages.consumer_group_heartbeat_response import Assignment, ConsumerGroupHeartbeatResponse
from kraft.testing.brokers.groups.members import UNAVAILABLE, Member, Place, Setting
from kraft.testing.brokers.transactional.clients import GROUP
from kraft.testing.sim.violation import ViolationError

VERSION: Final = 1
JOINING: Final = 0
LEAVING: Final = -1
LEAVING_FOR_A_WHILE: Final = -2
FENCED: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)
REFUSED: Final = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION, ErrorCode.UNRELEASED_INSTANCE_ID)
"""Errors of a join that succeeds at some time."""
REGEX: Final = "g.*"
SLOW_PER_MILLE: Final = 100
"""Odds that a member takes long to give up partitions."""


class ConsumerMember(Member):
    """A member of the consumer protocol. `regex`: it subscribes by a regular expression instead of names."""

    protocol = "consumer"

    def __init__(self, number: int, setting: Setting, random: Random, instance_id: str | None,
                 topics: Sequence[str], *, regex: bool) -> None:
        super().__init__(number, setting, random, instance_id, topics)
        self.regex = regex
        self.member_id = str(UUID(int=random.getrandbits(127) | 1 << 127))
        self._previous_epoch = 0
        self._target: dict[Place, None] = {}
        self._slow_until = -1.0
        self._says_all = True
        self._subscription_changed = False
        self._said: tuple[Place, ...] | None = None

    @property
    def names_epochs(self) -> bool:
        return True

    @property
    def subscribed(self) -> list[str]:
        """Names of the topics that it subscribes to."""
        return self.setting.topic_names() if self.regex else self.topics

    def resubscribe(self, topics: Sequence[str]) -> None:
        """Subscribe to other topics."""
        self.topics, self._subscription_changed = list(topics), True

    def begin(self) -> None:
        self.start(self._work())

    def may_be_accepted(self, epoch: int) -> bool:
        """Return whether the coordinator may accept a heartbeat with that epoch now: a join always, others in the
        member's epoch or the one before it."""
        return epoch <= JOINING or epoch >= self._previous_epoch

    async def _work(self) -> None:
        while not self.is_over:
            if self.hangs_ms:
                await self._hang()
            if self.leaves:
                await self._leave()
                return
            await self._beat()
            if self.has_ended():
                return
            await self._give_up()
            self.process()
            await self.read_positions()
            if not self.is_steady and self.happens(self.options.commit_per_mille):
                await self.commit()
            await self.pause(self.options.heartbeat_ms)

    async def _hang(self) -> None:
        """Do nothing for a while. Then, before it learns what happened meanwhile, often commit."""
        hangs_ms, self.hangs_ms = self.hangs_ms, 0
        await self.pause(hangs_ms)
        if self.happens(700):
            await self.commit()

    # --- heartbeats ---------------------------------------------------------------------------------------------------

    async def _beat(self) -> None:
        joins = self.epoch == JOINING
        says_all = joins or self._says_all
        owned = tuple(sorted(self.owned))
        says_owned = says_all or owned != self._said
        changed, self._subscription_changed = self._subscription_changed, False
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.setting.group, member_id=self.member_id, member_epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=self.options.group_rebalance_ms if says_all else -1,
            subscribed_topic_names=([] if self.regex else self.topics) if says_all or changed else None,
            subscribed_topic_regex=(REGEX if self.regex else "") if says_all else None,
            topic_partitions=_listed(owned) if says_owned else None)
        latest = self.setting.ledger.epoch_of(self.setting.group) if joins else 0
        self._sends_heartbeat = True
        if self.repeat_late(await self.coordinator(self.setting.group, GROUP), request, VERSION):
            self.count("heartbeat repeated late")
        answer = await self.send(request, VERSION, ConsumerGroupHeartbeatResponse)
        self._sends_heartbeat = False
        if self.is_over:
            return
        if answer is None:
            self._says_all = True
            self._subscription_changed |= changed
            await self.pause()
            return
        error = answer.error_code
        self.note("ConsumerGroupHeartbeat", error)
        if error == ErrorCode.NONE:
            self._said = owned if says_owned else self._said
            self._follow(answer, latest)
            return
        self._says_all = True
        self._subscription_changed |= changed
        if joins and error == ErrorCode.FENCED_MEMBER_EPOCH:
            raise self.unexpected("ConsumerGroupHeartbeat to join", error)
        if error in FENCED:
            self._fenced()
        elif error == ErrorCode.FENCED_INSTANCE_ID and self.instance_id is not None:
            self.die()
        elif error == ErrorCode.GROUP_ID_NOT_FOUND and not joins:
            self._fenced()
        elif error not in UNAVAILABLE and error not in REFUSED:
            raise self.unexpected("ConsumerGroupHeartbeat", error)
        self.is_joined = False
        await self.pause()

    def _fenced(self) -> None:
        """Abandon everything, and join again."""
        self.count("members fenced")
        self.lose_all()
        self._target = {}
        self._previous_epoch, self.epoch, self.is_joined = 0, JOINING, False

    def _follow(self, answer: ConsumerGroupHeartbeatResponse, latest: int) -> None:
        """Accept the epoch and the assignment. `latest` is the epoch of the group that was known before a member
        joined. Check MonotonicMemberEpoch: a member's epoch never falls while it is in its group. Check
        MonotonicGroupEpoch: a member joins in an epoch that no member of the group has passed. A group that had only
        classic members meanwhile is another one."""
        if answer.member_epoch < self.epoch:
            raise ViolationError("MonotonicMemberEpoch", f"{self.name} gets epoch {answer.member_epoch} after "
                                                         f"{self.epoch}")
        if answer.member_epoch < latest and self._last_counts and not self.options.classic_per_mille:
            raise ViolationError("MonotonicGroupEpoch", f"{self.name} joins in epoch {answer.member_epoch}, others "
                                                        f"were in {latest}")
        self.setting.ledger.enter(self.setting.group, answer.member_epoch)
        if answer.member_epoch > self.epoch:
            self._previous_epoch, self.epoch = self.epoch, answer.member_epoch
        self._says_all, self.is_joined = False, True
        if answer.assignment is not None:
            self._target = _places(answer.assignment)
        self.renew(is_clean=all(place in self._target for place in self.owned))

    async def _give_up(self) -> None:
        """Give up what is not assigned any more: commit first, as consumers do. Some take long, while they send
        heartbeats. Then take what is new."""
        if any(place not in self._target for place in self.owned):
            if self._slow_until < 0:
                is_slow = self.happens(SLOW_PER_MILLE) and not self.is_steady
                self.count("members slow to give up" if is_slow else "members that give up")
                longest = 2 * self.options.group_rebalance_ms / 1000
                self._slow_until = self.now + is_slow * self._random.random() * longest
            if self.now < self._slow_until:
                return
            if self.happens(600):
                await self.commit()
        self._slow_until = -1.0
        for place in [each for each in self.owned if each not in self._target]:
            self.lose(place)
        for place in self._target:
            self.gain(place)

    async def _leave(self) -> None:
        """Commit perhaps, and leave; a static member often for a while only."""
        if self.happens(500):
            await self.commit()
        self.lose_all()
        is_static = self.instance_id is not None
        epoch = LEAVING_FOR_A_WHILE if is_static and self.happens(700) else LEAVING
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.setting.group, member_id=self.member_id, member_epoch=epoch, instance_id=self.instance_id)
        answer = await self.send(request, VERSION, ConsumerGroupHeartbeatResponse)
        if answer is not None:
            self.note("ConsumerGroupHeartbeat to leave", answer.error_code)
        self.die()


def _listed(places: Sequence[Place]) -> list[TopicPartitions]:
    found: dict[UUID, list[int]] = {}
    for topic_id, index in places:
        found.setdefault(topic_id, []).append(index)
    return [TopicPartitions(topic_id=topic_id, partitions=indexes) for topic_id, indexes in found.items()]


def _places(assignment: Assignment) -> dict[Place, None]:
    return {(each.topic_id, index): None for each in assignment.topic_partitions for index in each.partitions}
