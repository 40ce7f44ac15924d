"""Common behaviour of all message classes, and values that an encoding refuses."""

import copy
import pickle
import subprocess
import sys

import pytest

from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import NEVER, ZERO_UUID
from kraft.protocol.messages.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataValue,
)
from kraft.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from kraft.protocol.messages.describe_cluster_response import DescribeClusterResponse
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from kraft.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kraft.protocol.messages.metadata_response import MetadataResponse, MetadataResponseTopic
from kraft.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from kraft.protocol.messages.vote_request import PartitionData, TopicData, VoteRequest
from kraft.protocol.messages.vote_response import PartitionData as VoteResult
from kraft.protocol.messages.vote_response import TopicData as VoteTopic
from kraft.protocol.messages.vote_response import VoteResponse
from kraft_native.base.errors import InvalidArgumentError, MalformedMessageError, ProtocolError, UnsupportedVersionError
from tests.protocol.json_form import default_value, message_class, schemas


def test_defaults_are_the_schemas() -> None:
    for name, schema in schemas().items():
        message = message_class(name)()
        for field in schema.message.fields:
            assert getattr(message, field.attribute) == default_value(schema, field), (name, field.name)


def test_lists_and_structs_are_not_shared() -> None:
    first, second = MetadataRequest(), MetadataRequest()
    assert first.topics is not None
    first.topics.append(MetadataRequestTopic(name="a"))
    assert second.topics == [] and MetadataRequest().topics == []
    given = [MetadataRequestTopic(name="a")]
    message = MetadataRequest(topics=given)
    given.clear()
    assert message.topics == [MetadataRequestTopic(name="a")]
    assert FetchRequest().replica_state is not FetchRequest().replica_state
    assert MetadataRequest(topics=(MetadataRequestTopic(name=name) for name in "ab")).topics is not None


def test_comparison_copies_and_text() -> None:
    message = FetchRequest(max_bytes=5, topics=[FetchTopic(topic="t", partitions=[FetchPartition(partition=3)])])
    assert message == copy.deepcopy(message) == pickle.loads(pickle.dumps(message))
    assert message != message.replace(max_bytes=6) and message.max_bytes == 5
    assert message != FetchTopic() and ReplicaState() != FetchTopic()
    assert message.replace().topics is not message.topics
    assert repr(ReplicaState(replica_id=1)) == "ReplicaState(replica_id=1, replica_epoch=-1, unknown_tags=())"
    with pytest.raises(TypeError, match="unhashable"):
        hash(message)
    with pytest.raises(AttributeError):
        message.no_such_field = 1  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        FetchRequest(no_such_field=1)  # type: ignore[call-arg]


def test_versions() -> None:
    assert (ApiKey.FETCH, range(4, 19), 12) == (FetchRequest.API_KEY, FetchRequest.VERSIONS, FetchRequest.FLEXIBLE_FROM)
    assert SaslHandshakeRequest.FLEXIBLE_FROM == NEVER
    for version in (-1, 3, 19, 32767):
        with pytest.raises(UnsupportedVersionError, match="4 to 18"):
            FetchRequest().encode(version)
        with pytest.raises(UnsupportedVersionError, match="4 to 18"):
            FetchRequest.decode(bytes(100), version)
    assert UnsupportedVersionError.code == ErrorCode.UNSUPPORTED_VERSION
    assert MalformedMessageError.code == ErrorCode.INVALID_REQUEST
    assert issubclass(MalformedMessageError, ProtocolError)


def test_a_field_that_the_version_lacks() -> None:
    """The value is refused, or dropped where the schema allows that; it never ends up elsewhere."""
    with pytest.raises(UnsupportedVersionError, match=r"FetchRequest\.replica_id is 3, and version 15"):
        FetchRequest(replica_id=3).encode(15)
    with pytest.raises(UnsupportedVersionError, match="replica_state"):
        FetchRequest(replica_state=ReplicaState(replica_id=3)).encode(14)
    assert FetchRequest(replica_state=ReplicaState(replica_id=3)).encode(15)
    partition = PartitionData(pre_vote=True)
    for version in (0, 1):
        with pytest.raises(UnsupportedVersionError, match="pre_vote"):
            VoteRequest(topics=[TopicData(partitions=[partition])]).encode(version)
    assert FetchRequest(rack_id="dropped").encode(10) == FetchRequest().encode(10)
    assert FetchRequest(is_follower=True, cluster_id="dropped").encode(11) == FetchRequest().encode(11)


