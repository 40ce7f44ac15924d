"""SASL settings of listeners, and of the logins to other nodes."""

import pytest

from kraft.config.errors import InvalidConfigError
from kraft.config.node_config import NodeConfig
from kraft.config.sasl_settings import Credentials, sasl_settings

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
LOGIN = f'{PLAIN} username="node" password="hush" user_node="hush" user_alice="secret";'
LISTENERS = {
    "listeners": "PLAINTEXT://h:1,SASL_PLAINTEXT://h:2,CONTROLLER://h:3", "controller.listener.names": "CONTROLLER",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": LOGIN,
}
BETWEEN = {**LISTENERS, "security.inter.broker.protocol": "SASL_PLAINTEXT",
           "sasl.mechanism.inter.broker.protocol": "PLAIN"}
CONTROLLERS = {
    **LISTENERS, "listener.security.protocol.map":
        "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "sasl.mechanism.controller.protocol": "PLAIN", "listener.name.controller.plain.sasl.jaas.config": LOGIN,
}


def test_a_listener_takes_its_own_settings_before_those_of_the_node() -> None:
    config = NodeConfig({**LISTENERS, "connections.max.reauth.ms": "1000", "sasl.server.max.receive.size": "4096",
                         "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "SCRAM-SHA-512, PLAIN",
                         "listener.name.sasl_plaintext.plain.connections.max.reauth.ms": "2000"})
    found = sasl_settings("SASL_PLAINTEXT", config.layers())
    assert found.mechanisms == ("SCRAM-SHA-512", "PLAIN")
    assert found.reauth_ms == {"SCRAM-SHA-512": 1_000, "PLAIN": 2_000}
    assert found.receive_bytes_max == 4_096
    assert found.users == {"node": "hush", "alice": "secret"}
    assert "secret" not in repr(found)
    assert config.logins == {}
    assert config.ignored == {}


def test_logins_to_other_nodes() -> None:
    assert NodeConfig(BETWEEN).logins == {"SASL_PLAINTEXT": Credentials("PLAIN", "node", "hush")}
    assert NodeConfig(CONTROLLERS).logins == {"CONTROLLER": Credentials("PLAIN", "node", "hush")}
    others = {key: text for key, text in CONTROLLERS.items() if key != "listeners"}
    broker = NodeConfig({**others, "process.roles": "broker", "listeners": "PLAINTEXT://h:1",
                         "controller.quorum.voters": "1@h:3", "node.id": "2"})
    assert list(broker.logins) == ["CONTROLLER"]
    assert "hush" not in repr(broker.logins)
    assert [key for key in broker.ignored if "controller" in key] == []


def test_a_broker_logs_in_to_controllers_as_to_brokers() -> None:
    """A configuration of Kafka may name one login for all, in a file of its own."""
    texts = {**BETWEEN, "listener.security.protocol.map": CONTROLLERS["listener.security.protocol.map"],
             "sasl.mechanism.controller.protocol": "PLAIN", "process.roles": "broker", "node.id": "2",
             "listeners": "SASL_PLAINTEXT://h:2", "controller.quorum.voters": "1@h:3"}
    assert NodeConfig(texts).logins["CONTROLLER"] == Credentials("PLAIN", "node", "hush")
    other = texts | {"listener.name.controller.plain.sasl.jaas.config": f'{PLAIN} username="own" password="hush";'}
    assert NodeConfig(other).logins["CONTROLLER"] == Credentials("PLAIN", "own", "hush")


@pytest.mark.parametrize(("base", "texts", "why"), [
    (LISTENERS, {"sasl.enabled.mechanisms": "GSSAPI"}, "'GSSAPI' Kerberos is not supported; supported are PLAIN"),
    (LISTENERS, {"sasl.enabled.mechanisms": "DIGEST-MD5"}, "'DIGEST-MD5' is not known"),
    (LISTENERS, {"sasl.enabled.mechanisms": ""}, "listener SASL_PLAINTEXT has SASL, and no mechanism"),
    (LISTENERS, {"sasl.server.max.receive.size": "0"}, "sasl.server.max.receive.size: 0"),
    (LISTENERS, {"sasl.kerberos.service.name": "kafka"}, "sasl.kerberos.service.name: .*without Kerberos"),
    (LISTENERS, {"listener.name.sasl_plaintext.plain.sasl.jaas.config": ""}, "plain.sasl.jaas.config: is missing"),
    (LISTENERS, {"listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{SCRAM} user_a=hush;"},
     "the module of PLAIN is .*PlainLoginModule"),
    (LISTENERS, {"listener.name.sasl_plaintext.plain.sasl.jaas.config": "hush"}, "is not of the form"),
    (BETWEEN, {"sasl.mechanism.inter.broker.protocol": "GSSAPI"}, "sasl.mechanism.inter.broker.protocol: 'GSSAPI'"),
    (BETWEEN, {"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256"},
     "scram-sha-256.sasl.jaas.config: is missing; it holds the user with which this node logs in"),
    (BETWEEN, {"listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{PLAIN} user_a="hush";'},
     "has no username or no password"),
    (CONTROLLERS, {"sasl.mechanism.controller.protocol": "SCRAM-SHA-512",
                   "listener.name.controller.scram-sha-512.sasl.jaas.config": f"{SCRAM} username=a password=hush;"},
     "SCRAM-SHA-512 cannot work between controllers: its credentials are in the metadata log"),
])
def test_settings_that_cannot_work_are_refused(base: dict[str, str], texts: dict[str, str], why: str) -> None:
    with pytest.raises(InvalidConfigError, match=why) as error:
        NodeConfig({**base, **texts})
    assert "hush" not in str(error.value)


def test_settings_that_no_listener_uses_are_named() -> None:
    plain = {key: text for key, text in LISTENERS.items() if not key.startswith(("sasl.", "listener."))}
    config = NodeConfig({**plain, "listeners": "PLAINTEXT://h:1,CONTROLLER://h:3", "sasl.enabled.mechanisms": "PLAIN",
                         "sasl.kerberos.service.name": "kafka",
                         "listener.name.plaintext.plain.sasl.jaas.config": LOGIN})
    assert list(config.ignored) == ["sasl.enabled.mechanisms", "sasl.kerberos.service.name",
                                    "listener.name.plaintext.plain.sasl.jaas.config"]
    assert "hush" not in "".join(config.warnings)
