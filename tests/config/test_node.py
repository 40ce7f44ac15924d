"""A node's configuration as a whole: files that Kafka accepts, and refusals with their reasons."""

import re
from pathlib import Path

import pytest

from kraft.config import tables
from kraft.config.effective import BrokerLayers, Source
from kraft.config.errors import InvalidConfigError
from kraft.config.listener_settings import effective_of, listener_value, of_listeners
from kraft.config.node_config import SHOWN_MAX, Endpoint, NodeConfig, cordon_fault, parse_endpoint, parse_socket
from kraft.config.properties import KIP_NAMES, read_properties
from kraft.runtime.net.server_limits import connection_rates, controller_limits, server_limits
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


KIP_TEXTS = {"controller.id": ("5", "6"), "controller.listeners": ("CONTROLLER", "OTHER"),
             "quorum.voters": ("5@a:1", "5@b:1"), "bootstrap.quorum.voters": ("5@a:1", "5@b:1"),
             "bootstrap.servers": ("a:1,b:2", "a:1"), "controller.connect": ("a:1,b:2", "a:1")}


@pytest.mark.parametrize(("name", "released"), KIP_NAMES.items())
def test_the_kips_names_are_taken(tmp_path, name, released):
    text, other = KIP_TEXTS.get(name, ("77", "78"))
    file = tmp_path / "server.properties"
    file.write_text(f"{name}={text}\n{released}={text}\n")
    config = NodeConfig(read_properties(file))
    assert config[released] == NodeConfig({released: text})[released] != NodeConfig({})[released]
    file.write_text(f"{name}={text}\n{released}={other}\n")
    with pytest.raises(InvalidConfigError, match=f"{name}={text} and {released}={other} are one setting"):
        read_properties(file)


def test_all_wrong_settings_are_reported_together():
    text = refused(num_partitions="0", log_retention_ms="soon")
    assert "num.partitions: 0" in text
    assert "log.retention.ms: 'soon'" in text


@pytest.mark.parametrize(("cordoned", "roles", "why"), [
    ("/a/../c", "broker", "'/a/../c' is not in log.dirs"),
    ("/a,/c,/d", "broker,controller", "'/c', '/d' is not in log.dirs"),
    ("*,/a", "broker", "must be alone"),
    ("/a/,b", "broker", None), ("*", "broker", None), ("", "broker", None),
    ("/c", "controller", None),                  # has no log directories of a broker
])
def test_directories_that_a_file_cordons_are_its_own(cordoned, roles, why):
    texts = {"process.roles": roles, "log.dirs": "/a,b", "cordoned.log.dirs": cordoned}
    if why is None:
        assert NodeConfig(texts).log_dirs == (Path("/a"), Path("b"))
    else:
        with pytest.raises(InvalidConfigError, match=f"cordoned.log.dirs: .*{re.escape(why)}"):
            NodeConfig(texts)


def test_the_search_for_wrong_directories_ends_soon():
    """A value can name some sixteen thousand; each costs a path."""
    fault = cordon_fault((f"/x{number}" for number in range(5_000)), [Path("/a")])
    assert fault is not None and fault.count("'/x") == SHOWN_MAX



def test_keys_of_plug_ins_pass():
    assert NodeConfig({"rsm.config.a": "1"}).node_id == 1


LISTENERS = {"listeners": "INSIDE://:1,OUTSIDE://h:2,CTRL://:3", "controller.listener.names": "CTRL",
             "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,CTRL:PLAINTEXT"}


def test_limits_of_one_listener():
    config = NodeConfig({**LISTENERS, "max.connections": "9", "listener.name.inside.max.connections": "5",
                         "listener.name.ctrl.max.connections": "7", "listener.name.inside.num.network.threads": "2",
                         "listener.name.outside.max.connection.creation.rate": "3"})
    limits = server_limits(config.layers())
    assert limits.connections_max == 9
    assert limits.connections_by_listener == {"INSIDE": 5, "CTRL": 7}
    rates = connection_rates(config)
    assert [rates.delay_ms("OUTSIDE", lambda: 0) > 0 for _ in range(35)] == [False] * 30 + [True] * 5
    assert not any(rates.delay_ms("INSIDE", lambda: 0) for _ in range(99))


