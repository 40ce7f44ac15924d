"""Members of the classic protocol, whose leader assigns.

An eager member gives up everything before it joins again. A cooperative one keeps what it has, and says so when it
joins. After the assignment it gives up what it lost, and joins again; only then another member gets that (KIP-429).
"""

from collections.abc import Sequence
from random import Random
from typing import Final
from uuid import UUID

from kraft.metadata.image import MetadataImage
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from kraft.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kraft.protocol.messages.consumer_protocol_subscription import TopicPartition as OwnedPartition
from kraft.protocol.messages.heartbeat_request import HeartbeatRequest
from kraft.protocol.messages.heartbeat_response import HeartbeatResponse
from kraft.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kraft.protocol.messages.join_group_response import JoinGroupResponse
from kraft.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kraft.protocol.messages.leave_group_response import LeaveGroupResponse
from kraft.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from kraft.protocol.messages.sync_group_response import SyncGroupResponse
from kraft.testing.brokers.groups.members import UNAVAILABLE, Member, Place, Setting
from kraft.testing.brokers.transactional.clients import GROUP

JOIN_VERSION: Final = 9
SYNC_VERSION: Final = 5
HEARTBEAT_VERSION: Final = 4
LEAVE_VERSION: Final = 5
FORM: Final = 3
"""Version of subscriptions and assignments."""
EAGER: Final = "range"
COOPERATIVE: Final = "cooperative-sticky"
TYPE: Final = "consumer"
PATIENCE: Final = 3
"""Rebalance time-outs for which a member waits for the answer to JoinGroup or SyncGroup."""
NO_GENERATION: Final = -1

Shape = tuple[UUID, int] | None
"""Id of a topic, and the number of its partitions; None without one."""

REJOIN: Final = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)
REFUSED: Final = (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.GROUP_ID_NOT_FOUND)
"""Errors of a join that succeeds when the members of the other protocol have left."""


