"""Common parts of the members of groups: their coordinator, what they own, and the offsets that they commit.

A member processes no real records: it counts. Its position in a partition begins at the committed offset.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, TypeVar
from uuid import UUID

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.error_names import name_of
from kraft.protocol.message import Message
from kraft.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kraft.protocol.messages.offset_commit_response import OffsetCommitResponse
from kraft.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kraft.protocol.messages.offset_fetch_response import OffsetFetchResponse
from kraft.testing.brokers.groups.ledger import Commit, Key, Ledger
from kraft.testing.brokers.node import BrokerNode
from kraft.testing.brokers.transactional.clients import ELSEWHERE, GROUP, Around, AsyncClient
from kraft.testing.brokers.wire import Connection
from kraft.testing.sim.violation import ViolationError

Found = TypeVar("Found", bound=Message)
Place = tuple[UUID, int]
"""Id of a topic, and a partition of it."""

BY_ID: Final = 10
BY_NAME: Final = 9
"""Versions of OffsetCommit and OffsetFetch that name topics so."""
SLACK_SECONDS: Final = 0.15
"""Time for which a broker may work on a request that has arrived."""
MARGIN_SECONDS: Final = 0.02
"""Inaccuracy of time-outs."""
STEP_MAX: Final = 4

UNAVAILABLE: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
"""Errors of a coordinator that does not serve, or did not in time."""
UNDECIDED: Final = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
"""Errors after which the records of the request may be in the log nevertheless."""
REFUSED_FETCHES: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND)
REFUSED_COMMITS: Final = (
    ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNSUPPORTED_VERSION,
)


@dataclass(slots=True)
class Floating:
    """A request without an answer, which may still take effect. `epoch`: that of a heartbeat, None for others.
    `over`: the time at which it can no longer; below zero while that is unknown."""

    connection: Connection
    epoch: int | None
    over: float = -1.0


@dataclass(slots=True, eq=False)
class Setting:
    """Surroundings of the members of one group. `leader_of(group)` is the broker that leads the group's partition of
    `__consumer_offsets`, and its leader epoch. `is_known(topic_id)`: the topic exists.
    `cooperates`: its members of the classic protocol do."""

    group: str
    ledger: Ledger
    around: Around
    leader_of: Callable[[str], tuple[int, int]]
    is_known: Callable[[UUID], bool]
    topic_names: Callable[[], list[str]]
    cooperates: bool


class Member(AsyncClient):
    """One process of a group. `is_over`: it has ended. `epoch` is that of the member, or its generation."""

    protocol = ""

    def __init__(self, number: int, setting: Setting, random: Random, instance_id: str | None,
                 topics: Sequence[str]) -> None:
        super().__init__(number, setting.around, random)
        self.setting = setting
        self.instance_id = instance_id
        self.topics = list(topics)
        self.member_id = ""
        self.epoch = 0
        self.owned: dict[Place, None] = {}
        self.positions: dict[Place, int] = {}
        self.is_joined = False
        self.is_steady = False
        self.hangs_ms = 0
        self.leaves = False
        self._floating: list[Floating] = []
        self._commits: list[tuple[Commit, Floating]] = []
        self._renewed = self._clean = 0.0
        self._misread_at = -1.0
        self._last_sent = 0.0
        self._sends_heartbeat = False
        self._last_counts = False

    @property
    def name(self) -> str:
        return f"{self.protocol} member {self.id} of {self.setting.group}"

    @property
    def now(self) -> float:
        return self._around.seconds

    # --- what it may do -----------------------------------------------------------------------------------------------

    @property
    def is_entitled(self) -> bool:
        """True while no coordinator may have removed this member, or taken its partitions for given up.

        The coordinator got the last answered heartbeat no earlier than it was sent. So the session lasts at least a
        session time-out from then. The time to give up partitions begins after the last heartbeat that left none to be
        given up, and lasts a rebalance time-out.

        A heartbeat without an answer may arrive late, and leave out the partitions that the member got since. The next
        answer shows what that has led to. No rule holds where clocks go wrong.
        """
        options = self.options
        if options.skew_ppm or options.jump_every_ms or self.is_over or self._is_misread:
            return False
        if self._misread_at > self._clean:
            return False
        end = min(self._renewed + options.group_session_ms / 1000, self._clean + options.group_rebalance_ms / 1000)
        return self.now < end - MARGIN_SECONDS

    @property
    def _is_misread(self) -> bool:
        """True while an old heartbeat may still be taken for a new one."""
        self._settle_floating()
        return any(each.epoch is not None and self.may_be_accepted(each.epoch) for each in self._floating)

    def may_be_accepted(self, _epoch: int) -> bool:
        """Return whether the coordinator may accept a heartbeat with that epoch now."""
        return True

    def _settle_floating(self) -> None:
        for each in self._floating:
            connection = each.connection
            target = connection.target
            is_halted = (isinstance(target, BrokerNode) and target.is_up and target.life == connection.target_life
                         and target.is_halted)
            if connection.is_under_way or is_halted:
                each.over = -1.0
            elif each.over < 0:
                each.over = self.now + SLACK_SECONDS
            if each.epoch is not None and 0 <= each.over <= self.now:
                self._misread_at = max(self._misread_at, each.over)
        for commit, floating in self._commits:
            if 0 <= floating.over <= self.now:
                self.setting.ledger.settle(commit)
        self._commits = [each for each in self._commits if not 0 <= each[1].over <= self.now]
        self._floating = [each for each in self._floating if not 0 <= each.over <= self.now]

    def abandoned(self, connection: Connection) -> None:
        self._settle_floating()
        self._floating.append(Floating(connection, self.epoch if self._sends_heartbeat else None))

    def key(self, place: Place) -> Key:
        return Key(self.setting.group, *place)

    def gain(self, place: Place) -> None:
        """Begin to process a partition."""
        if place not in self.owned and not self.is_over:
            self.owned[place] = None
            self.setting.ledger.gain(self, self.key(place))

    def lose(self, place: Place) -> None:
        """Give a partition up."""
        if place in self.owned:
            del self.owned[place]
            self.positions.pop(place, None)
            self.setting.ledger.lose(self, self.key(place))

    def lose_all(self) -> None:
        for place in list(self.owned):
            self.lose(place)

    def has_ended(self) -> bool:
        """Return `is_over`, which any other event may have changed during a pause."""
        return self.is_over

    def die(self) -> None:
        """End the process at once."""
        self.lose_all()
        self.is_over = True

    # --- requests -----------------------------------------------------------------------------------------------------

    async def send(self, request: Message, version: int, answer_type: type[Found], timeout_ms: int = 0) -> Found | None:
        """Send a request to the coordinator of the group; None without an answer. `_last_counts` is whether the broker
        that answered was the leader all the time: only then its answer is known to be up to date."""
        group = self.setting.group
        target_id = await self.coordinator(group, GROUP)
        leader = self.setting.leader_of(group)
        self._last_sent = self.now
        answer = await self.query(target_id, request, version, answer_type, "group", timeout_ms)
        if answer is None:
            self._coordinators.pop((group, GROUP), None)
        self._last_counts = leader[0] == target_id and leader == self.setting.leader_of(group)
        return answer

    def note(self, api: str, error: int) -> None:
        """Count an error, and find the coordinator again when it moved."""
        if error:
            self.count(f"{api}: {name_of(error)}")
        if error in ELSEWHERE:
            self._coordinators.pop((self.setting.group, GROUP), None)

    def unexpected(self, api: str, error: int) -> ViolationError:
        """Return the violation NoUnexpectedError: no member does anything that deserves this error."""
        return ViolationError("NoUnexpectedError", f"{self.name} got {name_of(error)} from {api}")

    def renew(self, *, is_clean: bool) -> None:
        """Note that the last request was answered with success; `is_clean`: the member has nothing to give up."""
        if self._last_counts:
            self._renewed = max(self._renewed, self._last_sent)
            if is_clean:
                self._clean = max(self._clean, self._last_sent)

    # --- offsets ------------------------------------------------------------------------------------------------------

    def process(self) -> None:
        """Process some records of each partition whose position is known."""
        for place in self.positions:
            self.positions[place] += self._random.randrange(STEP_MAX)

    def named(self, places: Iterable[Place]) -> dict[UUID, tuple[str, list[int]]]:
        """Return the partitions by topic, with the topics' names, as far as some broker knows them."""
        image = self.image()
        found: dict[UUID, tuple[str, list[int]]] = {}
        for topic_id, index in places:
            topic = None if image is None else image.topics.get(topic_id)
            if topic is not None:
                found.setdefault(topic_id, (topic.name, []))[1].append(index)
        return found

    def _version(self) -> int:
        """Return the version of OffsetCommit and OffsetFetch: by id where a name may get another meaning."""
        return BY_ID if self.options.group_topic_every_ms or self.happens(500) else BY_NAME

    async def read_positions(self) -> None:
        """Read the committed offsets of the partitions whose position is unknown."""
        wanted = self.named([place for place in self.owned if place not in self.positions])
        if not wanted:
            return
        version = self._version()
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(
            group_id=self.setting.group, member_id=self.member_id if self.names_epochs else None,
            member_epoch=self.epoch if self.names_epochs else -1, topics=[
                OffsetFetchRequestTopics(name="" if version == BY_ID else name, partition_indexes=indexes,
                                         topic_id=topic_id if version == BY_ID else UUID(int=0))
                for topic_id, (name, indexes) in wanted.items()])])
        answer = await self.send(request, version, OffsetFetchResponse)
        counts, sent = self._last_counts, self._last_sent
        if answer is None:
            return
        group = answer.groups[0]
        self.note("OffsetFetch", group.error_code)
        if group.error_code not in (ErrorCode.NONE, *UNAVAILABLE, *REFUSED_FETCHES):
            raise self.unexpected("OffsetFetch", group.error_code)
        for topic in () if group.error_code else group.topics:
            topic_id = topic.topic_id if version == BY_ID else _id_of(wanted, topic.name)
            for part in topic.partitions:
                self.note("OffsetFetch", part.error_code)
                if part.error_code or not self.setting.is_known(topic_id):
                    continue
                place = topic_id, part.partition_index
                if counts:
                    self.setting.ledger.read(self.key(place), part.committed_offset, part.metadata or "", sent)
                if place in self.owned:
                    self.positions[place] = max(0, part.committed_offset)

    @property
    def names_epochs(self) -> bool:
        """True when OffsetFetch names the member and its epoch."""
        return False

    async def commit(self) -> None:
        """Commit the positions of the partitions that the member has."""
        positions = {place: self.positions[place] for place in self.owned if place in self.positions}
        names = self.named(positions)
        if not names:
            return
        version = self._version()
        ledger = self.setting.ledger
        commits = {(topic_id, index): ledger.commit(self, self.key((topic_id, index)), positions[topic_id, index])
                   for topic_id, (_, indexes) in names.items() for index in indexes}
        request = OffsetCommitRequest(
            group_id=self.setting.group, member_id=self.member_id, group_instance_id=self.instance_id,
            generation_id_or_member_epoch=self.epoch, topics=[
                OffsetCommitRequestTopic(name="" if version == BY_ID else name,
                                         topic_id=topic_id if version == BY_ID else UUID(int=0), partitions=[
                    OffsetCommitRequestPartition(partition_index=index,
                                                 committed_offset=commits[topic_id, index].offset,
                                                 committed_metadata=str(commits[topic_id, index].number))
                    for index in indexes]) for topic_id, (name, indexes) in names.items()])
        floating = len(self._floating)
        answer = await self.send(request, version, OffsetCommitResponse)
        if answer is None:
            if len(self._floating) > floating:
                self._commits += [(each, self._floating[-1]) for each in commits.values()]
            else:
                for each in commits.values():
                    ledger.settle(each)
            return
        for topic in answer.topics:
            topic_id = topic.topic_id if version == BY_ID else _id_of(names, topic.name)
            for part in topic.partitions:
                place = topic_id, part.partition_index
                self._committed(place, commits[place], part.error_code)

    def _committed(self, place: Place, commit: Commit, error: int) -> None:
        self.note("OffsetCommit", error)
        ledger = self.setting.ledger
        if not error:
            ledger.acknowledge(self.key(place), commit)
        elif error in REFUSED_COMMITS or error in UNDECIDED:
            ledger.answer(commit, is_refused=error in REFUSED_COMMITS)
        else:
            raise self.unexpected("OffsetCommit", error)


def _id_of(named: Mapping[UUID, tuple[str, list[int]]], name: str) -> UUID:
    """Return the id of a topic of a request."""
    return next(topic_id for topic_id, (each, _) in named.items() if each == name)