def test_settings_of_one_listener_in_their_order():
    """Settings of the broker precede those of all brokers, which precede the file's; the node's own setting is last."""
    layers = BrokerLayers(
        dynamic={"listener.name.inside.max.connections": "3", "listener.name.outside.ssl.protocol": "x"},
        dynamic_default={"listener.name.inside.max.connections": "4", "listener.name.outside.max.connections": "6"},
        static={"listener.name.inside.max.connections": "5", "max.connections": "9"})
    assert of_listeners("max.connections", layers) == {"INSIDE": 3, "OUTSIDE": 6}
    assert of_listeners("max.connection.creation.rate", layers) == {}
    found = listener_value("listener.name.inside.max.connections", layers)
    assert (found.setting.name, found.value, found.source) == (
        "listener.name.inside.max.connections", 3, Source.DYNAMIC_BROKER)
    assert [(each.name.removeprefix("listener.name.inside."), each.text, each.source.name)
            for each in found.synonyms] == [
        ("max.connections", "3", "DYNAMIC_BROKER"), ("max.connections", "4", "DYNAMIC_DEFAULT_BROKER"),
        ("max.connections", "5", "STATIC_BROKER"), ("max.connections", "9", "STATIC_BROKER"),
        ("max.connections", "2147483647", "DEFAULT")]


def test_protocols_of_listeners():
    """The map, or the listener's own name, says which are encrypted. The node connects to those between nodes."""
    config = NodeConfig({
        "listeners": "INSIDE://:1,OUTSIDE://:2,CTRL://:3", "controller.listener.names": "CTRL",
        "advertised.listeners": "INSIDE://h:1,OUTSIDE://h:2", "inter.broker.listener.name": "INSIDE",
        "listener.security.protocol.map": "INSIDE:SSL,OUTSIDE:PLAINTEXT,CTRL:SSL"})
    assert [(each.listener, config.protocol_id(each.listener), config.has_tls(each.listener))
            for each in config.listeners] == [("INSIDE", 1, True), ("OUTSIDE", 0, False), ("CTRL", 1, True)]
    assert config.dialed_listeners == ("INSIDE", "CTRL")
    config = NodeConfig({"listeners": "PLAINTEXT://h:1,SSL://h:2", "security.inter.broker.protocol": "SSL",
                         "process.roles": "broker", "listener.name.controller.ssl.keystore.type": "PEM"})
    assert (config.inter_broker_listener, config.dialed_listeners) == ("SSL", ("SSL", "CONTROLLER"))
    assert config.ignored == {}


def test_settings_of_tls_of_one_listener():
    layers = BrokerLayers(dynamic={"listener.name.outside.ssl.client.auth": "required"},
                          static={"ssl.client.auth": "requested", "ssl.enabled.protocols": "TLSv1.3"})
    assert effective_of("ssl.client.auth", "OUTSIDE", layers).value == "required"
    assert effective_of("ssl.client.auth", "INSIDE", layers).value == "requested"
    assert effective_of("ssl.enabled.protocols", "INSIDE", layers).value == ["TLSv1.3"]
    assert effective_of("ssl.key.password", "INSIDE", layers).setting.sensitive
    config = NodeConfig({**LISTENERS, "listener.name.inside.ssl.client.auth": "none",
                         "listener.name.inside.ssl.provider": "x", "listener.name.inside.ssl.clientauth": "x"})
    assert sorted(config.ignored) == ["listener.name.inside.ssl.clientauth", "listener.name.inside.ssl.provider"]
    assert "TLS is OpenSSL's here" in config.ignored["listener.name.inside.ssl.provider"]
    with pytest.raises(InvalidConfigError, match=r"listener\.name\.inside\.ssl\.client\.auth: 'some' is not one of"):
        NodeConfig({**LISTENERS, "listener.name.inside.ssl.client.auth": "some"})


