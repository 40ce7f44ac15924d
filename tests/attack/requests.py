"""Requests of every API with as many elements as a request may have."""

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any, Final, NamedTuple
from uuid import UUID

from kraft.protocol.apis import API_BY_NAME
from kraft.protocol.headers import encode_request_header
from kraft.protocol.message import Message

TOPIC: Final = "attacked"
GROUP: Final = "attacked-group"
NOWHERE: Final = UUID(int=1 << 70)


class Hostile(NamedTuple):
    """A request for too much: a frame with about `elements` elements, built when it is needed. `copies` of it are
    sent before a reply is read. `what` distinguishes it from other requests of the same API."""

    api: str
    what: str
    version: int
    make: Callable[[int], Message]
    elements: int
    copies: int = 1
    controller: bool = False

    @property
    def name(self) -> str:
        return f"{self.api}: {self.what}" if self.what else self.api

    def frame(self) -> bytes:
        """Build the whole request, with its length."""
        api = API_BY_NAME[self.api]
        content = encode_request_header(api, self.version, 7, "hostile") + self.make(self.elements).encode(self.version)
        return len(content).to_bytes(4, "big") + content


def structs(api: str) -> Any:
    """Return the module with the classes of an API's request."""
    file = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in api).lstrip("_")
    return import_module(f"kraft.protocol.messages.{file}_request")


def whole(api: str, fields: Callable[[Any, int], dict[str, Any]], count: int) -> Message:
    """Build a request with the fields that `fields` returns, of the API's own classes."""
    module = structs(api)
    message = getattr(module, f"{api}Request")(**fields(module, count))
    assert isinstance(message, Message)
    return message


def names(count: int, prefix: str = "") -> list[str]:
    """Return short names, all different."""
    return [f"{prefix}{number:x}" for number in range(count)]


def _create_topics(m: Any, n: int) -> dict[str, Any]:
    return {"topics": [m.CreatableTopic(name=name, num_partitions=0, replication_factor=1) for name in names(n)]}


def _assignments(m: Any, n: int) -> dict[str, Any]:
    wanted = [m.CreatableReplicaAssignment(partition_index=index, broker_ids=[1]) for index in range(n)]
    return {"topics": [m.CreatableTopic(name="assigned", num_partitions=-1, replication_factor=-1,
                                        assignments=wanted)]}


def _topic_configs(m: Any, n: int) -> dict[str, Any]:
    configs = [m.CreatableTopicConfig(name=name, value="1") for name in names(n)]
    return {"topics": [m.CreatableTopic(name="configured", num_partitions=1, replication_factor=1, configs=configs)]}


def _offsets(m: Any, n: int, partition: Callable[[int], Any]) -> list[Any]:
    return [m.OffsetCommitRequestTopic(name=TOPIC, partitions=[partition(index) for index in range(n)])]


