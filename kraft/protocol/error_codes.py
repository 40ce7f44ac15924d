"""Kafka's error codes.

Made by tools/protocol.py from schemas/errors.json: change that.
"""

from enum import IntEnum
from typing import Self


class ErrorCode(IntEnum):
    """An error code. `message` is one clause about it in our words."""

    message: str

    def __new__(cls, code: int, message: str) -> Self:
        member = int.__new__(cls, code)
        member._value_ = code
        member.message = message
        return member

    @property
    def retriable(self) -> bool:
        """The same request may succeed later."""
        return self in RETRIABLE

    @property
    def refresh_metadata(self) -> bool:
        """Look the leader up again before the next attempt."""
        return self in REFRESH_METADATA

    UNKNOWN_SERVER_ERROR = -1, "an unexpected failure inside the server"
    NONE = 0, "no error"
    OFFSET_OUT_OF_RANGE = 1, "the offset is outside of what the partition holds"
    CORRUPT_MESSAGE = 2, "the batch is damaged: wrong checksum, wrong size or unreadable"
    UNKNOWN_TOPIC_OR_PARTITION = 3, "this node knows no such topic or partition"
    INVALID_FETCH_SIZE = 4, "the fetch size is not allowed"
    LEADER_NOT_AVAILABLE = 5, "the partition has no leader at the moment"
    NOT_LEADER_OR_FOLLOWER = 6, "this node is not the leader, or no replica, of the partition"
    REQUEST_TIMED_OUT = 7, "the request was not finished within its time"
    BROKER_NOT_AVAILABLE = 8, "the broker is not available"
    REPLICA_NOT_AVAILABLE = 9, "the replica is not available"
    MESSAGE_TOO_LARGE = 10, "the batch is larger than the topic allows"
    STALE_CONTROLLER_EPOCH = 11, "the controller epoch is older than the one known"
    OFFSET_METADATA_TOO_LARGE = 12, "the metadata of the offset commit is too long"
    NETWORK_EXCEPTION = 13, "the connection was lost before the response came"
    COORDINATOR_LOAD_IN_PROGRESS = 14, "the coordinator is still loading its state"
    COORDINATOR_NOT_AVAILABLE = 15, "the coordinator is not available"
    NOT_COORDINATOR = 16, "this node is not the coordinator"
    INVALID_TOPIC_EXCEPTION = 17, "the topic name is not allowed"
    RECORD_LIST_TOO_LARGE = 18, "the request holds more bytes of records than a segment can"
    NOT_ENOUGH_REPLICAS = 19, "fewer replicas are in sync than the topic demands; nothing was written"
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, "written, but fewer replicas are in sync than the topic demands"
    INVALID_REQUIRED_ACKS = 21, "acks must be -1, 0 or 1"
    ILLEGAL_GENERATION = 22, "the generation is not the group's current one"
    INCONSISTENT_GROUP_PROTOCOL = 23, "the member's protocols have nothing in common with the group's"
    INVALID_GROUP_ID = 24, "the group id is not allowed"
    UNKNOWN_MEMBER_ID = 25, "the group knows no such member"
    INVALID_SESSION_TIMEOUT = 26, "the session timeout is outside of the limits that the broker sets"
    REBALANCE_IN_PROGRESS = 27, "the group is rebalancing: join again"
    INVALID_COMMIT_OFFSET_SIZE = 28, "the offset commit is too large"
    TOPIC_AUTHORIZATION_FAILED = 29, "not allowed to use this topic"
    GROUP_AUTHORIZATION_FAILED = 30, "not allowed to use this group"
    CLUSTER_AUTHORIZATION_FAILED = 31, "not allowed to do this to the cluster"
    INVALID_TIMESTAMP = 32, "a record's timestamp is too far from the broker's time"
    UNSUPPORTED_SASL_MECHANISM = 33, "the SASL mechanism is not supported"
    ILLEGAL_SASL_STATE = 34, "this request does not fit the state of the authentication"
    UNSUPPORTED_VERSION = 35, "the version of the request or record is not supported"
    TOPIC_ALREADY_EXISTS = 36, "a topic of this name exists already"
    INVALID_PARTITIONS = 37, "the number of partitions is not allowed"
    INVALID_REPLICATION_FACTOR = 38, "the replication factor is below 1 or above the number of brokers"
    INVALID_REPLICA_ASSIGNMENT = 39, "the assignment of replicas is not valid"
    INVALID_CONFIG = 40, "the configuration is not valid"
    NOT_CONTROLLER = 41, "this node is not the active controller"
    INVALID_REQUEST = 42, "the request contradicts itself or the protocol"
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, "the message format of the log cannot carry this"
    POLICY_VIOLATION = 44, "a policy of the cluster forbids this"
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, "the producer's sequence number leaves a gap or goes back"
    DUPLICATE_SEQUENCE_NUMBER = 46, "the producer's sequence number was written before"
    INVALID_PRODUCER_EPOCH = 47, "the producer's epoch is older than the one known"
    INVALID_TXN_STATE = 48, "the transaction's state does not allow this"
    INVALID_PRODUCER_ID_MAPPING = 49, "the producer id does not belong to this transactional id"
    INVALID_TRANSACTION_TIMEOUT = 50, "the transaction timeout is longer than the broker allows"
    CONCURRENT_TRANSACTIONS = 51, "another change of the same transaction is in progress: try again"
    TRANSACTION_COORDINATOR_FENCED = 52, "the transaction coordinator that sent this was replaced"
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "not allowed to use this transactional id"
    SECURITY_DISABLED = 54, "security features are not switched on"
    OPERATION_NOT_ATTEMPTED = 55, "not attempted, because an earlier step failed"
    KAFKA_STORAGE_ERROR = 56, "a disk error: the log directory is offline"
    LOG_DIR_NOT_FOUND = 57, "the broker has no such log directory"
    SASL_AUTHENTICATION_FAILED = 58, "authentication failed"
    UNKNOWN_PRODUCER_ID = 59, "nothing is known about this producer id"
    REASSIGNMENT_IN_PROGRESS = 60, "a reassignment of the partition is in progress"
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "delegation tokens are not switched on"
    DELEGATION_TOKEN_NOT_FOUND = 62, "there is no such delegation token"
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, "the delegation token belongs to somebody else"
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, "delegation tokens are not available on this connection"
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, "not allowed to use this delegation token"
    DELEGATION_TOKEN_EXPIRED = 66, "the delegation token has expired"
    INVALID_PRINCIPAL_TYPE = 67, "the principal type is not supported"
    NON_EMPTY_GROUP = 68, "the group still has members"
    GROUP_ID_NOT_FOUND = 69, "there is no such group"
    FETCH_SESSION_ID_NOT_FOUND = 70, "the fetch session is not known"
    INVALID_FETCH_SESSION_EPOCH = 71, "the fetch session's epoch is not the expected one"
    LISTENER_NOT_FOUND = 72, "the leader has no listener of the name that the request came in on"
    TOPIC_DELETION_DISABLED = 73, "deletion of topics is switched off"
    FENCED_LEADER_EPOCH = 74, "the leader epoch is older than the current one"
    UNKNOWN_LEADER_EPOCH = 75, "the leader epoch is newer than the one known here"
    UNSUPPORTED_COMPRESSION_TYPE = 76, "the compression codec cannot be used with this version"
    STALE_BROKER_EPOCH = 77, "the broker epoch is not the current one"
    OFFSET_NOT_AVAILABLE = 78, "the new leader does not know its high watermark yet"
    MEMBER_ID_REQUIRED = 79, "join again with the member id given here"
    PREFERRED_LEADER_NOT_AVAILABLE = 80, "the preferred replica cannot become leader now"
    GROUP_MAX_SIZE_REACHED = 81, "the group has as many members as it may have"
    FENCED_INSTANCE_ID = 82, "another member has taken over this group instance id"
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, "no replica that may become leader is available"
    ELECTION_NOT_NEEDED = 84, "no election is needed: the leader is the right one"
    NO_REASSIGNMENT_IN_PROGRESS = 85, "no reassignment of the partition is in progress"
    GROUP_SUBSCRIBED_TO_TOPIC = 86, "a consumer group is subscribed to the topic"
    INVALID_RECORD = 87, "a record breaks a rule; nothing was written"
    UNSTABLE_OFFSET_COMMIT = 88, "offsets of a pending transaction are not decided yet"
    THROTTLING_QUOTA_EXCEEDED = 89, "the quota is used up: wait for the throttle time"
    PRODUCER_FENCED = 90, "a newer producer with the same transactional id has taken over"
    RESOURCE_NOT_FOUND = 91, "there is no such resource"
    DUPLICATE_RESOURCE = 92, "the resource is named more than once"
    UNACCEPTABLE_CREDENTIAL = 93, "the credential does not meet the rules"
    INCONSISTENT_VOTER_SET = 94, "the set of voters differs from what the sender assumes"
    INVALID_UPDATE_VERSION = 95, "the update is not based on the current state"
    FEATURE_UPDATE_FAILED = 96, "the feature cannot be set to this level"
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, "the principal cannot be read"
    SNAPSHOT_NOT_FOUND = 98, "there is no such snapshot"
    POSITION_OUT_OF_RANGE = 99, "the position is outside of the snapshot"
    UNKNOWN_TOPIC_ID = 100, "this node knows no topic of this id"
    DUPLICATE_BROKER_REGISTRATION = 101, "the broker id is in use by a live broker"
    BROKER_ID_NOT_REGISTERED = 102, "the broker is not registered"
    INCONSISTENT_TOPIC_ID = 103, "the topic id in the log is another one"
    INCONSISTENT_CLUSTER_ID = 104, "the cluster id is another one"
    TRANSACTIONAL_ID_NOT_FOUND = 105, "there is no such transactional id"
    FETCH_SESSION_TOPIC_ID_ERROR = 106, "the fetch session mixes topic names and topic ids"
    INELIGIBLE_REPLICA = 107, "the replica may not enter the in-sync set"
    NEW_LEADER_ELECTED = 108, "the leader has changed"
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, "the offset lies in tiered storage"
    FENCED_MEMBER_EPOCH = 110, "the member epoch is not the current one: join again"
    UNRELEASED_INSTANCE_ID = 111, "another member still holds this group instance id"
    UNSUPPORTED_ASSIGNOR = 112, "the assignor is not supported"
    STALE_MEMBER_EPOCH = 113, "the member epoch is old: wait for the next heartbeat"
    MISMATCHED_ENDPOINT_TYPE = 114, "this listener does not serve that kind of endpoint"
    UNSUPPORTED_ENDPOINT_TYPE = 115, "the kind of endpoint is not known"
    UNKNOWN_CONTROLLER_ID = 116, "the controller is not registered"
    UNKNOWN_SUBSCRIPTION_ID = 117, "the telemetry subscription is not known"
    TELEMETRY_TOO_LARGE = 118, "the telemetry is too large"
    INVALID_REGISTRATION = 119, "the registration of the broker is not valid"
    TRANSACTION_ABORTABLE = 120, "the transaction cannot continue: abort it"
    INVALID_RECORD_STATE = 121, "the record is not in a state that allows this"
    SHARE_SESSION_NOT_FOUND = 122, "the share session is not known"
    INVALID_SHARE_SESSION_EPOCH = 123, "the share session's epoch is not the expected one"
    FENCED_STATE_EPOCH = 124, "the state epoch is older than the current one"
    INVALID_VOTER_KEY = 125, "the voter's id or directory id does not match"
    DUPLICATE_VOTER = 126, "the voter is in the set already"
    VOTER_NOT_FOUND = 127, "the voter is not in the set"
    INVALID_REGULAR_EXPRESSION = 128, "the regular expression is not valid"
    REBOOTSTRAP_REQUIRED = 129, "start over from the bootstrap servers"
    STREAMS_INVALID_TOPOLOGY = 130, "the topology is not valid"
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, "the topology epoch is not valid"
    STREAMS_TOPOLOGY_FENCED = 132, "the topology epoch is older than the current one"
    SHARE_SESSION_LIMIT_REACHED = 133, "the node holds as many share sessions as it may"


RETRIABLE = frozenset({
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.LISTENER_NOT_FOUND,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    ErrorCode.ELECTION_NOT_NEEDED,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    ErrorCode.SHARE_SESSION_NOT_FOUND,
    ErrorCode.INVALID_SHARE_SESSION_EPOCH,
    ErrorCode.SHARE_SESSION_LIMIT_REACHED,
})

# All of them are retriable.
REFRESH_METADATA = frozenset({
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.LISTENER_NOT_FOUND,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    ErrorCode.ELECTION_NOT_NEEDED,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
})