def test_buffers_of_connections():
    """The system chooses the receive buffer unless the file sets one."""
    limits = server_limits(NodeConfig(LISTENERS).layers())
    assert (limits.send_buffer_bytes, limits.receive_buffer_bytes) == (102_400, -1)
    assert limits.follower_send_buffer_bytes == -1
    assert limits.memory_bytes_max == server_limits(NodeConfig({
        **LISTENERS, "queued.max.request.bytes": str(1 << 40)}).layers()).memory_bytes_max
    assert server_limits(NodeConfig({
        **LISTENERS, "queued.max.request.bytes": str(200 << 20)}).layers()).memory_bytes_max == 200 << 20
    limits = server_limits(NodeConfig({**LISTENERS, "socket.receive.buffer.bytes": "102400",
                                       "socket.send.buffer.bytes": "-1"}).layers())
    assert (limits.send_buffer_bytes, limits.receive_buffer_bytes) == (-1, 102_400)
    limits = controller_limits(NodeConfig(LISTENERS).layers())
    assert (limits.send_buffer_bytes, limits.receive_buffer_bytes) == (-1, -1)
    limits = controller_limits(NodeConfig({**LISTENERS, "socket.send.buffer.bytes": "204800"}).layers())
    assert (limits.send_buffer_bytes, limits.receive_buffer_bytes) == (204_800, -1)
    assert limits.follower_send_buffer_bytes == 204_800


def test_rates_of_listeners_change_and_go():
    now_ms = 0
    rates = connection_rates(NodeConfig({**LISTENERS, "listener.name.outside.max.connection.creation.rate": "3"}))

    def held_back(count: int) -> int:
        return sum(rates.delay_ms("OUTSIDE", lambda: now_ms) > 0 for _ in range(count))

    assert held_back(35) == 5
    rates.limit_listeners({"OUTSIDE": 5})
    assert held_back(1) == 0, "what was counted counts on: 36 of 50"
    rates.limit_listeners({})
    assert held_back(99) == 0


@pytest.mark.parametrize(("key", "text", "says"), [
    ("inside.max.conections", "5",
     "unknown setting listener.name.inside.max.conections; did you mean listener.name.inside.max.connections?"),
    ("inside.principal.bilder.class", "", "did you mean listener.name.inside.principal.builder.class?"),
    ("inside.a.plug.in", "x", "unknown setting listener.name.inside.a.plug.in"),
    ("inside", "x", "unknown setting listener.name.inside"),
    ("inside.max.connections.per.ip", "5", "max.connections.per.ip is a setting of the whole node"),
    ("inside.authorizer.class.name", "", "authorizer.class.name is a setting of the whole node"),
    ("elsewhere.max.connections", "5", "elsewhere is none of listeners, which are written inside, outside, ctrl there"),
    ("INSIDE.max.connections", "5", "INSIDE is none of listeners"),
    ("elsewhere.ssl.client.auth", "none", "elsewhere is none of listeners"),
])
def test_nothing_of_one_listener_passes_silently(key, text, says):
    config = NodeConfig({**LISTENERS, f"listener.name.{key}": text})
    assert says in config.ignored[f"listener.name.{key}"]
    assert any(says in warning for warning in config.warnings)


def test_a_wrong_value_of_one_listener_is_refused():
    with pytest.raises(InvalidConfigError, match=r"listener\.name\.inside\.max\.connections: 'many' is not a whole"):
        NodeConfig({**LISTENERS, "listener.name.inside.max.connections": "many"})


