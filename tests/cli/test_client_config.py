"""`--client-config`: commands reach a cluster with TLS and SASL, and report within seconds why they cannot."""

import io
import json
import time
from collections.abc import Iterator
from multiprocessing import resource_tracker
from pathlib import Path

import click
import pytest

from kraft.cli.command import kraft, run
from kraft.client import quorum
from kraft.client.security import PLAINTEXT, current
from kraft.spark import cluster
from tests.client.secure_broker import PASSWORD, USER, make_certificates, needs_openssl, secure_door
from tests.integration.process import NodeProcess
from tests.ports import free_ports

pytestmark = needs_openssl

CAUSE_SECONDS = 5.0
LOAD = ("--seconds", "0.2", "--warmup", "0", "--connections", "2", "--fill-bytes", "1000000", "--record-bytes", "20000")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("certificates")
    make_certificates(directory)
    return directory


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A node that advertises the secure listener in front of it."""
    resource_tracker.ensure_running()      # the process that Python starts with the first of others, and keeps
    port, = free_ports(1)
    process = NodeProcess(tmp_path_factory.mktemp("node") / "data",
                          {"advertised.listeners": f"PLAINTEXT://localhost:{port}"})
    process.door = port  # type: ignore[attr-defined]
    process.start()
    yield process
    process.stop()


def properties(path: Path, text: str) -> str:
    (path / "client.properties").write_text(text)
    return str(path / "client.properties")


def sasl(mechanism: str, password: str = PASSWORD) -> str:
    login = "Plain" if mechanism == "PLAIN" else "Scram"
    return (f"sasl.mechanism={mechanism}\nsasl.jaas.config=org.apache.kafka.{login}LoginModule required "
            f'username="{USER}" password="{password}";\n')


@pytest.mark.parametrize("mechanism", ["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_commands_reach_the_cluster(node: NodeProcess, certificates: Path, tmp_path: Path, mechanism: str,
                                    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands of our own client, and those of librdkafka; without SASL the listener requires a client certificate."""
    text = f"security.protocol={'SASL_SSL' if mechanism else 'SSL'}\nssl.truststore.location={certificates}/ca.pem\n"
    text += sasl(mechanism) if mechanism else f"ssl.keystore.location={certificates}/client.pem\n"
    port = node.door  # type: ignore[attr-defined]
    (tmp_path / "rows.jsonl").write_text('{"a":1}\n')
    topic = f"topic-{mechanism or 'tls'}"
    with secure_door(port, node.port, certificates=certificates, sasl=bool(mechanism), wants_client=not mechanism):
        file = properties(tmp_path, f"{text}bootstrap.servers=localhost:{port}\n")
        assert run(["topics", "create", topic, "--partitions", "1", "--client-config", file]) == 0
        assert run(["pipeline", "ingest", str(tmp_path / "rows.jsonl"), "--topic", topic, "--job",
                    str(tmp_path / "job"), "--client-config", file, "--threads", "2"]) == 0
        capsys.readouterr()
        assert run(["consume", topic, "--until-end", "--from", "beginning", "--client-config", file]) == 0
        assert capsys.readouterr().out == '{"a":1}\n'
        assert run(["pipeline", "export", str(tmp_path / "table"), "--topic", topic, "--client-config", file]) == 0
        assert "1 row" in capsys.readouterr().out
        for kind, processes in (("ping", "2"), ("fetch", "1"), ("end-to-end", "1")):
            assert run(["bench", kind, "--client-config", file, "--json", *LOAD, "--topic", f"bench-{topic}",
                        "--processes", processes]) == 0
            [measured] = json.loads(capsys.readouterr().out)["runs"]
            assert (measured["requests"] > 0, measured["errors"]) == (True, 0)
    assert current() == PLAINTEXT


