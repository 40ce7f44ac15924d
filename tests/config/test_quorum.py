"""The quorum's settings, and contradictions between them."""

import pytest

from kraft.config.errors import InvalidConfigError
from kraft.config.node_config import NodeConfig
from kraft.config.quorum_config import (
    Address,
    StaticVoter,
    bootstrap_servers,
    check_quorum,
    is_sole_controller,
    static_voters,
)

CONTROLLER = {"process.roles": "controller", "listeners": "CONTROLLER://127.0.0.1:9093",
              "controller.listener.names": "CONTROLLER"}


def config(texts: dict[str, str], base: dict[str, str] = CONTROLLER) -> NodeConfig:
    return NodeConfig({"node.id": "2", **base, **texts})


def test_static_voters() -> None:
    found = static_voters(config({"controller.quorum.voters": "3@c:9, 1@[::1]:7,2@b:8"}))
    assert found == (StaticVoter(1, Address("::1", 7)), StaticVoter(2, Address("b", 8)),
                     StaticVoter(3, Address("c", 9)))
    assert static_voters(config({})) == ()


def test_voters_without_addresses_are_this_node_or_announce_themselves() -> None:
    """KIP-642's bootstrapping example begins with `quorum.voters=0`."""
    assert static_voters(config({"controller.quorum.voters": "2,1@a:9"})) == (
        StaticVoter(1, Address("a", 9)), StaticVoter(2, None))
    check_quorum(config({"controller.quorum.voters": "2"}))
    broker = {"process.roles": "broker", "controller.listener.names": "CONTROLLER"}
    with pytest.raises(InvalidConfigError, match=r"bootstrap\.servers: is needed"):
        check_quorum(config({"controller.quorum.voters": "1"}, broker))


def test_servers_may_be_uris() -> None:
    """KIP-631: "controller.connect: a comma-separated list of controller URIs"."""
    texts = {"controller.quorum.bootstrap.servers": "CONTROLLER://a:1, https://b:2/,[::1]:3"}
    assert bootstrap_servers(config(texts)) == (("a", 1), ("b", 2), ("::1", 3))


def test_bootstrap_servers() -> None:
    assert bootstrap_servers(config({"controller.quorum.bootstrap.servers": "a:1,b:2"})) == (("a", 1), ("b", 2))


@pytest.mark.parametrize(("texts", "why"), [
    ({"controller.quorum.voters": "x@a:1"}, "'x@a:1' is not id@host:port"),
    ({"controller.quorum.voters": "2@a"}, "'a' is not host:port"),
    ({"controller.quorum.voters": "2@a:1,2@b:1"}, "names a node twice"),
    ({"controller.quorum.voters": "1@a:1"}, "node.id 2 is not"),
    ({"controller.quorum.voters": "2@a:0"}, "a:0 is no address to connect to"),
    ({"controller.quorum.bootstrap.servers": ":9093"}, ":9093 is no address to connect to"),
    ({}, "controller.quorum.bootstrap.servers: is needed"),
    ({"controller.quorum.voters": "2@a:1", "controller.quorum.auto.join.enable": "true"}, "can be changed"),
])
def test_contradictions(texts: dict[str, str], why: str) -> None:
    with pytest.raises(InvalidConfigError, match=why):
        check_quorum(config(texts))


def test_broker_is_no_voter() -> None:
    broker = {"process.roles": "broker", "controller.listener.names": "CONTROLLER"}
    check_quorum(config({"controller.quorum.voters": "1@a:1"}, broker))
    with pytest.raises(InvalidConfigError, match=r"auto\.join\.enable: is for controllers"):
        check_quorum(config({"controller.quorum.auto.join.enable": "true",
                             "controller.quorum.bootstrap.servers": "a:1"}, broker))
    with pytest.raises(InvalidConfigError, match=r"process\.roles has no controller"):
        check_quorum(config({"controller.quorum.voters": "2@a:1"}, broker))


@pytest.mark.parametrize(("texts", "expected"), [
    ({}, True), ({"controller.quorum.voters": "2@localhost:9093"}, True),
    ({"controller.quorum.bootstrap.servers": "localhost:9093"}, True),
    ({"controller.quorum.bootstrap.servers": "elsewhere:9093"}, False),
    ({"controller.quorum.bootstrap.servers": "localhost:9093,localhost:9094"}, False),
    ({"controller.quorum.voters": "1@a:9093,2@localhost:9093"}, False), (CONTROLLER, False),
])
def test_sole_controller(texts: dict[str, str], expected: bool) -> None:
    assert is_sole_controller(config(texts, {})) is expected