@pytest.mark.parametrize(("key", "says"), [
    ("num.partitons", "unknown setting num.partitons; did you mean num.partitions?"),
    ("some.product.key", "unknown setting some.product.key"),
    ("zookeeper.connect", "this is a KRaft node: there is no ZooKeeper"),
    ("zookeeper.connection.timeout.ms", "there is no ZooKeeper"),
    ("inter.broker.protocol.version", "metadata.version decides"),
    ("log.message.format.version", "metadata.version decides"),
    ("advertised.host.name", "listeners and advertised.listeners"),
    ("ssl.keystore.location", "no listener has TLS, so none uses it"),
    ("ssl.of.a.later.release", "unknown setting ssl.of.a.later.release"),
    ("sasl.enabled.mechanisms", "no listener has SASL"),
    ("sasl.jaas.config", "no listener has SASL"),
    ("sasl.kerberos.service.name", "no listener has SASL"),
])
def test_ignored_settings_are_listed_with_the_reason(key, says):
    config = NodeConfig({key: "5"})
    assert says in config.ignored[key]
    assert "hush" not in NodeConfig({key: "hush"}).ignored[key]
    assert [says in warning and warning.endswith("(ignored)") for warning in config.warnings] == [True]


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
    ({"listeners": "TRACE://:1,CONTROLLER://:2", "controller_listener_names": "CONTROLLER"}, "offers PLAINTEXT"),
    ({"security_inter_broker_protocol": "SSL"}, "no listener of a broker has the name SSL"),
    ({"advertised_listeners": "OTHER://h:1"}, "none of listeners"),
    ({"advertised_listeners": "PLAINTEXT://0.0.0.0:1"}, "no address that a client can connect to"),
    ({"process_roles": "broker", "listeners": "PLAINTEXT://0.0.0.0:1"},
     "PLAINTEXT://0.0.0.0:1 is every address of this machine"),
    ({"process_roles": "broker", "listeners": "PLAINTEXT://[::]:1"}, "advertised.listeners=PLAINTEXT://HOST:1"),
    ({"process_roles": "broker", "listeners": "PLAINTEXT://[0:0::0]:1"}, "PLAINTEXT://[::]:1 is every address"),
    ({"process_roles": "broker", "listeners": "PLAINTEXT://0:1"}, "PLAINTEXT://0.0.0.0:1 is every address"),
    ({"advertised_listeners": "PLAINTEXT://[::0]:1"}, "no address that a client can connect to"),
    ({"listeners": "PLAINTEXT://:1,CONTROLLER://:1", "controller_listener_names": "CONTROLLER"}, "have one port"),
    ({"listeners": "PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.2:1", "controller_listener_names": "CONTROLLER"},
     "have one port"),
    ({"listeners": "PLAINTEXT://127.0.0.1:1,CONTROLLER://[::]:1", "controller_listener_names": "CONTROLLER"},
     "have one port"),
    ({"log_dirs": "/a,/a"}, "twice"),
    ({"log_dirs": "/a,/b/../a"}, "twice"),
    ({"replica_selector_class": "org.example.Nearest"}, "is not one of"),
    ({"security_inter_broker_protocol": "SASL_PLAINTEXT"}, "no listener of a broker has the name SASL_PLAINTEXT"),
    ({"security_inter_broker_protocol": "SSL", "inter_broker_listener_name": "PLAINTEXT"}, "give one of them"),
])
def test_contradictions_are_refused_by_name(texts, says):
    assert says in refused(**texts)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "[::]"])
def test_controllers_may_listen_on_every_address(host):
    texts = {"listeners": f"PLAINTEXT://h:1,CONTROLLER://{host}:2", "controller.listener.names": "CONTROLLER"}
    config = NodeConfig(texts)
    assert config.advertised(config.controller_listeners[0]) == Endpoint("CONTROLLER", "127.0.0.1", 2)
    config = NodeConfig({**texts, "advertised.listeners": "PLAINTEXT://a:3,CONTROLLER://b:4"})
    assert [config.advertised(each) for each in config.listeners] == [("PLAINTEXT", "a", 3), ("CONTROLLER", "b", 4)]


def test_listener_names_may_differ_from_protocols():
    config = NodeConfig({"listeners": "INSIDE://:1,OUTSIDE://h:2,CTRL://:3", "controller.listener.names": "CTRL",
                         "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,CTRL:PLAINTEXT",
                         "inter.broker.listener.name": "INSIDE"})
    assert config.inter_broker_listener == "INSIDE"
    assert [each.listener for each in config.broker_listeners] == ["INSIDE", "OUTSIDE"]


def test_listener_names_may_be_written_in_any_case():
    config = NodeConfig({"listeners": "inside://:1,Outside://h:2,ctrl://:3", "controller.listener.names": "Ctrl",
                         "listener.security.protocol.map": "Inside:PLAINTEXT,OUTSIDE:plaintext,ctrl:PLAINTEXT",
                         "inter.broker.listener.name": "inside", "advertised.listeners": "inside://a:1,outside://b:2"})
    assert config.inter_broker_listener == "INSIDE"
    assert [each.listener for each in config.broker_listeners] == ["INSIDE", "OUTSIDE"]
    assert [each.listener for each in config.controller_listeners] == ["CTRL"]
    assert {config.protocol(each.listener) for each in config.listeners} == {"PLAINTEXT"}


