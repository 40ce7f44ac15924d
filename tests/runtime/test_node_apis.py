"""APIs that a node serves, compared with those that Kafka announces; and those about limits, credentials and
registration."""

import inspect
import time
from pathlib import Path

import confluent_kafka.admin as librdkafka
import pytest

from kraft.broker import apis
from kraft.broker.apis import FILES, SERVED, handler_of
from kraft.client import Cluster
from kraft.client.connection import Connection
from kraft.client.fetcher import AT_ONCE, fetch_request
from kraft.client.producer import produce_request
from kraft.client.quorum import QuorumClient
from kraft.client.refusals import RefusedError
from kraft.controller.producer_ids import BLOCK_SIZE
from kraft.metadata.image import BROKER_RESOURCE
from kraft.protocol.apis import API_BY_KEY, API_BY_NAME
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.headers import decode_response_header, encode_request_header
from kraft.protocol.messages import alter_client_quotas_request as alter
from kraft.protocol.messages import alter_replica_log_dirs_request as moves
from kraft.protocol.messages import describe_client_quotas_request as describe
from kraft.protocol.messages import incremental_alter_configs_request as configs
from kraft.protocol.messages.alter_client_quotas_response import AlterClientQuotasResponse
from kraft.protocol.messages.alter_replica_log_dirs_response import AlterReplicaLogDirsResponse
from kraft.protocol.messages.describe_client_quotas_response import DescribeClientQuotasResponse
from kraft.protocol.messages.envelope_request import EnvelopeRequest
from kraft.protocol.messages.envelope_response import EnvelopeResponse
from kraft.protocol.messages.fetch_response import FetchResponse
from kraft.protocol.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
from kraft.protocol.messages.get_telemetry_subscriptions_response import GetTelemetrySubscriptionsResponse
from kraft.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from kraft.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kraft.protocol.messages.init_producer_id_response import InitProducerIdResponse
from kraft.protocol.messages.produce_response import ProduceResponse
from kraft.protocol.messages.push_telemetry_request import PushTelemetryRequest
from kraft.protocol.messages.push_telemetry_response import PushTelemetryResponse
from kraft.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from kraft.protocol.messages.unregister_broker_response import UnregisterBrokerResponse
from kraft_native.batch.records import BatchBuilder
from tests.runtime.nodes import config, with_node

EXACT, DEFAULT, SPECIFIED = 0, 1, 2
NATIVE = {"Produce", "Fetch", "ApiVersions", "ShareFetch", "ShareAcknowledge"}


def test_all_apis_that_kafka_announces_are_served():
    announced = {name for name, api in API_BY_NAME.items() if api.broker_versions is not None and not api.private}
    served = NATIVE | {name for name, api in API_BY_NAME.items() if api.key in SERVED}
    assert announced - served == set()


def test_each_file_of_apis_serves_what_it_is_listed_with():
    for file, keys in FILES.items():
        for key in keys:
            handler = handler_of(key)
            assert handler.__module__ == f"kraft.broker.apis.{file}"
            assert handler.__name__ in (key.name.lower(), "serve")
            names = [name.removeprefix("_") for name in inspect.signature(handler).parameters]
            assert names == ["broker", "request", "context", "answer"]
    assert len(SERVED) == len(set(SERVED)), "an API has one handler"
    here = Path(apis.__file__).parent
    assert {path.stem for path in here.glob("*.py")} == {"__init__", *FILES}


def test_telemetry_is_answered_and_not_announced(tmp_path):
    def work(cluster, node):
        connection = cluster.any()
        assert not {GetTelemetrySubscriptionsRequest.API_KEY, PushTelemetryRequest.API_KEY} & connection.versions.keys()
        subscription = connection.send(GetTelemetrySubscriptionsRequest(), GetTelemetrySubscriptionsResponse, version=0)
        assert (subscription.error_code, subscription.accepted_compression_types,
                subscription.push_interval_ms) == (ErrorCode.NONE, [4, 3, 1, 2], 300_000)
        assert (subscription.telemetry_max_bytes, subscription.delta_temporality,
                subscription.requested_metrics) == (4, True, [])

        def push(**fields):
            request = PushTelemetryRequest(client_instance_id=subscription.client_instance_id,
                                           subscription_id=subscription.subscription_id, **fields)
            return connection.send(request, PushTelemetryResponse, version=0).error_code

        assert push(metrics=b"1234") == ErrorCode.NONE
        assert push(metrics=b"12345", terminating=True) == ErrorCode.TELEMETRY_TOO_LARGE
        assert push() == ErrorCode.INVALID_REQUEST

    with_node(config(tmp_path / "data", telemetry_max_bytes="4"), work)


