"""A cluster of real processes: what its fixture promises, and that every fault takes effect or reports that it did
not."""

import os
import socket
from pathlib import Path

import pytest

from kraft.client.connection import Connection
from kraft.local.addresses import ReservedPort, host_of
from kraft.local.cluster import LocalCluster
from kraft.local.errors import FaultDidNotBiteError, LocalNodeError
from kraft.local.local_node import LocalNode
from kraft.testing.pytest_plugin import NewCluster
from kraft_native.base.errors import InvalidArgumentError

FAST = {"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "200"}


def refused(host: str, port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((host, port)) != 0


def test_every_node_answers_clients_about_the_whole_cluster(kraft_cluster: LocalCluster) -> None:
    assert list(kraft_cluster.brokers) == [1, 2, 3]
    assert list(kraft_cluster.controllers) == [3001, 3002, 3003]
    assert len({node.pid for node in kraft_cluster.nodes.values()}) == 6
    for address in kraft_cluster.bootstrap.split(","):
        host, _, port = address.partition(":")
        with Connection(host, int(port)) as connection:
            assert connection.versions
    assert all(kraft_cluster.seen_by(each) == {1, 2, 3} for each in (1, 2, 3))


@pytest.mark.kraft_cluster(brokers=1, controllers=0, settings={"num.partitions": "7"})
def test_the_marker_says_what_there_is(kraft_cluster: LocalCluster) -> None:
    node = kraft_cluster.brokers[1]
    assert kraft_cluster.controllers == {1: node}
    assert node.settings["num.partitions"] == "7"


@pytest.mark.kraft_cluster(brokers=3, controllers=1, settings=FAST)
def test_faults_bite(kraft_cluster: LocalCluster) -> None:
    one, two, three = kraft_cluster.brokers.values()
    two.pause()
    kraft_cluster.wait_until(lambda: kraft_cluster.seen_by(1) == {1, 3}, "a broker that stands still is fenced")
    two.resume()
    kraft_cluster.wait_until(lambda: kraft_cluster.seen_by(1) == {1, 2, 3}, "it is back")
    kraft_cluster.cut(1, 2)
    assert not one.can_connect(two)
    assert one.can_connect(three)
    one.restart()
    assert not one.can_connect(two), "a cut outlasts a restart"
    kraft_cluster.heal()
    assert one.can_connect(two)
    kraft_cluster.expire_session(3)
    kraft_cluster.wait_until(lambda: kraft_cluster.seen_by(1) == {1, 2, 3}, "it is back")
    two.kill()
    assert refused(two.host, two.port)
    assert not two.running
    kraft_cluster.check()
    two.start()
    assert not refused(two.host, two.port)


@pytest.mark.kraft_cluster(brokers=1, controllers=0)
def test_disks(kraft_cluster: LocalCluster) -> None:
    node = kraft_cluster.brokers[1]
    node.slow_disk(30)
    assert node.call_agent(do="probe")["seconds"] >= 0.03
    node.heal_disk()
    node.fill_disk()
    assert node.call_agent(do="probe")["error"] != 0
    node.end()


@pytest.mark.kraft_cluster(brokers=2, controllers=0)
def test_a_fault_that_does_not_bite_fails(kraft_cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = kraft_cluster.brokers.values()
    # The requests are lost on the way, so nothing happens.
    original = LocalNode.call_agent
    monkeypatch.setattr(LocalNode, "call_agent", lambda self, **request: (
        {} if request["do"] in ("links", "disk") else original(self, **request)))
    with pytest.raises(FaultDidNotBiteError, match="still reaches"):
        kraft_cluster.cut(one, two)
    with pytest.raises(FaultDidNotBiteError, match="full disk"):
        one.fill_disk()
    with pytest.raises(FaultDidNotBiteError, match="small file took"):
        one.slow_disk(200)
    with pytest.raises(FaultDidNotBiteError, match="is fenced"):
        monkeypatch.setattr(LocalCluster, "cut", lambda *arguments: None)
        kraft_cluster.expire_session(1, seconds=0.1)
    with pytest.raises(FaultDidNotBiteError, match="SIGSTOP"):
        monkeypatch.setattr("kraft.local.local_node.STOP_SECONDS", 0.05)
        monkeypatch.setattr(LocalNode, "_state", lambda self: "S")
        one.pause()
    one.kill()
    two.kill()


def test_an_unexpected_end_of_a_node_is_reported(new_kraft_cluster: NewCluster) -> None:
    cluster = new_kraft_cluster(brokers=1, controllers=0)
    cluster.start()
    node = cluster.brokers[1]
    os.kill(node.pid, 9)
    with pytest.raises(LocalNodeError, match="ended by itself with -9"):
        cluster.wait_until(lambda: False, "it is seen")
    with pytest.raises(FaultDidNotBiteError, match="does not run, it ended by itself with -9"):
        node.kill()
    node.expect_end()
    with pytest.raises(FaultDidNotBiteError, match=r"does not run$"):
        node.kill()
    cluster.check()


def test_a_node_that_cannot_start_says_why(new_kraft_cluster: NewCluster) -> None:
    cluster = new_kraft_cluster(brokers=1, controllers=0, settings={"num.partitions": "many"})
    with pytest.raises(LocalNodeError, match=r"num\.partitions"):
        cluster.start()


def test_an_impossible_cluster(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="at least one"):
        LocalCluster(tmp_path, brokers=0, controllers=0)


def test_a_reserved_port_is_nobody_elses() -> None:
    first = ReservedPort(host_of(0))
    with socket.socket() as node, socket.socket() as other:
        node.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        assert refused(first.host, first.port)
        node.bind((first.host, first.port))
        node.listen()
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with pytest.raises(OSError, match="in use"):
            other.bind((first.host, first.port))
    first.close()