def test_one_port_on_both_kinds_of_addresses():
    config = NodeConfig({"process.roles": "broker", "listeners": "A://127.0.0.1:9,B://[::1]:9",
                         "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT"})
    assert [each.port for each in config.listeners] == [9, 9]


@pytest.mark.parametrize(("name", "by_rack"), [
    (None, False), ("LeaderSelector", False), ("RackAwareReplicaSelector", True)])
def test_replicas_are_selected_by_the_names_of_kafkas_classes(name, by_rack):
    texts = {} if name is None else {"replica.selector.class": f"org.apache.kafka.common.replica.{name}"}
    assert NodeConfig(texts).selects_replicas_by_rack is by_rack


@pytest.mark.parametrize(("text", "expected"), [
    ("PLAINTEXT://:9092", ("PLAINTEXT", "", 9092)),
    ("plaintext://host.name:1", ("PLAINTEXT", "host.name", 1)),
    ("A_1://[::1]:65535", ("A_1", "::1", 65535)),
    ("A://[0:0::00]:1", ("A", "::", 1)),
    ("A://0.0:1", ("A", "0.0.0.0", 1)),
    ("A://1.2.3.4.5:1", ("A", "1.2.3.4.5", 1)),
])
def test_endpoints(text, expected):
    assert parse_endpoint("listeners", text) == expected
    assert parse_endpoint("listeners", str(parse_endpoint("listeners", text))) == expected


def test_sockets():
    assert parse_socket("kraft.metrics.listener", "[::1]:80") == ("::1", 80)
    with pytest.raises(InvalidConfigError, match=r"kraft\.metrics\.listener"):
        parse_socket("kraft.metrics.listener", "80")


@pytest.mark.parametrize(("name", "text"), [
    ("authorizer.class.name", "org.example.Authorizer"),
    ("alter.config.policy.class.name", "org.example.Policy"),
    ("client.quota.callback.class", "org.example.Quotas"),
    ("config.providers", "file"),
    ("create.topic.policy.class.name", "org.example.Policy"),
    ("group.share.persister.class.name", "org.example.Persister"),
    ("kafka.metrics.reporters", "org.example.Reporter"),
    ("metric.reporters", "org.example.Reporter"),
    ("principal.builder.class", "org.example.Principals"),
    ("remote.log.metadata.manager.class.name", "org.example.Manager"),
    ("remote.log.storage.manager.class.name", "org.example.Manager"),
    ("remote.log.storage.system.enable", "true"),
    ("log.preallocate", "true"),
    ("security.providers", "org.example.Provider"),
    ("listener.name.internal.principal.builder.class", "org.example.Principals"),
])
def test_settings_without_their_effect_are_refused_by_name(name, text):
    with pytest.raises(InvalidConfigError, match=name + ": .*is not supported") as error:
        NodeConfig({name: text})
    assert "hush" not in str(error.value)


def test_security_of_a_listener_may_stay_as_it_is():
    texts = {"ssl.client.auth": "none", "ssl.keystore.location": "", "ssl.of.a.later.release": "",
             "sasl.server.max.receive.size": "524288", "connections.max.reauth.ms": "0", "principal.builder.class": ""}
    assert NodeConfig({f"listener.name.plaintext.{name}": text for name, text in texts.items()}).node_id == 1


def test_settings_of_java_classes_may_stay_empty():
    names = ("authorizer.class.name", "metric.reporters", "principal.builder.class", "create.topic.policy.class.name")
    assert NodeConfig(dict.fromkeys(names, "")).roles == ("broker", "controller")


def test_kafkas_own_defaults_may_be_written_down():
    settings = {name: text for name, setting in tables.section("broker").items()
                if (text := setting.format(setting.default))}
    settings |= {"controller.listener.names": "CONTROLLER", "process.roles": "broker"}
    assert NodeConfig(settings).roles == ("broker",)