def set_limits(cluster, entity, limits):
    entry = alter.EntryData(
        entity=[alter.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[alter.OpData(key=key, value=value) for key, value in limits.items()])
    request = alter.AlterClientQuotasRequest(entries=[entry])
    return cluster.send(request, AlterClientQuotasResponse).entries[0].error_code


def limits(cluster, *components, strict=False):
    answer = cluster.send(describe.DescribeClientQuotasRequest(strict=strict, components=[
        describe.ComponentData(entity_type=kind, match_type=match, match=name) for kind, match, name in components
    ]), DescribeClientQuotasResponse)
    if answer.error_code:
        assert answer.entries is None and answer.error_message
        return answer.error_code
    return [({part.entity_type: part.entity_name for part in entry.entity},
             {value.key: value.value for value in entry.values}) for entry in answer.entries]


def test_limits_of_clients_are_kept_and_found(tmp_path):
    both = {"client-id": "c", "user": "a"}
    entries = [({"user": "a"}, {"producer_byte_rate": 5.0}), ({"user": None}, {"consumer_byte_rate": 6.0}),
               (both, {"request_percentage": 7.5})]

    def first(cluster, node):
        assert [set_limits(cluster, *entry) for entry in entries] == [0, 0, 0]
        assert set_limits(cluster, {"user": "a"}, {"no_limit": 1.0}) == ErrorCode.INVALID_REQUEST

    def second(cluster, node):
        assert limits(cluster) == entries
        assert limits(cluster, ("user", EXACT, "a")) == [entries[0], entries[2]]
        assert limits(cluster, ("user", EXACT, "a"), strict=True) == [entries[0]]
        assert limits(cluster, ("user", DEFAULT, None)) == [entries[1]]
        assert limits(cluster, ("client-id", SPECIFIED, None), ("user", SPECIFIED, None)) == [entries[2]]
        assert limits(cluster, ("group", SPECIFIED, None)) == ErrorCode.UNSUPPORTED_VERSION
        for wrong in ((("", EXACT, "a"),), (("user", EXACT, None),), (("user", DEFAULT, "a"),), (("user", 3, None),),
                      (("user", EXACT, "a"), ("user", EXACT, "b")), (("user", EXACT, "a"), ("ip", EXACT, "b"))):
            assert limits(cluster, *wrong) == ErrorCode.INVALID_REQUEST

    with_node(config(tmp_path / "data"), first)
    with_node(config(tmp_path / "data"), second)


def test_scram_credentials_with_a_client_of_others(tmp_path):
    def work(cluster, node):
        admin = librdkafka.AdminClient({"bootstrap.servers": f"127.0.0.1:{node.listeners['PLAINTEXT'].port}"})
        info = librdkafka.ScramCredentialInfo(librdkafka.ScramMechanism.SCRAM_SHA_512, 8192)
        made = admin.alter_user_scram_credentials(
            [librdkafka.UserScramCredentialUpsertion("alice", info, b"password", b"salt")])
        assert made["alice"].result(10) is None
        found = admin.describe_user_scram_credentials(["alice"])["alice"].result(10)
        assert [(each.mechanism, each.iterations) for each in found.scram_credential_infos] == [
            (librdkafka.ScramMechanism.SCRAM_SHA_512, 8192)]
        deleted = admin.alter_user_scram_credentials([librdkafka.UserScramCredentialDeletion("alice", info.mechanism)])
        assert deleted["alice"].result(10) is None
        assert node.parts.core.broker.image.scram == {}

    with_node(config(tmp_path / "data"), work)


def test_replicas_that_lie_where_they_shall(tmp_path):
    def work(cluster, node):
        home = str((tmp_path / "data").absolute())

        def move(path, name="no such topic"):
            request = moves.AlterReplicaLogDirsRequest(dirs=[moves.AlterReplicaLogDir(path=path, topics=[
                moves.AlterReplicaLogDirTopic(name=name, partitions=[0])])])
            answer = cluster.send(request, AlterReplicaLogDirsResponse)
            return answer.results[0].partitions[0].error_code

        assert move("/no/such/directory") == ErrorCode.LOG_DIR_NOT_FOUND
        assert move(home) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        long = 240 * "x"                   # no room for the name of a future replica's directory
        assert move("/no/such/directory", long) == move(home, long) == ErrorCode.INVALID_TOPIC_EXCEPTION

    with_node(config(tmp_path / "data"), work)


def test_a_node_that_was_unregistered_comes_back(tmp_path):
    def work(cluster, node):
        broker = node.parts.core.broker
        before = broker.epoch
        answer = cluster.send(UnregisterBrokerRequest(broker_id=node.config.node_id),
                                           UnregisterBrokerResponse)
        assert answer.error_code == ErrorCode.NONE
        deadline = time.monotonic() + 20
        while broker.epoch == before or broker.image.brokers[node.config.node_id].fenced:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert broker.epoch > before
        made = cluster.send(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1),
                                  InitProducerIdResponse)
        assert made.error_code == ErrorCode.NONE

    with_node(config(tmp_path / "data", broker_heartbeat_interval_ms="50"), work)


