"""Three controllers in three processes: they elect a leader, commit, lose their leader, and change their voters."""

import shutil
from uuid import UUID

import pytest

from kraft.client.connection import Connection
from kraft.client.quorum import Replica
from kraft.client.refusals import RefusedError
from kraft.metadata.image import BROKER_LOGGER_RESOURCE, BROKER_RESOURCE
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from kraft.protocol.messages.describe_configs_response import DescribeConfigsResponse
from kraft.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraft.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from kraft.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from kraft.protocol.messages.update_features_response import UpdateFeaturesResponse
from tests.integration.admin import wait_until
from tests.integration.history import registered
from tests.integration.quorum import ControllerProcess, MakeQuorum, Quorum, create_topic, register_broker, topics_exist


@pytest.mark.parametrize("static", [False, True])
def test_leaders_die_and_nothing_is_lost(new_quorum: MakeQuorum, static: bool) -> None:
    quorum = new_quorum(3, static=static)
    quorum.start()
    epoch = quorum.describe().epoch
    register_broker(quorum.leader)
    names: list[str] = []
    for kill in range(3):
        name = f"made-before-kill-{kill}"
        for node in quorum.others:
            assert create_topic(node, name)[0] == ErrorCode.NOT_CONTROLLER
        leader = quorum.leader
        assert create_topic(leader, name)[0] == ErrorCode.NONE
        names.append(name)
        leader.kill()
        found = quorum.describe()
        assert found.leader != leader.node_id
        assert found.epoch > epoch
        epoch = found.epoch
        assert topics_exist(quorum.leader, names)
        leader.start()
    for node in quorum.nodes.values():
        node.kill()
    quorum.start()
    found = quorum.describe()
    assert found.epoch > epoch
    assert [each.node_id for each in found.voters] == [1, 2, 3]
    assert topics_exist(quorum.leader, names)


def described_node_id(node: ControllerProcess) -> str | None:
    """Return the node id that the controller listener reports among the node's own settings."""
    describe_request = DescribeConfigsRequest(resources=[DescribeConfigsResource(
        resource_type=BROKER_RESOURCE, resource_name=str(node.node_id), configuration_keys=["node.id"])])
    with Connection("127.0.0.1", node.controller_port) as connection:
        [found] = connection.send(describe_request, DescribeConfigsResponse).results
    assert found.error_code == ErrorCode.NONE, found.error_message
    return next(each.value for each in found.configs if each.name == "node.id")


def logger_level(node: ControllerProcess, logger: str) -> str | None:
    """Return the logger's level that the node's controller listener describes."""
    describe_request = DescribeConfigsRequest(resources=[DescribeConfigsResource(
        resource_type=BROKER_LOGGER_RESOURCE, resource_name=str(node.node_id), configuration_keys=[logger])])
    with Connection("127.0.0.1", node.controller_port) as connection:
        [found] = connection.send(describe_request, DescribeConfigsResponse).results
    assert found.error_code == ErrorCode.NONE, found.error_message
    return next(each.value for each in found.configs)


def set_logger_level(node: ControllerProcess, logger: str, level: str) -> list[int]:
    """Return the error codes. The request names the loggers, and a broker that only the active controller can
    change."""
    describe_request = IncrementalAlterConfigsRequest(resources=[
        AlterConfigsResource(resource_type=kind, resource_name=name, configs=[
            AlterableConfig(name=key, config_operation=0, value=value)])
        for kind, name, key, value in ((BROKER_RESOURCE, "", "log.cleaner.threads", "2"),
                                       (BROKER_LOGGER_RESOURCE, str(node.node_id), logger, level))])
    with Connection("127.0.0.1", node.controller_port) as connection:
        return [each.error_code
                for each in connection.send(describe_request, IncrementalAlterConfigsResponse).responses]


def test_every_process_registers_its_controller(new_quorum: MakeQuorum) -> None:
    quorum = new_quorum(3)

    def registrations() -> dict[int, int]:
        found = registered(quorum.leader.directory, quorum.describe().high_watermark)
        assert all(each.end_points[0].port == quorum.nodes[node_id].controller_port
                   for node_id, records in found.items() for each in records)
        return {node_id: len(records) for node_id, records in found.items()}

    quorum.start()
    wait_until(lambda: registrations() == {1: 1, 2: 1, 3: 1}, "all controllers are registered")
    other = quorum.others[0]
    assert described_node_id(other) == str(other.node_id)
    for node, code in ((other, ErrorCode.NOT_CONTROLLER), (quorum.leader, ErrorCode.NONE)):
        assert logger_level(node, "kraft.runtime") == "INFO"
        assert set_logger_level(node, "kraft.runtime", "WARN") == [ErrorCode.NONE, code]
        assert logger_level(node, "kraft.runtime") == "WARN"
        assert set_logger_level(node, "kraft.none", "WARN")[0] == ErrorCode.INVALID_CONFIG
    other.restart()
    wait_until(lambda: registrations()[other.node_id] == 2, "the new process is registered")
    quorum.leader.kill()
    assert registrations() == {node_id: 1 + (node_id == other.node_id) for node_id in quorum.nodes}


