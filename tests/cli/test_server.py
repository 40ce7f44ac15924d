"""`kraft server start`: what it needs, what it reports, and how it ends."""

import json
import signal
from pathlib import Path

import pytest

from kraft.cli.command import run
from kraft.cli.server_config import server_config
from kraft.config.errors import InvalidConfigError
from kraft.config.node_config import NodeConfig
from tests.cli.nodes import Tool, refused, running

# The settings of the file that Kafka 4.3 ships for a node of both roles.
KAFKAS_FILE = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,\\
    SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=2
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""

# The same for a broker of Kafka 3 with ZooKeeper.
OF_KAFKA_3 = """
broker.id=0
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kafka-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.message.format.version=3.0
inter.broker.protocol.version=3.6
log.retention.check.interval.ms=300000
zookeeper.connect=localhost:2181
zookeeper.connection.timeout.ms=18000
zookeeper.session.timeout.ms=18000
group.initial.rebalance.delay.ms=0
"""


@pytest.fixture
def kafkas_file(tmp_path: Path) -> Path:
    file = tmp_path / "server.properties"
    file.write_text(KAFKAS_FILE)
    return file


def listeners(config: NodeConfig) -> list[str]:
    return [str(each) for each in config.listeners]


def test_a_name_of_a_kip_means_the_released_one(tmp_path: Path) -> None:
    """`--set` wins under either name, whichever of them the file has."""
    file = tmp_path / "server.properties"
    for written, set_ in (("node.id", "controller.id"), ("controller.id", "node.id")):
        file.write_text(f"{written}=4\n")
        assert server_config(file, None, None, []).node_id == 4
        assert server_config(file, None, None, [f"{set_}=5"]).node_id == 5


def test_nothing_is_needed() -> None:
    config = server_config(None, None, None, [])
    assert listeners(config) == ["PLAINTEXT://127.0.0.1:9092", "CONTROLLER://127.0.0.1:0"]
    assert config.log_dirs == (Path("kraft-data"),)
    assert config.node_id == 1


def test_options_take_precedence_over_the_file(kafkas_file: Path) -> None:
    config = server_config(kafkas_file, None, None, [])
    assert listeners(config) == ["PLAINTEXT://:9092", "CONTROLLER://:9093"]
    assert config.log_dirs == (Path("/tmp/kraft-combined-logs"),)
    config = server_config(kafkas_file, Path("mine"), "127.0.0.2:19092", ["node.id=7", "num.partitions=4"])
    assert listeners(config) == ["PLAINTEXT://127.0.0.2:19092", "CONTROLLER://:9093"]
    assert [str(each) for each in config.advertised_listeners] == listeners(config)
    assert config.log_dirs == (Path("mine"),)
    assert config.node_id == 7
    assert config.integer("num.partitions") == 4


def test_listeners_of_set_count() -> None:
    config = server_config(None, None, None, ["listeners=PLAINTEXT://:1,C://:2", "controller.listener.names=C"])
    assert listeners(config) == ["PLAINTEXT://:1", "C://:2"]
    config = server_config(None, None, "[::1]:5", ["controller.listener.names=C"])
    assert listeners(config) == ["PLAINTEXT://[::1]:5", "C://127.0.0.1:0"]
    config = server_config(None, None, "0.0.0.0:5", ["advertised.listeners=PLAINTEXT://here:6"])
    assert [str(each) for each in config.advertised_listeners] == ["PLAINTEXT://here:6"]


def test_broker_without_a_controller_has_no_controller_listener() -> None:
    config = server_config(None, None, "127.0.0.1:5", ["process.roles=broker"])
    assert listeners(config) == ["PLAINTEXT://127.0.0.1:5"]
    assert config.controller_listener_names == ("CONTROLLER",)


@pytest.mark.parametrize(("assignments", "listen", "printed"), [
    (["log.retension.ms=5"], None, "log.retension.ms; did you mean log.retention.ms?"),
    (["num.partitions=none"], None, "num.partitions: 'none' is not a whole number"),
    (["num.partitions"], None, "--set: 'num.partitions' is not key=value"),
    ([], "0.0.0.0:5", "name one with --set advertised.listeners=PLAINTEXT://HOST:5"),
    ([], "9092", "--listen: '9092' is not host:port"),
    (["process.roles=controller"], "127.0.0.1:5", "PLAINTEXT://127.0.0.1:5 is a broker's, but process.roles has none"),
])
def test_wrong_options_are_named(assignments: list[str], listen: str | None, printed: str) -> None:
    with pytest.raises(InvalidConfigError) as refusal:
        server_config(None, None, listen, assignments)
    assert printed in str(refusal.value)