def test_the_first_producer_id_is_0_and_a_later_process_holds_ids_ready(tmp_path):
    """Ids are not taken before there is a producer, as Kafka's brokers; later they are held before one needs them."""
    def first(cluster, node):
        assert node.parts.control.image.next_producer_id == -1
        made = cluster.send(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1),
                            InitProducerIdResponse)
        assert (made.error_code, made.producer_id) == (ErrorCode.NONE, 0)

    def second(_cluster, node):
        deadline = time.monotonic() + 20
        while node.parts.control.image.next_producer_id <= BLOCK_SIZE:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    settings = config(tmp_path / "data")
    with_node(settings, first)
    with_node(settings, second)


def test_directories_are_cordoned_through_a_broker_and_not_by_a_controller(tmp_path):
    """A request inside an envelope has passed the checks of the broker that forwarded it."""
    data = tmp_path / "data"
    request = configs.IncrementalAlterConfigsRequest(resources=[configs.AlterConfigsResource(
        resource_type=BROKER_RESOURCE, resource_name="1", configs=[configs.AlterableConfig(
            name="cordoned.log.dirs", config_operation=0, value=str(data))])])
    api = API_BY_KEY[request.API_KEY]
    envelope = EnvelopeRequest(request_data=encode_request_header(api, 1, 7, "x") + request.encode(1),
                               client_host_address=b"\x7f\0\0\1")

    def work(_cluster, node):
        with Connection("127.0.0.1", node.listeners["CONTROLLER"].port) as controller:
            refused = controller.send(request, IncrementalAlterConfigsResponse).responses[0]
            assert refused.error_code == ErrorCode.INVALID_CONFIG
            assert str(data) in refused.error_message
            sealed = controller.send(envelope, EnvelopeResponse)
            assert sealed.error_code == ErrorCode.NONE
            _, body = decode_response_header(sealed.response_data, api, 1)
            assert IncrementalAlterConfigsResponse.decode(body, 1).responses[0].error_code == ErrorCode.NONE
            assert controller.send(request, IncrementalAlterConfigsResponse).responses[0].error_code == ErrorCode.NONE

    with_node(config(data), work)


def test_the_only_voter_stays(tmp_path):
    """A broker accepts changes of the voters, as a controller does."""
    def work(cluster, node):
        client = QuorumClient(cluster)
        voter = client.describe().voters[0]
        assert voter.node_id == node.config.node_id
        with pytest.raises(RefusedError, match="VOTER_NOT_FOUND"):
            client.remove(voter.node_id, voter.directory_id)
        with pytest.raises(RefusedError, match="DUPLICATE_VOTER"):
            client.add(voter.node_id, voter.directory_id, [("CONTROLLER", "127.0.0.1", 9)])
        client.reassign((voter.node_id,))
        client.reassign(None)

    with_node(config(tmp_path), work)


def test_client_quotas_are_kept(tmp_path):
    def limit(cluster, name, key, value):
        entity = [alter.EntityData(entity_type="client-id", entity_name=name)]
        operation = alter.OpData(key=key, value=value or 0.0, remove=value is None)
        answer = cluster.send(alter.AlterClientQuotasRequest(
            entries=[alter.EntryData(entity=entity, ops=[operation])]), AlterClientQuotasResponse)
        assert answer.entries[0].error_code == ErrorCode.NONE

    def produce(cluster):
        records = BatchBuilder()
        records.append(b"x" * 110_000)
        request = produce_request({("t", 0): records.build()}, 1, 1000)
        answer = cluster.any().send(request, ProduceResponse, version=9)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        return answer.throttle_time_ms

    def fetch(cluster):
        request = fetch_request("t", 0, 0, AT_ONCE)
        return cluster.any().send(request, FetchResponse, version=12).throttle_time_ms

    def work(cluster, node):
        cluster.metadata(["t"], create=True)
        while cluster.metadata(["t"]).topics[0].error_code:
            time.sleep(0.01)
        assert produce(cluster) == 0
        # With two samples of one second, so much may come within one sample; what exceeds it is paid for in full.
        limit(cluster, "kraft", "producer_byte_rate", 100_000.0)
        limit(cluster, None, "consumer_byte_rate", 100_000.0)
        assert produce(cluster) > 0
        assert fetch(cluster) > 0
        with Cluster(f"127.0.0.1:{node.listeners['PLAINTEXT'].port}", client_id="other") as other:
            assert produce(other) == 0, "the limit is that of another client id"
            assert fetch(other) > 0, "the default holds for everybody"
        limit(cluster, "kraft", "producer_byte_rate", None)
        assert produce(cluster) == 0

    with_node(config(tmp_path / "data", quota_window_num="2"), work)
