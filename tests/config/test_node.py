"""A node's configuration as a whole: files that Kafka takes, and what is refused with its reason."""

from pathlib import Path

import pytest

from kraft.config.errors import InvalidConfigError
from kraft.config.node import Endpoint, NodeConfig, check_broker_override, parse_endpoint, parse_socket
from kraft.config.properties import read_properties
from tests.golden import golden, needs_golden


def refused(**texts):
    with pytest.raises(InvalidConfigError) as error:
        NodeConfig({name.replace("_", "."): text for name, text in texts.items()})
    return str(error.value)


def test_nothing_need_be_said():
    config = NodeConfig({})
    assert config.node_id == 1
    assert config.roles == ("broker", "controller")
    assert config.broker_listeners == (Endpoint("PLAINTEXT", "", 9092),)
    assert config.controller_listeners == (Endpoint("CONTROLLER", "127.0.0.1", 9093),)
    assert config.inter_broker_listener == "PLAINTEXT"
    assert config["num.partitions"] == 1


@needs_golden
def test_a_file_that_kafka_ran_with_is_taken_as_it_is():
    config = NodeConfig(read_properties(golden("node", "server.properties")))
    assert config.node_id == 1
    assert config.controller_listener_names == ("CONTROLLER",)
    assert [each.port for each in config.listeners] == [32091, 32191]
    assert config.log_dirs == (Path("data"),)
    assert config["offsets.topic.num.partitions"] == 3
    assert config["log.index.size.max.bytes"] == 65536


def test_properties_have_comments_continuations_and_escapes(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("# a comment\nlog.dirs=/a,\\\n  /b\nnum.partitions : 4\nbroker.rack=r\\u00e4ck\n", "utf-8")
    config = NodeConfig(read_properties(file))
    assert config.log_dirs == (Path("/a"), Path("/b"))
    assert config["num.partitions"] == 4
    assert config["broker.rack"] == "räck"


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InvalidConfigError, match=r"none\.properties"):
        read_properties(tmp_path / "none.properties")


def test_everything_that_is_wrong_is_told_at_once():
    text = refused(num_partitons="3", num_partitions="0", log_retention_ms="soon")
    assert "unknown setting num.partitons; did you mean num.partitions?" in text
    assert "num.partitions: 0" in text
    assert "log.retention.ms: 'soon'" in text


def test_keys_of_plug_ins_pass():
    assert NodeConfig({"listener.name.internal.ssl.keystore.location": "x", "rsm.config.a": "1"}).node_id == 1


@pytest.mark.parametrize(("texts", "says"), [
    ({"process_roles": "broker,observer"}, "process.roles: 'observer' is not one of broker, controller"),
    ({"node_id": "1", "broker_id": "2"}, "broker.id: 2 is not node.id, 1"),
    ({"listeners": "PLAINTEXT://:9092"}, "controller.listener.names"),
    ({"listeners": "PLAINTEXT://:9092", "controller_listener_names": "CONTROLLER"}, "none is one of"),
    ({"listeners": "CONTROLLER://:1", "controller_listener_names": "CONTROLLER"}, "a broker needs one"),
    ({"listeners": "A://:1,A://:2", "controller_listener_names": "A"}, "twice"),
    ({"listeners": "PLAINTEXT://:70000", "controller_listener_names": "C"}, "0 to 65535"),
    ({"process_roles": "broker", "listeners": "PLAINTEXT://:1,CONTROLLER://:2",
      "controller_listener_names": "CONTROLLER"}, "process.roles has none"),
    ({"listeners": "SSL://:1,CONTROLLER://:2", "controller_listener_names": "CONTROLLER"}, "offers PLAINTEXT"),
    ({"advertised_listeners": "OTHER://h:1"}, "none of listeners"),
    ({"advertised_listeners": "PLAINTEXT://0.0.0.0:1"}, "no address that a client can connect to"),
    ({"log_dirs": "/a,/a"}, "twice"),
    ({"replica_selector_class": "org.example.Nearest"}, "is not one of"),
])
def test_contradictions_are_refused_by_name(texts, says):
    assert says in refused(**texts)


def test_listener_names_may_differ_from_protocols():
    config = NodeConfig({"listeners": "INSIDE://:1,OUTSIDE://h:2,CTRL://:3", "controller.listener.names": "CTRL",
                         "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,CTRL:PLAINTEXT",
                         "inter.broker.listener.name": "INSIDE"})
    assert config.inter_broker_listener == "INSIDE"
    assert [each.listener for each in config.broker_listeners] == ["INSIDE", "OUTSIDE"]


@pytest.mark.parametrize(("name", "by_rack"), [
    (None, False), ("LeaderSelector", False), ("RackAwareReplicaSelector", True)])
def test_replicas_are_selected_by_the_names_of_kafkas_classes(name, by_rack):
    texts = {} if name is None else {"replica.selector.class": f"org.apache.kafka.common.replica.{name}"}
    assert NodeConfig(texts).selects_replicas_by_rack is by_rack


@pytest.mark.parametrize(("text", "expected"), [
    ("PLAINTEXT://:9092", ("PLAINTEXT", "", 9092)),
    ("plaintext://host.name:1", ("PLAINTEXT", "host.name", 1)),
    ("A_1://[::1]:65535", ("A_1", "::1", 65535)),
])
def test_endpoints(text, expected):
    assert parse_endpoint("listeners", text) == expected
    assert parse_endpoint("listeners", str(parse_endpoint("listeners", text))) == expected


def test_sockets():
    assert parse_socket("kraft.metrics.listener", "[::1]:80") == ("::1", 80)
    with pytest.raises(InvalidConfigError, match=r"kraft\.metrics\.listener"):
        parse_socket("kraft.metrics.listener", "80")


def test_only_settings_that_may_change_change_at_run_time():
    check_broker_override("log.cleaner.threads", "2")
    with pytest.raises(InvalidConfigError, match="at the start only"):
        check_broker_override("num.partitions", "2")
    with pytest.raises(InvalidConfigError, match="unknown"):
        check_broker_override("log.cleaner.thread", "2")
    with pytest.raises(InvalidConfigError, match=r"log\.cleaner\.threads"):
        check_broker_override("log.cleaner.threads", "-1")