def test_null_where_the_version_has_none() -> None:
    assert MetadataRequest.decode(MetadataRequest(topics=None).encode(1), 1).topics is None
    with pytest.raises(InvalidArgumentError, match="null"):
        MetadataRequest(topics=None).encode(0)
    with pytest.raises(InvalidArgumentError, match="null"):
        DeleteTopicsResponse(responses=[DeletableTopicResult(name=None)]).encode(5)
    assert DeleteTopicsResponse(responses=[DeletableTopicResult(name=None)]).encode(6)


def test_a_value_outside_its_type() -> None:
    with pytest.raises(InvalidArgumentError, match="FetchRequest version 12"):
        FetchRequest(max_bytes=2**31).encode(12)
    with pytest.raises(InvalidArgumentError, match="32768"):
        FetchRequest(rack_id="r" * 32768).encode(12)


def test_unknown_tags_are_kept() -> None:
    message = MetadataResponse(
        unknown_tags=((7, b"later"), (9, b"")),
        topics=[MetadataResponseTopic(name="t", topic_id=ZERO_UUID, unknown_tags=((2**32 - 1, b"x"),))],
    )
    data = message.encode(12)
    assert MetadataResponse.decode(data, 12, exact=True) == message
    with pytest.raises(InvalidArgumentError, match="tagged fields are set"):
        message.encode(8)
    with pytest.raises(InvalidArgumentError, match="tag 0 is given twice"):
        FetchRequest(cluster_id="c", unknown_tags=((0, b"x"),)).encode(12)


def test_a_tag_of_a_later_version_is_unknown_before() -> None:
    newer = FetchRequest(topics=[FetchTopic(partitions=[FetchPartition(high_watermark=5)])]).encode(18)
    older = FetchRequest.decode(newer, 17)
    assert older.topics[0].partitions[0].unknown_tags == ((1, (5).to_bytes(8, "big")),)
    assert older.encode(17) == newer


def test_our_tags() -> None:
    """Our tags begin at 100 and are not written by default: a Java peer sees Kafka's own bytes."""
    assert VoteResponse().encode(2) == bytes.fromhex("00000100")
    plain = VoteResponse(topics=[VoteTopic(partitions=[VoteResult()])])
    ours = VoteResponse(topics=[VoteTopic(partitions=[VoteResult(pre_vote=0)])])
    assert ours.encode(2) != plain.encode(2)
    assert VoteResponse.decode(ours.encode(2), 2).topics[0].partitions[0].pre_vote == 0
    assert VoteResponse.decode(plain.encode(2), 2).topics[0].partitions[0].pre_vote == -1
    assert DescribeClusterResponse().encode(0)[-1:] == b"\0", "no tags"
    assert DescribeClusterResponse.decode(DescribeClusterResponse(lease_ended_ms=7).encode(0), 0).lease_ended_ms == 7


def test_a_struct_that_is_null_in_a_tag() -> None:
    """The default is a struct of defaults, which is not written; null is written."""
    value = ConsumerGroupMemberMetadataValue()
    assert value.classic_member_metadata == ClassicMemberMetadata()
    assert value.encode(0)[-1:] == b"\0"
    null = value.replace(classic_member_metadata=None)
    assert null.encode(0)[-4:] == b"\1\0\1\0"
    assert ConsumerGroupMemberMetadataValue.decode(null.encode(0), 0, exact=True) == null


def test_bytes_after_the_end() -> None:
    data = FetchRequest().encode(12)
    assert FetchRequest.decode(data + b"more", 12) == FetchRequest()
    with pytest.raises(MalformedMessageError, match="FetchRequest version 12: 4 bytes are left over"):
        FetchRequest.decode(data + b"more", 12, exact=True)


def test_one_message_does_not_load_the_others() -> None:
    program = ("import sys; import kraft.protocol.headers, kraft.protocol.record_frames, kraft.protocol.error_codes; "
               "print(sum(name.startswith('kraft.protocol.messages.') for name in sys.modules))")
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert int(done.stdout) == 2  # the two headers
