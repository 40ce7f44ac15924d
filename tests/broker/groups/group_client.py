"""Requests of a group's client in one line each, for tests."""

import struct
from typing import Any

from kraft.broker.coordinator.shard import Producer
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.heartbeat_request import HeartbeatRequest
from kraft.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kraft.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kraft.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kraft.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kraft.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from kraft.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.broker.node import TOPICS, Node, Pending

SESSION_MS = 10_000
REBALANCE_MS = 30_000
PRODUCER = Producer(11, 3)


def subscription(*topics: str) -> bytes:
    return struct.pack(">hi", 1, len(topics)) + b"".join(
        struct.pack(">h", len(topic)) + topic.encode() for topic in topics) + bytes(8)


def join(node: Node, group: str = "g", member: str = "", *, instance: str | None = None, version: int = 9,
         protocols: dict[str, bytes] | None = None, protocol_type: str = "consumer",
         session_ms: int = SESSION_MS, rebalance_ms: int = REBALANCE_MS, client: str = "client") -> Pending:
    if protocols is None:
        protocols = {"range": subscription("orders")}
    offered = [JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols.items()]
    request = JoinGroupRequest(group_id=group, session_timeout_ms=session_ms, rebalance_timeout_ms=rebalance_ms,
                               member_id=member, group_instance_id=instance, protocol_type=protocol_type,
                               protocols=offered)
    return node.send(request, version, client)


def join_new(node: Node, group: str = "g", **options: Any) -> Pending:
    """Join as a new member, which takes two requests; return the second one with its response."""
    first = join(node, group, **options)
    assert first.response.error_code == ErrorCode.MEMBER_ID_REQUIRED
    return join(node, group, first.response.member_id, **options)


def sync(node: Node, joined: Any, group: str = "g", *, assignments: dict[str, bytes] | None = None,
         version: int = 5, **changes: Any) -> Pending:
    """Sync in the generation that the response `joined` names."""
    fields = {"group_id": group, "generation_id": joined.generation_id, "member_id": joined.member_id,
              "protocol_type": joined.protocol_type, "protocol_name": joined.protocol_name, **changes}
    assigned = [SyncGroupRequestAssignment(member_id=member, assignment=assignment)
                for member, assignment in (assignments or {}).items()]
    return node.send(SyncGroupRequest(assignments=assigned, **fields), version)


def heartbeat(node: Node, joined: Any, group: str = "g", **changes: Any) -> int:
    fields = {"group_id": group, "generation_id": joined.generation_id, "member_id": joined.member_id, **changes}
    error: int = node.call(HeartbeatRequest(**fields)).error_code
    return error


def leave(node: Node, *members: str, group: str = "g", instance: str | None = None) -> Any:
    identities = [MemberIdentity(member_id=member, group_instance_id=instance) for member in members]
    return node.call(LeaveGroupRequest(group_id=group, members=identities))


def commit(node: Node, offsets: dict[tuple[str, int], int], group: str = "g", *, member: str = "",
           generation: int = -1, version: int = 9, **changes: Any) -> Pending:
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, partition), offset in offsets.items():
        topics.setdefault(topic, []).append(OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=changes.get("metadata")))
    request = OffsetCommitRequest(
        group_id=group, generation_id_or_member_epoch=generation, member_id=member,
        group_instance_id=changes.get("instance"), retention_time_ms=changes.get("retention_ms", -1), topics=[
            OffsetCommitRequestTopic(name=topic, partitions=partitions) if version < 10 else
            OffsetCommitRequestTopic(topic_id=TOPICS[topic][0], partitions=partitions)
            for topic, partitions in topics.items()])
    return node.send(request, version)


def txn_commit(node: Node, offsets: dict[tuple[str, int], int], group: str = "g", *, producer: Producer = PRODUCER,
               member: str = "", generation: int = -1, instance: str | None = None, version: int = 5,
               metadata: str = "") -> Pending:
    topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
    for (topic, partition), offset in offsets.items():
        topics.setdefault(topic, []).append(TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=metadata))
    return node.send(TxnOffsetCommitRequest(
        transactional_id="t", group_id=group, producer_id=producer.producer_id, producer_epoch=producer.epoch,
        member_id=member, generation_id=generation, group_instance_id=instance,
        topics=[TxnOffsetCommitRequestTopic(name=name, partitions=each) for name, each in topics.items()]), version)


def errors_of(pending: Pending) -> list[int]:
    """The errors of all partitions in the response of an OffsetCommit or TxnOffsetCommit."""
    return [partition.error_code for topic in pending.response.topics for partition in topic.partitions]


def fetch(node: Node, group: str = "g", keys: list[tuple[str, int]] | None = None, *, version: int = 9,
          stable: bool = False) -> dict[tuple[str, int], int]:
    """The offsets of a group, of all partitions for None."""
    topics = None
    if keys is not None:
        topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=[partition]) for topic, partition in keys]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)],
                                 require_stable=stable)
    (answer,) = node.call(request, version).groups
    assert answer.error_code == ErrorCode.NONE, answer
    return {(topic.name, partition.partition_index): partition.committed_offset
            for topic in answer.topics for partition in topic.partitions}


def form_group(node: Node, size: int, group: str = "g", **options: Any) -> list[Any]:
    """A stable group of `size` members; their JoinGroup responses, the leader's first."""
    joined: list[Any] = []
    for _ in range(size):
        pending = [join_new(node, group, **options)]
        pending += [join(node, group, member.member_id, **options) for member in joined]
        joined = [one.response for one in pending]
    joined.sort(key=lambda response: not response.members)
    assignments = {response.member_id: f"to {response.member_id}".encode() for response in joined}
    synced = [sync(node, response, group, assignments=assignments if response.members else None)
              for response in joined[1:] + joined[:1]]
    for one in synced:
        assert one.response.error_code == ErrorCode.NONE
    return joined