@pytest.mark.parametrize("command", [
    ["topics", "list"], ["consume", "t", "--until-end"], ["pipeline", "export", "TABLE", "--topic", "t"],
    ["pipeline", "ingest", __file__.replace(".py", ".csv"), "--topic", "t", "--job", "JOB"],
])
@pytest.mark.parametrize(("text", "cause"), [
    (f"security.protocol=SASL_SSL\nssl.ca.location=ca\n{sasl('SCRAM-SHA-256', 'wrong')}", "Authentication failed"),
    (f"security.protocol=SASL_SSL\nssl.ca.location=other\n{sasl('PLAIN')}", "certificate is not trusted"),
    ("bootstrap.servers=localhost:DEAD", "cannot connect: "),
])
def test_the_cause_is_said_within_seconds(node: NodeProcess, certificates: Path, tmp_path: Path, command: list[str],
                                          text: str, cause: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The limit is for the command itself, which waits for no time-out here."""
    port, dead = node.door, *free_ports(1)  # type: ignore[attr-defined]
    (tmp_path / "rows.csv").write_text("a\n1\n")
    (tmp_path / "secret").write_text("c2VjcmV0\n")
    given = [{"TABLE": str(tmp_path / "table"), "JOB": str(tmp_path / "job")}.get(
        each, str(tmp_path / "rows.csv") if each.endswith(".csv") else each) for each in command]
    text = text.replace("DEAD", str(dead)).replace("=ca\n", f"={certificates}/ca.pem\n").replace(
        "=other\n", f"={certificates}/other.pem\n")
    with secure_door(port, node.port, certificates=certificates, sasl=True):
        servers = "" if "bootstrap" in text else f"bootstrap.servers=localhost:{port}\n"
        file = properties(tmp_path, f"{text}\n{servers}")
        began = time.monotonic()
        assert run([*given, "--client-config", file]) == 1
    assert cause in capsys.readouterr().err
    assert time.monotonic() - began < CAUSE_SECONDS * 4   # four times as much as on an idle machine


def test_properties_that_are_of_no_use_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dead, = free_ports(1)
    for text, code, printed in ((f"acks=all\nbootstrap.servers=127.0.0.1:{dead}", 1, "without effect here: acks"),
                                ("ssl.truststor.location=x", 1, "ssl.truststor.location: not supported"),
                                ("a=\\u00", 1, "client config")):
        assert run(["topics", "list", "--client-config", properties(tmp_path, text)]) == code
        assert printed in capsys.readouterr().err
    assert run(["topics", "list", "--bootstrap", f"127.0.0.1:{dead}", "--client-config",
                properties(tmp_path, "bootstrap.servers=127.0.0.1:1")]) == 1
    assert f":{dead}: cannot connect" in capsys.readouterr().err


WORKLOAD = """{topics: 1, partitionsPerTopic: 2, messageSize: 100, useRandomizedPayloads: true, producerRate: 500,
  randomizedPayloadPoolSize: 5, producersPerTopic: 1, subscriptionsPerTopic: 1, consumerPerSubscription: 1,
  testDurationMinutes: 1}"""
ARGUMENTS = {
    "topics alter": "t --partitions 3", "topics create": "t", "topics delete": "t", "topics describe": "t",
    "topics reassign start": "FILE", "topics reassign plan": "--brokers 1", "topics reassign cancel": "--plan FILE",
    "configs delete": "topic t retention.ms", "configs describe": "topic t", "configs set": "topic t retention.ms=1",
    "features disable": "--feature f", "features downgrade": "--feature f=1", "features upgrade": "--feature f=1",
    "groups delete": "g", "groups describe": "g", "groups members": "g", "groups offsets": "g",
    "groups reset": "g --to earliest",
    "console": "--check --listen 127.0.0.1:0",
    "gateway": "--check",
    "produce": "t", "consume": "t", "brokers decommission": "1", "brokers drain": "1", "brokers replicas": "1",
    "brokers move": "1 /tmp t/0", "leaders elect": "--all", "quorum add": f"4 {'A' * 21}Q CONTROLLER://localhost:9",
    "quorum plan": "1", "quorum reassign": "1", "quorum remove": f"1 {'A' * 21}Q", "metadata cat": "/",
    "metadata diff": "--as-of 1", "backup create": "TABLE",
    "pipeline export": "TABLE --topic t", "pipeline ingest": "ROWS --topic t --job JOB",
    "bench compare": "localhost:1 localhost:1 ping", "bench search": "ping --limit-ms 1",
    "bench drain": "--backlog-bytes 1", "bench workload": "WORKLOAD",
    "transactions describe": "t", "transactions abort": "t/0 --start-offset 1",
    "acls add": "--allow-principal User:alice --topic t", "acls remove": "--topic t",
    "acls test": "User:alice read topic:t",
    "tokens expire": "--secret-file SECRET", "tokens renew": "--secret-file SECRET",
    "debug bundle": "--out ARCHIVE", "top": "--once --interval 0.1",
    "users add": "alice --password-file SECRET", "users describe": "alice", "users remove": "alice",
}
"""Arguments of the commands that need some."""


def commands(group: click.Group = kraft, *path: str) -> Iterator[tuple[str, click.Command]]:
    """All commands, with their names."""
    for name in group.list_commands(click.Context(group)):
        found = group.get_command(click.Context(group), name)
        if isinstance(found, click.Group):
            yield from commands(found, *path, name)
        elif found is not None:
            yield " ".join((*path, name)), found


def connecting() -> list[str]:
    """Commands that connect to a cluster."""
    return [name for name, found in commands() if any("--client-config" in each.opts for each in found.params)]


def test_every_command_that_connects_takes_the_file() -> None:
    named = {name for name, found in commands() if {"bootstrap", "a"} & {each.name for each in found.params}}
    assert sorted(connecting()) == sorted(named)
    assert len(named) > 40


def is_plain(command: str, shown: str, cause: str) -> bool:
    """Return whether the output is one line with the cause. `kraft why` explains in more lines that nobody answers."""
    return cause in shown and (shown.count("\n") == 1 or (command == "why" and "cannot connect" in cause))


@pytest.mark.parametrize(("text", "cause"), [
    (f"security.protocol=SASL_SSL\nssl.ca.location=ca\n{sasl('SCRAM-SHA-256', 'wrong')}", "Authentication failed"),
    (f"security.protocol=SASL_SSL\nssl.ca.location=other\n{sasl('PLAIN')}", "certificate is not trusted"),
    ("bootstrap.servers=localhost:DEAD", "cannot connect: "),
    ("security.protocol=PLAINTEXT", "the listener requires TLS, and security.protocol is PLAINTEXT"),
    ("security.protocol=SSL\nssl.ca.location=ca\n", "the listener requires SASL (PLAIN, SCRAM-SHA-256, SCRAM-SHA-512)"),
], ids=["wrong password", "untrusted certificate", "dead address", "no TLS", "no SASL"])
def test_every_command_says_the_cause(node: NodeProcess, certificates: Path, tmp_path: Path, text: str, cause: str,
                                      capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (quorum, cluster):           # the second in which addresses are tried again
        monkeypatch.setattr(module, "REACH_SECONDS", 0.1)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"line\n")))
    port, dead = node.door, *free_ports(1)  # type: ignore[attr-defined]
    (tmp_path / "rows.csv").write_text("a\n1\n")
    (tmp_path / "secret").write_text("c2VjcmV0\n")
    (tmp_path / "plan.json").write_text('{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1]}]}')
    text = text.replace("DEAD", str(dead)).replace("=ca\n", f"={certificates}/ca.pem\n").replace(
        "=other\n", f"={certificates}/other.pem\n")
    server = f"localhost:{dead if 'bootstrap' in text else port}"
    file = properties(tmp_path, f"bootstrap.servers={server}\n{text}\n")
    paths = {"TABLE": "table", "JOB": "job", "ROWS": "rows.csv", "FILE": "plan.json",
             "SECRET": "secret", "ARCHIVE": "archive.tar.gz", "WORKLOAD": "workload.yaml"}
    (tmp_path / "workload.yaml").write_text(WORKLOAD)
    failures = []
    with secure_door(port, node.port, certificates=certificates, sasl=True):
        for name in connecting():
            given = [str(tmp_path / paths[each]) if each in paths else each
                     for each in ARGUMENTS.get(name, "").replace("localhost:1", server, 2).split()]
            capsys.readouterr()
            began = time.monotonic()
            code = run([*name.split(), *given, "--client-config", file])
            seconds = time.monotonic() - began
            printed = capsys.readouterr()
            if code != 1 or not is_plain(name, printed.out + printed.err, cause) or seconds > CAUSE_SECONDS * 4:
                failures.append((name, code, seconds, printed.out + printed.err))
    assert failures == []
