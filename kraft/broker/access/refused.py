"""Answers to requests that are refused as a whole, where the error is not (only) that of the answer itself."""

from collections.abc import Generator
from functools import partial
from typing import Any

from kraft.broker.access.rules import Call
from kraft.broker.api import each_step
from kraft.broker.share_state.responses import refused
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages.alter_replica_log_dirs_response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from kraft.protocol.messages.describe_user_scram_credentials_response import (
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from kraft.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kraft.protocol.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

Refusal = Generator[None, None, Message]


def offset_commit_refused(_call: Call, request: Any, code: ErrorCode) -> Message:
    """Refuse each partition of a part of OffsetCommit."""
    return OffsetCommitResponse(topics=[
        OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=[
            OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
            for each in topic.partitions])
        for topic in request.topics])


def txn_offset_commit_refused(_call: Call, request: Any, code: ErrorCode) -> Message:
    """Refuse each partition of a part of TxnOffsetCommit."""
    return TxnOffsetCommitResponse(topics=[
        TxnOffsetCommitResponseTopic(name=topic.name, partitions=[
            TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
            for each in topic.partitions])
        for topic in request.topics])


def share_states_refused(_call: Call, request: Any, code: ErrorCode) -> Message:
    """Refuse each partition of a part of a request about states of share partitions."""
    return refused(request, code)


def users_refused(_call: Call, request: Any, code: ErrorCode) -> Refusal:
    """Refuse DescribeUserScramCredentials, with a nameless result for each user, as Kafka does."""
    results = yield from each_step(
        lambda _: DescribeUserScramCredentialsResult(error_code=code, error_message=code.message), request.users or ())
    return DescribeUserScramCredentialsResponse(error_code=code, error_message=code.message, results=results)


def log_dirs_refused(_call: Call, request: Any, code: ErrorCode) -> Refusal:
    """Refuse each replica of AlterReplicaLogDirs."""
    results = []
    for directory in request.dirs:
        for topic in directory.topics:
            partitions = yield from each_step(partial(_replica, code), topic.partitions)
            results.append(AlterReplicaLogDirTopicResult(topic_name=topic.name, partitions=partitions))
        yield
    return AlterReplicaLogDirsResponse(results=results)


def _replica(code: ErrorCode, index: int) -> AlterReplicaLogDirPartitionResult:
    return AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
