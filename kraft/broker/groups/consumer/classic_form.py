"""Subscriptions and assignments in the form of the classic protocol's consumers, as bytes.

Each begins with its version, int16; a newer version begins with the fields of the newest one known here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.groups.consumer.cluster import Topics
from kraft.broker.groups.consumer.member import Partitions, sorted_partitions
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from kraft.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kraft_native.base.errors import ProtocolError


class CustomAssignorError(RefusedError):
    """An assignment has data of an assignor of the clients' own."""


LATEST: Final = ConsumerProtocolAssignment.VERSIONS[-1]


def version_of(data: bytes) -> int:
    """Return the version of a subscription or an assignment, at most the newest one known here."""
    version = int.from_bytes(data[:2], "big", signed=True)
    if len(data) < 2 or version < 0:
        raise RefusedError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "The embedded consumer protocol is malformed.")
    return min(version, LATEST)


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """Return the subscription of a member. Refuses malformed bytes with INCONSISTENT_GROUP_PROTOCOL."""
    version = version_of(data)
    try:
        return ConsumerProtocolSubscription.decode(data[2:], version)
    except ProtocolError as error:
        raise RefusedError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                           f"The embedded consumer protocol is malformed: {error}.") from error


def owned_of(subscription: ConsumerProtocolSubscription, topics: Topics) -> Partitions:
    """Return the partitions that a member says it has; those of topics that do not exist are left out."""
    return sorted_partitions((topic_id, each.partitions) for each in subscription.owned_partitions
                             if (topic_id := topics.topic_id(each.topic)) is not None)


def read_assignment(data: bytes, topics: Topics) -> Partitions:
    """Return the partitions of an assignment; none of the empty one. Refuses malformed bytes like `read_subscription`,
    and the data of an assignor of the clients' own, which only that assignor could use."""
    if not data:
        return {}
    version = version_of(data)
    try:
        found = ConsumerProtocolAssignment.decode(data[2:], version)
    except ProtocolError as error:
        raise RefusedError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                           f"The embedded consumer protocol is malformed: {error}.") from error
    if found.user_data:
        raise CustomAssignorError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                                  "The user data of a custom assignor would be lost.")
    return sorted_partitions((topic_id, each.partitions) for each in found.assigned_partitions
                             if (topic_id := topics.topic_id(each.topic)) is not None)


def write_assignment(partitions: Mapping[UUID, Sequence[int]], version: int, topics: Topics) -> bytes:
    """Return the bytes of an assignment in a version; topics that were deleted are left out."""
    message = ConsumerProtocolAssignment(assigned_partitions=[
        TopicPartition(topic=name, partitions=indexes) for topic_id, indexes in partitions.items()
        if (name := topics.topic_name(topic_id)) is not None])
    return version.to_bytes(2, "big") + message.encode(version)