def test_stopped_leader_hands_over(new_quorum: MakeQuorum) -> None:
    quorum = new_quorum(3)
    quorum.start()
    before = quorum.describe()
    quorum.leader.stop()
    after = quorum.describe()
    assert after.leader != before.leader
    assert after.epoch == before.epoch + 1


def test_voters_come_and_go(new_quorum: MakeQuorum) -> None:
    """Voters change from one to three, then the first leader is removed. Each time the log is complete."""
    quorum = new_quorum(3, voters=1)
    quorum.start()
    assert [each.node_id for each in quorum.describe().voters] == [1]
    register_broker(quorum.leader)
    assert create_topic(quorum.leader, "first")[0] == ErrorCode.NONE
    client = quorum.client()
    for node_id in (2, 3):
        node = quorum.nodes[node_id]
        directory_id = _replica(quorum, node_id).directory_id
        client.add(node_id, directory_id, [("CONTROLLER", "127.0.0.1", node.controller_port)])
    assert [each.node_id for each in quorum.describe().voters] == [1, 2, 3]
    with pytest.raises(RefusedError, match="DUPLICATE_VOTER"):
        client.add(3, directory_id, [("CONTROLLER", "127.0.0.1", quorum.nodes[3].controller_port)])
    client.remove(1, _replica(quorum, 1).directory_id)
    found = quorum.describe()
    assert [each.node_id for each in found.voters] == [2, 3]
    assert found.leader in (2, 3)
    quorum.nodes[1].kill()
    assert topics_exist(quorum.leader, ["first"])
    assert create_topic(quorum.leader, "second")[0] == ErrorCode.NONE


def _replica(quorum: Quorum, node_id: int) -> Replica:
    """Wait for a replica's entry at the leader, which it creates after the first Fetch of the replica."""
    while True:
        for each in quorum.describe().replicas:
            if each.node_id == node_id:
                return each


def test_controllers_join_by_themselves(new_quorum: MakeQuorum) -> None:
    """One controller joins, and joins again after its disk was replaced."""
    quorum = new_quorum(3, voters=2)
    for node in quorum.nodes.values():
        node.settings["controller.quorum.auto.join.enable"] = "true"
    quorum.start()

    def voters() -> dict[int, UUID]:
        return {each.node_id: each.directory_id for each in quorum.describe().voters}

    wait_until(lambda: list(voters()) == [1, 2, 3], "the third controller votes")
    first = voters()[3]
    newcomer = quorum.nodes[3]
    newcomer.kill()
    shutil.rmtree(newcomer.directory)
    newcomer.format("--no-initial-controllers")
    newcomer.start()
    wait_until(lambda: voters().get(3, first) != first, "it votes with its new disk")


def test_static_voters_become_records_of_the_log(new_quorum: MakeQuorum) -> None:
    """kraft.version is raised while the controllers run; then voters can be changed."""
    quorum = new_quorum(3, static=True)
    quorum.start()
    client = quorum.client()

    def upgraded() -> bool:
        update = UpdateFeaturesRequest(feature_updates=[
            FeatureUpdateKey(feature="kraft.version", max_version_level=1, upgrade_type=1)])
        with Connection("127.0.0.1", quorum.leader.controller_port) as connection:
            answer = connection.send(update, UpdateFeaturesResponse)
        retried = "have not reported their address and disk yet" in (answer.error_message or "")
        assert answer.error_code == ErrorCode.NONE or retried
        return answer.error_code == ErrorCode.NONE

    assert not any(each.directory_id.int for each in quorum.describe().voters)
    wait_until(upgraded, "all voters have reported to the leader")
    found = quorum.describe()
    assert {each.node_id: each.addresses for each in found.voters} == {
        node_id: (f"CONTROLLER://{node.controller_address}",) for node_id, node in quorum.nodes.items()}
    quorum.leader.kill_and_start()
    removed = quorum.others[0]
    client.remove(removed.node_id, next(each.directory_id for each in found.voters if each.node_id == removed.node_id))
    assert removed.node_id not in {each.node_id for each in quorum.describe().voters}


def test_not_formatted(new_quorum: MakeQuorum) -> None:
    node = new_quorum(1).nodes[1]
    node.directories = [node.directory.with_name("elsewhere")]
    with pytest.raises(AssertionError, match="elsewhere: it is not formatted"):
        node.start()