class ClassicMember(Member):
    """A member of the classic protocol."""

    protocol = "classic"

    def __init__(self, number: int, setting: Setting, random: Random, instance_id: str | None,
                 topics: Sequence[str]) -> None:
        super().__init__(number, setting, random, instance_id, topics)
        self.epoch = NO_GENERATION
        self._protocol = COOPERATIVE if setting.cooperates else EAGER
        self._assigned_topics: dict[str, Shape] | None = None
        """Topics as they were when this member assigned them; None when it does not lead."""

    @property
    def is_entitled(self) -> bool:
        """Return whether the member still has its partitions: see `Member`. An assignment names topics, so a topic that
        was created again is taken for the one before it."""
        return super().is_entitled and not self.options.group_topic_every_ms

    @property
    def subscribed(self) -> list[str]:
        """Names of the topics that it subscribes to."""
        return self.topics

    def begin(self) -> None:
        self.start(self._work())

    async def _work(self) -> None:
        while not self.is_over:
            if self.hangs_ms:
                hangs_ms, self.hangs_ms = self.hangs_ms, 0
                await self.pause(hangs_ms)
                if self.happens(700):
                    await self.commit()
            if self.leaves:
                await self._leave()
            elif not self.is_joined:
                await self._join()
                if not self.is_joined:
                    await self.pause()
            else:
                await self._beat()
                self.process()
                await self.read_positions()
                if not self.is_steady and self.happens(self.options.commit_per_mille):
                    await self.commit()
                await self.pause(self.options.heartbeat_ms)

    def _rejoin(self, error: int) -> None:
        """Join again: as a new member when the coordinator does not know this one. Give everything up, unless the
        member cooperates and was not fenced."""
        if error == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        if error != ErrorCode.REBALANCE_IN_PROGRESS:
            self.count("members fenced")
            self.epoch = NO_GENERATION
        if error != ErrorCode.REBALANCE_IN_PROGRESS or self._protocol == EAGER:
            self.lose_all()
        self.is_joined = False

    def _failed(self, api: str, error: int) -> None:
        """React to an error of any request but OffsetCommit and OffsetFetch."""
        self.note(api, error)
        if error == ErrorCode.FENCED_INSTANCE_ID and self.instance_id is not None:
            self.die()
        elif error == ErrorCode.UNKNOWN_MEMBER_ID or error in REJOIN:
            self._rejoin(error)
        elif error not in UNAVAILABLE and error not in REFUSED:
            raise self.unexpected(api, error)

    # --- joining ------------------------------------------------------------------------------------------------------

    async def _join(self) -> None:
        options = self.options
        subscription = ConsumerProtocolSubscription(
            topics=self.topics, generation_id=self.epoch, owned_partitions=[
                OwnedPartition(topic=name, partitions=indexes) for name, indexes in self.named(self.owned).values()])
        request = JoinGroupRequest(
            group_id=self.setting.group, session_timeout_ms=options.group_session_ms,
            rebalance_timeout_ms=options.group_rebalance_ms, member_id=self.member_id,
            group_instance_id=self.instance_id, protocol_type=TYPE, protocols=[JoinGroupRequestProtocol(
                name=self._protocol, metadata=FORM.to_bytes(2, "big") + subscription.encode(FORM))])
        self._sends_heartbeat = True
        self.repeat_late(await self.coordinator(self.setting.group, GROUP), request, JOIN_VERSION)
        joined = await self.send(request, JOIN_VERSION, JoinGroupResponse, PATIENCE * options.group_rebalance_ms)
        self._sends_heartbeat = False
        if joined is None or self.is_over:
            return
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
            return
        if joined.error_code != ErrorCode.NONE:
            self._failed("JoinGroup", joined.error_code)
            return
        self.member_id, self.epoch = joined.member_id, joined.generation_id
        self._assigned_topics = None
        if joined.leader != self.member_id:
            await self._sync([])
        elif joined.skip_assignment:
            await self._sync([])
            self._assigned_topics = dict.fromkeys(self.topics)      # it joins again, to assign them itself
        else:
            await self._sync(self._assigned(joined))

    async def _sync(self, assignments: list[SyncGroupRequestAssignment]) -> None:
        request = SyncGroupRequest(
            group_id=self.setting.group, generation_id=self.epoch, member_id=self.member_id,
            group_instance_id=self.instance_id, protocol_type=TYPE, protocol_name=self._protocol,
            assignments=assignments)
        synced = await self.send(request, SYNC_VERSION, SyncGroupResponse, PATIENCE * self.options.group_rebalance_ms)
        if synced is None or self.is_over:
            return
        if synced.error_code != ErrorCode.NONE:
            self._failed("SyncGroup", synced.error_code)
            return
        assigned = dict.fromkeys(self.places(synced.assignment))
        revoked = [place for place in self.owned if place not in assigned]
        self.renew(is_clean=not revoked)
        self.is_joined = not revoked
        for place in revoked:
            self.lose(place)
        for place in assigned:
            self.gain(place)

    def places(self, data: bytes) -> list[Place]:
        """Return the partitions of an assignment, with the ids that the topics have now."""
        image = self.image()
        if not data or image is None:
            return []
        found = ConsumerProtocolAssignment.decode(data[2:], int.from_bytes(data[:2], "big"))
        return [(topic_id, index) for each in found.assigned_partitions
                if (topic_id := image.topic_ids.get(each.topic)) is not None for index in each.partitions]

    def _assigned(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """Assign all partitions of the topics that members subscribe to, one after the other. One that another member
        has yet to give up is left out."""
        image = self.image()
        subscribers: dict[str, list[str]] = {}
        owners: dict[tuple[str, int], tuple[int, str]] = {}     # the latest generation, and its member
        for each in joined.members:
            said = ConsumerProtocolSubscription.decode(each.metadata[2:], int.from_bytes(each.metadata[:2], "big"))
            for topic in said.topics:
                subscribers.setdefault(topic, []).append(each.member_id)
            for owned in said.owned_partitions:
                for index in owned.partitions:
                    found = said.generation_id, each.member_id
                    owners[owned.topic, index] = max(found, owners.get((owned.topic, index), found))
        self._assigned_topics = {topic: _shape(image, topic) for topic in subscribers}
        parts: dict[str, dict[str, list[int]]] = {each.member_id: {} for each in joined.members}
        for topic, member_ids in sorted(subscribers.items()):
            shape = self._assigned_topics[topic]
            for index in range(0 if shape is None else shape[1]):
                member_id = member_ids[index % len(member_ids)]
                if owners.get((topic, index), (0, member_id))[1] == member_id:
                    parts[member_id].setdefault(topic, []).append(index)
        return [SyncGroupRequestAssignment(member_id=member_id, assignment=_written(topics))
                for member_id, topics in parts.items()]

    # --- staying and leaving ------------------------------------------------------------------------------------------

    async def _beat(self) -> None:
        request = HeartbeatRequest(group_id=self.setting.group, generation_id=self.epoch, member_id=self.member_id,
                                   group_instance_id=self.instance_id)
        answer = await self.send(request, HEARTBEAT_VERSION, HeartbeatResponse)
        if answer is None or self.is_over:
            return
        if answer.error_code == ErrorCode.NONE:
            self.renew(is_clean=True)
            if self._has_stale_topics():
                self._rejoin(ErrorCode.REBALANCE_IN_PROGRESS)
            return
        if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS and self.happens(500):
            await self.commit()
        if not self.is_over:
            self._failed("Heartbeat", answer.error_code)

    def _has_stale_topics(self) -> bool:
        """Return whether this member leads, and the topics have changed since it assigned them: then it joins again, as
        the leader of Kafka's consumers does."""
        image = self.image()
        return image is not None and self._assigned_topics is not None and any(
            _shape(image, topic) != shape for topic, shape in self._assigned_topics.items())

    async def _leave(self) -> None:
        if self.happens(500):
            await self.commit()
        self.lose_all()
        if self.member_id and self.instance_id is None:
            request = LeaveGroupRequest(group_id=self.setting.group, members=[MemberIdentity(member_id=self.member_id)])
            answer = await self.send(request, LEAVE_VERSION, LeaveGroupResponse)
            if answer is not None:
                self.note("LeaveGroup", answer.error_code)
        self.die()


def _shape(image: MetadataImage | None, name: str) -> Shape:
    topic = None if image is None else image.topic(name)
    return None if topic is None else (topic.topic_id, len(topic.partitions))


def _written(topics: dict[str, list[int]]) -> bytes:
    assignment = ConsumerProtocolAssignment(assigned_partitions=[
        TopicPartition(topic=topic, partitions=indexes) for topic, indexes in topics.items()])
    return FORM.to_bytes(2, "big") + assignment.encode(FORM)