PLAIN: Final[Sequence[tuple[str, str, int, Callable[[Any, int], dict[str, Any]]]]] = (
    ("ListOffsets", "partitions", 11, lambda m, n: {"replica_id": -1, "topics": [m.ListOffsetsTopic(
        name=TOPIC, partitions=[m.ListOffsetsPartition(partition_index=i, timestamp=-1) for i in range(n)])]}),
    ("ListOffsets", "one partition", 11, lambda m, n: {"replica_id": -1, "topics": [m.ListOffsetsTopic(
        name=TOPIC, partitions=[m.ListOffsetsPartition(partition_index=0, timestamp=0)] * n)]}),
    ("ListOffsets", "topics", 11, lambda m, n: {"replica_id": -1, "topics": [m.ListOffsetsTopic(
        name=TOPIC, partitions=[m.ListOffsetsPartition(timestamp=0)])] * (n // 2)}),
    ("Metadata", "absent topics", 13, lambda m, n: {
        "topics": [m.MetadataRequestTopic(name=each) for each in names(n)], "allow_auto_topic_creation": False}),
    ("Metadata", "one topic", 13, lambda m, n: {"topics": [m.MetadataRequestTopic(name=TOPIC)] * n}),
    ("Metadata", "created", 13, lambda m, n: {
        "topics": [m.MetadataRequestTopic(name=f"?{each}") for each in names(n)], "allow_auto_topic_creation": True}),
    ("FindCoordinator", "keys", 6, lambda m, n: {"coordinator_keys": names(n)}),
    ("DescribeConfigs", "one topic", 4, lambda m, n: {"include_documentation": True, "include_synonyms": True,
     "resources": [m.DescribeConfigsResource(resource_type=2, resource_name=TOPIC, configuration_keys=None)] * n}),
    ("DescribeConfigs", "groups", 4, lambda m, n: {"resources": [m.DescribeConfigsResource(
        resource_type=32, resource_name=each, configuration_keys=["x"]) for each in names(n // 2)]}),
    ("DescribeConfigs", "keys", 4, lambda m, n: {"resources": [m.DescribeConfigsResource(
        resource_type=2, resource_name=TOPIC, configuration_keys=names(n))]}),
    ("DescribeUserScramCredentials", "users", 0, lambda m, n: {"users": [m.UserName(name=each) for each in names(n)]}),
    ("DescribeClientQuotas", "components", 1, lambda m, n: {"components": [
        m.ComponentData(entity_type="user", match_type=2, match=None)] * n}),
    ("AlterClientQuotas", "entities", 1, lambda m, n: {"entries": [m.EntryData(
        entity=[m.EntityData(entity_type="user", entity_name=each)], ops=[m.OpData(key="consumer_byte_rate", value=1)])
        for each in names(n // 3)]}),
    ("AlterClientQuotas", "operations", 1, lambda m, n: {"entries": [m.EntryData(
        entity=[m.EntityData(entity_type="user", entity_name="u")], ops=[m.OpData(key=each) for each in names(n)])]}),
    ("AlterClientQuotas", "set", 1, lambda m, n: {"entries": [m.EntryData(
        entity=[m.EntityData(entity_type="user", entity_name=each)], ops=[m.OpData(key="consumer_byte_rate", value=1)])
        for each in names(min(n, 9_000))]}),
    ("AlterUserScramCredentials", "upsertions", 0, lambda m, n: {"upsertions": [m.ScramCredentialUpsertion(
        name=each, mechanism=1, iterations=4096, salt=b"s", salted_password=b"p") for each in names(n)]}),
    ("AlterUserScramCredentials", "set", 0, lambda m, n: {"upsertions": [m.ScramCredentialUpsertion(
        name=each, mechanism=1, iterations=4096, salt=b"s", salted_password=b"p") for each in names(min(n, 9_000))]}),
    ("AlterUserScramCredentials", "one user", 0, lambda m, n: {"deletions": [m.ScramCredentialDeletion(
        name="u", mechanism=1)] * n}),
    ("CreateTopics", "topics", 7, _create_topics),
    ("CreateTopics", "one name", 7, lambda m, n: {"topics": [m.CreatableTopic(name="x", num_partitions=1)] * n}),
    ("CreateTopics", "assignments", 7, _assignments),
    ("CreateTopics", "configs", 7, _topic_configs),
    ("CreateTopics", "replicas", 7, lambda m, n: {"topics": [m.CreatableTopic(
        name="replicated", num_partitions=-1, replication_factor=-1, assignments=[
            m.CreatableReplicaAssignment(partition_index=0, broker_ids=[1] * n)])]}),
    ("CreateTopics", "partitions", 7, lambda m, n: {"validate_only": True, "topics": [
        m.CreatableTopic(name="large", num_partitions=min(n, 10_000), replication_factor=1)]}),
    ("DeleteTopics", "topics", 6, lambda m, n: {"topics": [m.DeleteTopicState(name=each) for each in names(n)]}),
    ("CreatePartitions", "topics", 3, lambda m, n: {"topics": [
        m.CreatePartitionsTopic(name=each, count=1, assignments=None) for each in names(n)]}),
    ("CreatePartitions", "assignments", 3, lambda m, n: {"topics": [m.CreatePartitionsTopic(
        name=TOPIC, count=n, assignments=[m.CreatePartitionsAssignment(broker_ids=[1])] * (n // 2))]}),
    ("CreatePartitions", "replicas", 3, lambda m, n: {"topics": [m.CreatePartitionsTopic(
        name=TOPIC, count=5, assignments=[m.CreatePartitionsAssignment(broker_ids=[1] * n)])]}),
    ("AlterConfigs", "resources", 2, lambda m, n: {"resources": [m.AlterConfigsResource(
        resource_type=2, resource_name=each) for each in names(n)]}),
    ("AlterConfigs", "settings", 2, lambda m, n: {"resources": [m.AlterConfigsResource(
        resource_type=2, resource_name=TOPIC,
        configs=[m.AlterableConfig(name=each, value="1") for each in names(n)])]}),
    ("IncrementalAlterConfigs", "resources", 1, lambda m, n: {"resources": [m.AlterConfigsResource(
        resource_type=2, resource_name=each) for each in names(n)]}),
    ("IncrementalAlterConfigs", "settings", 1, lambda m, n: {"resources": [m.AlterConfigsResource(
        resource_type=2, resource_name=TOPIC, configs=[
            m.AlterableConfig(name=each, config_operation=0, value="1") for each in names(n)])]}),
    ("IncrementalAlterConfigs", "broker settings", 1, lambda m, n: {"resources": [m.AlterConfigsResource(
        resource_type=4, resource_name="", configs=[
            m.AlterableConfig(name=each, config_operation=0, value="1") for each in names(n)])]}),
    ("IncrementalAlterConfigs", "appended", 1, lambda m, n: {"resources": [m.AlterConfigsResource(
        resource_type=2, resource_name=TOPIC, configs=[m.AlterableConfig(
            name=f"{side}.replication.throttled.replicas", config_operation=2, value=",".join(names(min(n, 6_500))))
            for side in ("leader", "follower")])]}),
    ("IncrementalAlterConfigs", "long lists", 1, lambda m, n: {"validate_only": True, "resources": [
        m.AlterConfigsResource(resource_type=16, resource_name=each, configs=[m.AlterableConfig(
            name="metrics", config_operation=0, value="a," * min(n, 16_000))]) for each in names(32)]}),
    ("ElectLeaders", "partitions", 2, lambda m, n: {"topic_partitions": [
        m.TopicPartitions(topic=TOPIC, partitions=list(range(n)))]}),
    ("ElectLeaders", "all", 2, lambda m, n: {"topic_partitions": None}),
    ("AlterPartitionReassignments", "partitions", 1, lambda m, n: {"topics": [m.ReassignableTopic(
        name=TOPIC, partitions=[m.ReassignablePartition(partition_index=i, replicas=[1]) for i in range(n // 2)])]}),
    ("AlterPartitionReassignments", "replicas", 1, lambda m, n: {"topics": [m.ReassignableTopic(
        name=TOPIC, partitions=[m.ReassignablePartition(partition_index=0, replicas=list(range(n)))])]}),
    ("AlterPartitionReassignments", "one broker", 1, lambda m, n: {"topics": [m.ReassignableTopic(
        name=TOPIC, partitions=[m.ReassignablePartition(partition_index=0, replicas=[1] * n)])]}),
    ("AlterPartitionReassignments", "voters and topics", 1, lambda m, n: {"topics": [m.ReassignableTopic(
        name=each, partitions=[m.ReassignablePartition(partition_index=0, replicas=list(range(n // 2)))])
        for each in ("__cluster_metadata", TOPIC)]}),
    ("ListPartitionReassignments", "partitions", 0, lambda m, n: {"topics": [m.ListPartitionReassignmentsTopics(
        name=TOPIC, partition_indexes=list(range(n)))]}),
    ("AlterReplicaLogDirs", "partitions", 2, lambda m, n: {"dirs": [m.AlterReplicaLogDir(
        path="/nowhere", topics=[m.AlterReplicaLogDirTopic(name=TOPIC, partitions=list(range(n)))])]}),
    ("DescribeLogDirs", "topics", 5, lambda m, n: {"topics": [
        m.DescribableLogDirTopic(topic=each, partitions=[0]) for each in names(n // 2)]}),
    ("DescribeLogDirs", "partitions", 5, lambda m, n: {"topics": [
        m.DescribableLogDirTopic(topic=TOPIC, partitions=list(range(n)))]}),
    ("DescribeProducers", "partitions", 0, lambda m, n: {"topics": [
        m.TopicRequest(name=TOPIC, partition_indexes=list(range(n)))]}),
    ("DescribeTopicPartitions", "topics", 0, lambda m, n: {"topics": [m.TopicRequest(name=each) for each in names(n)]}),
    ("DescribeTransactions", "ids", 0, lambda m, n: {"transactional_ids": names(n)}),
    ("ListTransactions", "filters", 2, lambda m, n: {"state_filters": names(n)}),
    ("OffsetForLeaderEpoch", "partitions", 4, lambda m, n: {"replica_id": -1, "topics": [m.OffsetForLeaderTopic(
        topic=TOPIC, partitions=[m.OffsetForLeaderPartition(partition=i, leader_epoch=0) for i in range(n)])]}),
    ("DeleteRecords", "partitions", 2, lambda m, n: {"timeout_ms": 1000, "topics": [m.DeleteRecordsTopic(
        name=TOPIC, partitions=[m.DeleteRecordsPartition(partition_index=i % 4, offset=0) for i in range(n)])]}),
    ("OffsetCommit", "partitions", 8, lambda m, n: {"group_id": GROUP, "generation_id_or_member_epoch": -1,
     "topics": _offsets(m, n, lambda i: m.OffsetCommitRequestPartition(
         partition_index=i, committed_offset=1, committed_metadata="m"))}),
    ("OffsetCommit", "one partition", 8, lambda m, n: {"group_id": GROUP, "generation_id_or_member_epoch": -1,
     "topics": _offsets(m, n, lambda _i: m.OffsetCommitRequestPartition(
         partition_index=0, committed_offset=1, committed_metadata="m"))}),
    ("OffsetFetch", "partitions", 8, lambda m, n: {"groups": [m.OffsetFetchRequestGroup(group_id=GROUP, topics=[
        m.OffsetFetchRequestTopics(name=TOPIC, partition_indexes=list(range(n)))])]}),
    ("OffsetFetch", "groups", 8, lambda m, n: {"groups": [
        m.OffsetFetchRequestGroup(group_id=each, topics=None) for each in names(n)]}),
    ("OffsetFetch", "one group", 8, lambda m, n: {"groups": [
        m.OffsetFetchRequestGroup(group_id=GROUP, topics=None)] * n}),
    ("OffsetDelete", "partitions", 0, lambda m, n: {"group_id": GROUP, "topics": [m.OffsetDeleteRequestTopic(
        name=TOPIC, partitions=[m.OffsetDeleteRequestPartition(partition_index=i) for i in range(n)])]}),
    ("DescribeGroups", "groups", 6, lambda m, n: {"groups": names(n)}),
    ("ConsumerGroupDescribe", "groups", 1, lambda m, n: {"group_ids": names(n)}),
    ("ConsumerGroupHeartbeat", "topics", 1, lambda m, n: {"group_id": "joined", "member_id": "m",
     "rebalance_timeout_ms": 10_000, "topic_partitions": [], "subscribed_topic_names": names(n)}),
    ("ConsumerGroupHeartbeat", "partitions", 1, lambda m, n: {"group_id": "joined", "member_id": "m", "member_epoch": 1,
     "topic_partitions": [m.TopicPartitions(topic_id=NOWHERE, partitions=list(range(n)))]}),
    ("ShareGroupDescribe", "groups", 1, lambda m, n: {"group_ids": names(n)}),
    ("ShareGroupHeartbeat", "topics", 1, lambda m, n: {"group_id": "shared", "member_id": "m",
     "subscribed_topic_names": names(n)}),
    ("StreamsGroupDescribe", "groups", 0, lambda m, n: {"group_ids": names(n)}),
    ("StreamsGroupHeartbeat", "topics", 0, lambda m, n: {"group_id": "streams", "member_id": "m",
     "rebalance_timeout_ms": 10_000, "process_id": "p", "active_tasks": [], "standby_tasks": [], "warmup_tasks": [],
     "topology": m.Topology(subtopologies=[m.Subtopology(subtopology_id="0", source_topics=names(n))])}),
    ("StreamsGroupHeartbeat", "tasks", 0, lambda m, n: {"group_id": "streams", "member_id": "m", "member_epoch": 1,
     "active_tasks": [m.TaskIds(subtopology_id="0", partitions=list(range(n)))], "standby_tasks": [],
     "warmup_tasks": []}),
    ("DescribeShareGroupOffsets", "groups", 1, lambda m, n: {"groups": [
        m.DescribeShareGroupOffsetsRequestGroup(group_id=each, topics=None) for each in names(n)]}),
    ("DescribeShareGroupOffsets", "partitions", 1, lambda m, n: {"groups": [m.DescribeShareGroupOffsetsRequestGroup(
        group_id="shared", topics=[m.DescribeShareGroupOffsetsRequestTopic(
            topic_name=TOPIC, partitions=list(range(n)))])]}),
    ("AlterShareGroupOffsets", "topics", 0, lambda m, n: {"group_id": "altered", "topics": [
        m.AlterShareGroupOffsetsRequestTopic(topic_name=each) for each in names(n)]}),
    ("AlterShareGroupOffsets", "partitions", 0, lambda m, n: {"group_id": "altered", "topics": [
        m.AlterShareGroupOffsetsRequestTopic(topic_name=TOPIC, partitions=[
            m.AlterShareGroupOffsetsRequestPartition(partition_index=i) for i in range(n)])]}),
    ("DeleteShareGroupOffsets", "topics", 0, lambda m, n: {"group_id": "altered", "topics": [
        m.DeleteShareGroupOffsetsRequestTopic(topic_name=each) for each in names(n)]}),
    ("DeleteGroups", "groups", 2, lambda m, n: {"groups_names": names(n)}),
    ("ListGroups", "filters", 5, lambda m, n: {"states_filter": names(n)}),
    ("LeaveGroup", "members", 5, lambda m, n: {"group_id": GROUP, "members": [
        m.MemberIdentity(member_id=each) for each in names(n)]}),
    ("JoinGroup", "protocols", 9, lambda m, n: {"group_id": "joined", "session_timeout_ms": 10_000,
     "rebalance_timeout_ms": 10_000, "protocol_type": "consumer", "protocols": [
         m.JoinGroupRequestProtocol(name=each, metadata=b"") for each in names(n)]}),
    ("SyncGroup", "assignments", 5, lambda m, n: {"group_id": GROUP, "member_id": "m", "protocol_type": "consumer",
     "protocol_name": "range", "assignments": [
         m.SyncGroupRequestAssignment(member_id=each, assignment=b"") for each in names(n)]}),
    ("ListConfigResources", "types", 1, lambda m, n: {"resource_types": [n % 7 for n in range(n)]}),
    ("ListConfigResources", "known types", 1, lambda m, n: {"resource_types": [2, 4, 8, 16, 32] * (n // 5)}),
    ("UpdateFeatures", "features", 2, lambda m, n: {"feature_updates": [
        m.FeatureUpdateKey(feature=each, max_version_level=1, upgrade_type=1) for each in names(n)]}),
    ("DescribeAcls", "", 3, lambda _m, _n: {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1,
                                           "permission_type": 1}),
    ("CreateAcls", "creations", 3, lambda m, n: {"creations": [m.AclCreation(
        resource_type=2, resource_name="t", resource_pattern_type=3, principal="User:u", host="*", operation=2,
        permission_type=3)] * n}),
    ("DeleteAcls", "filters", 3, lambda m, n: {"filters": [m.DeleteAclsFilter(
        resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1)] * n}),
    ("Fetch", "partitions", 12, lambda m, n: {"max_bytes": 1, "topics": [m.FetchTopic(topic=TOPIC, partitions=[
        m.FetchPartition(partition=i, fetch_offset=0, partition_max_bytes=1) for i in range(n)])]}),
    ("ShareFetch", "partitions", 2, lambda m, n: {"group_id": GROUP, "member_id": "m", "topics": [m.FetchTopic(
        topic_id=NOWHERE, partitions=[m.FetchPartition(partition_index=i) for i in range(n)])]}),
    ("ShareAcknowledge", "acknowledgements", 2, lambda m, n: {"group_id": GROUP, "member_id": "m",
     "share_session_epoch": 1, "topics": [m.AcknowledgeTopic(topic_id=NOWHERE, partitions=[m.AcknowledgePartition(
         partition_index=0, acknowledgement_batches=[m.AcknowledgementBatch(
             first_offset=2 * i, last_offset=2 * i, acknowledge_types=[1]) for i in range(n)])])]}),
    ("Produce", "partitions", 12, lambda m, n: {"acks": 1, "timeout_ms": 1000, "topic_data": [m.TopicProduceData(
        name=TOPIC, partition_data=[m.PartitionProduceData(index=i, records=b"") for i in range(n)])]}),
)

PIPELINED: Final = (
    ("Metadata", "all, pipelined", 13, lambda _m, _n: {"topics": None}),
    ("DescribeConfigs", "pipelined", 4, lambda m, _n: {"include_documentation": True, "resources": [
        m.DescribeConfigsResource(resource_type=2, resource_name=TOPIC, configuration_keys=None)]}),
    ("DescribeLogDirs", "pipelined", 5, lambda _m, _n: {"topics": None}),
    ("ListOffsets", "pipelined", 11, lambda m, _n: {"replica_id": -1, "topics": [m.ListOffsetsTopic(
        name=TOPIC, partitions=[m.ListOffsetsPartition(timestamp=-1)])]}),
    ("ApiVersions", "pipelined", 4, lambda _m, _n: {"client_software_name": "a", "client_software_version": "1"}),
    ("OffsetFetch", "pipelined", 8, lambda m, _n: {"groups": [
        m.OffsetFetchRequestGroup(group_id=GROUP, topics=None)]}),
)
CONTROLLER: Final = frozenset({
    "CreateTopics", "DeleteTopics", "CreatePartitions", "AlterConfigs", "IncrementalAlterConfigs", "AlterClientQuotas",
    "AlterUserScramCredentials", "ElectLeaders", "AlterPartitionReassignments", "ListPartitionReassignments",
    "UpdateFeatures"})
INTERNAL: Final = (
    ("AlterPartition", "partitions", 3, lambda m, n: {"broker_id": 1, "broker_epoch": 1, "topics": [m.TopicData(
        topic_id=NOWHERE, partitions=[m.PartitionData(partition_index=i) for i in range(n)])]}),
    ("AssignReplicasToDirs", "partitions", 0, lambda m, n: {"broker_id": 1, "broker_epoch": 1, "directories": [
        m.DirectoryData(id=NOWHERE, topics=[m.TopicData(topic_id=NOWHERE, partitions=[
            m.PartitionData(partition_index=i) for i in range(n)])])]}),
    ("BrokerRegistration", "listeners", 4, lambda m, n: {"broker_id": 9, "cluster_id": "x", "listeners": [
        m.Listener(name=each, host="h", port=1) for each in names(n)]}),
    ("ControllerRegistration", "listeners", 0, lambda m, n: {"controller_id": 9, "listeners": [
        m.Listener(name=each, host="h", port=1) for each in names(n)]}),
    ("BrokerHeartbeat", "directories", 1, lambda m, n: {"broker_id": 9, "offline_log_dirs": [NOWHERE] * n}),
    ("Vote", "topics", 2, lambda m, n: {"topics": [m.TopicData(topic_name="t")] * n}),
)


def attacks(elements: int, copies: int) -> list[Hostile]:
    """Return all attacks: one request with `elements` elements each, and small requests of which `copies` are sent
    at once."""
    found = [Hostile(api, what, version, partial(whole, api, fields), elements)
             for api, what, version, fields in PLAIN]
    found += [Hostile(api, what, version, partial(whole, api, fields), 1, copies)
              for api, what, version, fields in PIPELINED]
    found += [Hostile(api, what, version, partial(whole, api, fields), elements, controller=True)
              for api, what, version, fields in PLAIN if api in CONTROLLER]
    found += [Hostile(api, what, version, partial(whole, api, fields), elements, controller=True)
              for api, what, version, fields in INTERNAL]
    return found
