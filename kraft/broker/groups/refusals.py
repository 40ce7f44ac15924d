"""Responses of each API for the failure of a whole request."""

from __future__ import annotations

from kraft.broker.coordinator.answer import RequestContext
from kraft.broker.groups.classic import joining
from kraft.broker.groups.classic.syncing import leave_response, leavers
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.heartbeat_response import HeartbeatResponse
from kraft.protocol.messages.join_group_response import JoinGroupResponse
from kraft.protocol.messages.leave_group_request import LeaveGroupRequest
from kraft.protocol.messages.leave_group_response import LeaveGroupResponse, MemberResponse
from kraft.protocol.messages.offset_commit_request import OffsetCommitRequest
from kraft.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kraft.protocol.messages.offset_delete_response import OffsetDeleteResponse
from kraft.protocol.messages.offset_fetch_response import OffsetFetchResponseGroup
from kraft.protocol.messages.sync_group_response import SyncGroupResponse


def join_group(context: RequestContext, error: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    return joining.refusal(member_id, context.api_version, error)


def sync_group(error: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error, protocol_type=None, protocol_name=None, assignment=b"")


def heartbeat(error: ErrorCode) -> HeartbeatResponse:
    """Return the refusal. While the coordinator loads, it is no error: the sessions of its members start when it
    serves."""
    return HeartbeatResponse(error_code=ErrorCode.NONE if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else error)


def leave_group(request: LeaveGroupRequest, context: RequestContext, error: ErrorCode) -> LeaveGroupResponse:
    if error is ErrorCode.UNKNOWN_MEMBER_ID:
        results = [MemberResponse(member_id=member.member_id, group_instance_id=member.group_instance_id,
                                  error_code=error) for member in leavers(request, context.api_version)]
        return leave_response(results, context.api_version)
    return LeaveGroupResponse(error_code=error, members=[])


def offset_commit(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    """Return the refusal. This API has no field for an error except in the partitions."""
    return OffsetCommitResponse(topics=[
        OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=[
            OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
            for partition in topic.partitions])
        for topic in request.topics])


def offset_fetch(group_id: str, error: ErrorCode) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(group_id=group_id, topics=[], error_code=error)


def offset_delete(error: ErrorCode) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=error, topics=[])
