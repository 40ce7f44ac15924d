"""Settings of TLS and SASL that change while a node runs: refused at the request when they cannot be used, and applied
on nodes without a broker too."""

import logging
import uuid
from pathlib import Path

import pytest

from kraft.client import Cluster
from kraft.client.configs import Change, Operation, alter_configs, describe_configs
from kraft.client.connection import AuthenticationError, Connection
from kraft.client.refusals import RefusedError
from kraft.client.security import Security
from kraft.config.node_config import NodeConfig
from kraft.log_dir import new_cluster_id
from kraft.metadata.image import Endpoint
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraft.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from kraft.runtime.controller_node import ControllerNode
from kraft.runtime.server_node import ServerNode
from kraft.runtime.storage.formatting import FormatRequest, format_storage
from tests.runtime.net.test_sasl import MODULE, until
from tests.runtime.nodes import config, with_controller, with_node
from tests.tls.files import write_pem

TLS = "listener.name.tls.ssl."
JAAS = "listener.name.ctrl.plain.sasl.jaas.config"


def with_tls(data: Path, files: Path) -> NodeConfig:
    files.mkdir()
    write_pem(files)
    return config(data, **{
        "listeners": "PLAINTEXT://127.0.0.1:0,TLS://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,TLS:SSL,CONTROLLER:PLAINTEXT",
        f"{TLS}keystore.type": "PEM", f"{TLS}keystore.location": f"{files}/server.pem"})


@pytest.mark.parametrize(("changes", "why"), [
    ({"keystore.location": "FILES/none.pem"}, "No such file"), ({"keystore.location": "FILES/ca.pem"}, "key"),
    ({"client.auth": "required"}, "ssl.truststore.location: is needed"),
    ({"client.auth": "required", "truststore.type": "PEM", "truststore.location": "FILES/none.pem"}, "No such file"),
    ({"keystore.location": "FILES/client.pem"}, "ssl.allow"),
])
def test_what_cannot_be_used_is_refused_at_the_request(tmp_path: Path, changes: dict[str, str], why: str) -> None:
    files = tmp_path / "files"

    def work(cluster: Cluster, node: ServerNode) -> None:
        before = node.tls.listeners["TLS"] if node.tls else None
        wanted = [Change(f"{TLS}{name}", Operation.SET, text.replace("FILES", str(files)))
                  for name, text in changes.items()]
        with pytest.raises(RefusedError, match=f"(?s){why}.*INVALID_REQUEST"):
            alter_configs(cluster, "broker", "1", wanted)
        assert node.tls is not None
        assert node.tls.listeners["TLS"] is before
        shown = {each.name for each in describe_configs(cluster, "broker", ["1"])["1"] if each.config_source == 2}
        assert not shown & {each.name for each in wanted}
        alter_configs(cluster, "broker", "1", [Change(f"{TLS}enabled.protocols", Operation.SET, "TLSv1.3")])
        until(lambda: node.tls is not None and node.tls.listeners["TLS"] is not before)
        alter_configs(cluster, "broker", "1", [Change(f"{TLS}enabled.protocols", Operation.DELETE, None)])

    with_node(with_tls(tmp_path / "data", files), work)


def controller(data: Path) -> NodeConfig:
    return NodeConfig({
        "process.roles": "controller", "node.id": "1", "log.dirs": str(data), "listeners": "CTRL://127.0.0.1:0",
        "controller.listener.names": "CTRL", "listener.security.protocol.map": "CTRL:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN", "sasl.mechanism.controller.protocol": "PLAIN",
        "connection.failed.authentication.delay.ms": "1", "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
        JAAS: f'{MODULE} required username="node" password="hush" user_node="hush" user_bob="hush";'})


def connect(node: ControllerNode, user: str) -> Connection:
    return Connection("127.0.0.1", node.listeners["CTRL"].port, timeout=10,
                      security=Security(mechanism="PLAIN", username=user, password="hush"))


def is_user(node: ControllerNode, user: str) -> bool:
    try:
        connect(node, user).close()
    except AuthenticationError:
        return False
    return True


def change(connection: Connection, name: str, value: str) -> int:
    answer = connection.send(IncrementalAlterConfigsRequest(resources=[AlterConfigsResource(
        resource_type=4, resource_name="1", configs=[AlterableConfig(name=name, config_operation=0, value=value)])]),
        IncrementalAlterConfigsResponse)
    return answer.responses[0].error_code


def test_users_of_a_node_without_a_broker_change_while_it_runs(tmp_path: Path, caplog: pytest.LogCaptureFixture
                                                                ) -> None:
    settings = controller(tmp_path)
    format_storage(FormatRequest(1, new_cluster_id(), (tmp_path,), (Endpoint("CTRL", "127.0.0.1", 9093, 2),)), 0,
                   uuid.uuid4)

    def work(node: ControllerNode) -> None:
        with connect(node, "bob") as connection:
            until(lambda: 1 in node.parts.quorum.metadata.image.controllers)
            login = f'{MODULE} required username="node" password="hush" user_node="hush" user_carol="hush";'
            assert change(connection, JAAS, login) == ErrorCode.NONE
            until(lambda: is_user(node, "carol"))
            assert not is_user(node, "bob")

    with caplog.at_level(logging.ERROR):
        with_controller(settings, work)

    def restarted(node: ControllerNode) -> None:
        until(lambda: is_user(node, "carol"))
        assert not is_user(node, "bob")

    with_controller(settings, restarted)