def test_a_node_starts_stops_and_continues(tmp_path: Path, kafkas_file: Path,
                                           capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data"
    kafkas_file.write_text(KAFKAS_FILE.replace("CONTROLLER://:9093", "CONTROLLER://:0"))
    with running(data, "--config", kafkas_file, "--set", "node.id=5") as node:
        first = node.ready
        assert first["event"] == "ready"
        assert first["node_id"] == 5
        assert first["data"] == [str(data)]
        assert 0 < first["start_seconds"] < 30
        assert all(int(address.rpartition(":")[2]) for address in first["listeners"].values())
        assert Tool(node.bootstrap, capsys).json("topics", "create", "kept")
        held = refused("server", "start", "--data", data, "--listen", "127.0.0.1:0", "--set", "node.id=5")
        assert held == (1, "", f"kraft: {data}: another process has this log directory open\n")
        taken = refused("server", "start", "--data", tmp_path / "other", "--listen", node.bootstrap)
        assert taken == (
            1, "", f"kraft: the node cannot start: listener PLAINTEXT://{node.bootstrap}: Address already in use\n")
        code, complaints = node.stop()
        assert code == 0
        assert all("accepted without effect" in line for line in complaints.splitlines()), complaints
        assert "num.io.threads" in complaints
    with running(data, "--set", "node.id=5") as node:
        assert node.ready["cluster_id"] == first["cluster_id"]
        assert [row["topic"] for row in Tool(node.bootstrap, capsys).json("topics", "list")] == ["kept"]
        assert node.stop(signal.SIGINT) == (0, "")
    code, out, complaints = refused("server", "start", "--data", data, "--listen", "127.0.0.1:0")
    assert (code, out) == (1, "")
    assert "formatted for node 5" in complaints


def test_a_file_has_more_than_standard_error(tmp_path: Path) -> None:
    path = tmp_path / "node.log"
    levels = "kraft.raft=error,kraft.runtime.quorum=warning"
    with running(tmp_path / "data", "--set", f"kraft.log.file={path}", "--set", f"kraft.log.levels={levels}") as node:
        assert node.stop() == (0, "")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert any(line["level"] == "info" and "accepting" in line["message"] for line in lines)
    assert not any(line["logger"].startswith("kraft.runtime.quorum") and line["level"] == "info" for line in lines)
    assert path.stat().st_mode & 0o777 == 0o640
    missing = f"{tmp_path}/none/node.log"
    for setting, why in ((f"kraft.log.file={missing}", f"kraft.log.file: {missing}: No such file or directory"),
                         ("kraft.log.levels=kraft.rafd=debug", "kraft.log.levels: 'kraft.rafd' is no part of kraft"),
                         ("kraft.log.levels=kraft.raft=loud", "'kraft.raft=loud' is not part=level")):
        code, out, complaints = refused("server", "start", "--data", tmp_path / "data", "--set", setting)
        assert (code, out) == (1, "")
        assert why in complaints


def test_the_log_states_what_happens(tmp_path: Path) -> None:
    with running(tmp_path / "data", "--log-level", "info", "--log-format", "json") as node:
        code, printed = node.stop()
    lines = [json.loads(line) for line in printed.splitlines()]
    assert code == 0
    assert any(line["logger"] == "kraft.runtime.net.server" and "accepting" in line["message"] for line in lines)


def test_a_quorum_state_of_an_unknown_version_stops_the_node(tmp_path: Path) -> None:
    """Hazard 20: a node that cannot read its vote must not vote again."""
    assert run(["storage", "format", f"--data={tmp_path}"]) == 0
    state = tmp_path / "__cluster_metadata-0" / "quorum-state"
    text = '{"leaderId":1,"leaderEpoch":5,"votedId":-1,"data_version":2}'
    state.write_text(text)
    code, out, complaint = refused("server", "start", "--data", tmp_path, "--listen", "127.0.0.1:0")
    assert (code, out) == (1, "")
    assert f"kraft: {state}: data_version: 2 is not 0 or 1" in complaint
    assert state.read_text() == text


def test_a_wrong_option_starts_nothing(tmp_path: Path) -> None:
    code, out, complaints = refused("server", "start", "--data", tmp_path / "data", "--set", "node.idd=1")
    assert (code, out) == (1, "")
    assert complaints == "kraft: unknown setting node.idd; did you mean node.id?\n"
    assert not (tmp_path / "data").exists()


def test_a_file_of_kafka_3_with_zookeeper_is_accepted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "server.properties"
    file.write_text(OF_KAFKA_3)
    assert run(["server", "check", f"--config={file}"]) == 0
    printed = capsys.readouterr().out
    for name in ("zookeeper.connect", "zookeeper.connection.timeout.ms"):
        assert f"warning: {name}: this is a KRaft node: there is no ZooKeeper (ignored)" in printed
    assert "unknown" not in printed and "did you mean" not in printed


def test_settings_are_checked_without_a_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "server.properties"
    file.write_text("zookeeper.connect=h:2181\nnum.partitons=3\nnum.io.threads=8\n")
    assert run(["server", "check", f"--config={file}"]) == 0
    printed = capsys.readouterr().out
    assert "warning: zookeeper.connect: this is a KRaft node: there is no ZooKeeper (ignored)" in printed
    assert "did you mean num.partitions? (ignored)" in printed
    assert "num.io.threads: accepted without effect" in printed
    assert printed.endswith("3 warnings\n")
    assert run(["server", "check", f"--config={file}", "--strict"]) == 1
    capsys.readouterr()
    file.write_text("num.partitions=3\n")
    assert run(["server", "check", f"--config={file}", "--strict", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"node_id": 1, "roles": ["broker", "controller"], "warnings": []}
    file.write_text("num.partitions=1_0\n")
    assert run(["server", "check", f"--config={file}"]) == 1
    assert "num.partitions: '1_0' is not a whole number" in capsys.readouterr().err
