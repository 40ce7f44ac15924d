"""`--client-config` on a node of Kafka's: TLS both ways, PLAIN and SCRAM, and the cause of each refusal."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraft.cli.command import run
from tests.cli.test_client_config import CAUSE_SECONDS, LOAD, properties
from tests.client.secure_broker import make_certificates, needs_openssl
from tests.peer.kafka import KafkaNode, require_kafka
from tests.ports import free_ports

pytestmark = [pytest.mark.peer, needs_openssl]

USER, PASSWORD = "alice", "secret"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
LOGIN = "org.apache.kafka.common.security"


class SecureNode(KafkaNode):
    """Listeners for anybody, with SASL, with SASL and TLS, and with TLS on both sides. Names are of localhost."""

    def __init__(self, home: Path, certificates: Path) -> None:
        plain, sasl, both, tls, controller, self.dead = free_ports(6)
        self.certificates = certificates
        self.addresses = {"PLAINTEXT": f"localhost:{plain}", "SASL_PLAINTEXT": f"localhost:{sasl}",
                          "SASL_SSL": f"localhost:{both}", "SSL": f"localhost:{tls}"}
        listeners = ",".join(f"{name}://{address}" for name, address in self.addresses.items())
        settings = {
            "listeners": f"{listeners},CONTROLLER://localhost:{controller}", "advertised.listeners": listeners,
            "controller.quorum.bootstrap.servers": f"localhost:{controller}",
            "listener.security.protocol.map": ",".join(
                f"{name}:{name}" for name in self.addresses) + ",CONTROLLER:PLAINTEXT",
            "ssl.keystore.type": "PEM", "ssl.keystore.location": str(certificates / "server.pem"),
            "ssl.truststore.type": "PEM", "ssl.truststore.location": str(certificates / "ca.pem"),
            "listener.name.ssl.ssl.client.auth": "required", "sasl.enabled.mechanisms": ",".join(MECHANISMS)}
        for listener in ("sasl_plaintext", "sasl_ssl"):
            name = f"listener.name.{listener}"
            settings[f"{name}.plain.sasl.jaas.config"] = (
                f'{LOGIN}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";')
            for mechanism in ("scram-sha-256", "scram-sha-512"):
                settings[f"{name}.{mechanism}.sasl.jaas.config"] = f"{LOGIN}.scram.ScramLoginModule required;"
        super().__init__(home, **settings)
        self.port = plain

    def client(self, protocol: str, mechanism: str = "", *, password: str = PASSWORD, ca: str = "ca",
               certificate: str = "client", at: str = "") -> str:
        """A client's properties, as Kafka's own tools take them."""
        lines = [f"bootstrap.servers={at or self.addresses[protocol]}", f"security.protocol={protocol}"]
        if protocol.endswith("SSL"):
            lines += ["ssl.truststore.type=PEM", f"ssl.truststore.location={self.certificates}/{ca}.pem"]
        if protocol == "SSL" and certificate:
            lines += ["ssl.keystore.type=PEM", f"ssl.keystore.location={self.certificates}/{certificate}.pem"]
        if mechanism:
            module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
            login = f'username="{USER}" password="{password}"'
            lines += [f"sasl.mechanism={mechanism}", f"sasl.jaas.config={LOGIN}.{module}LoginModule required {login};"]
        return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureNode]:
    require_kafka()
    certificates = tmp_path_factory.mktemp("certificates")
    make_certificates(certificates)
    process = SecureNode(tmp_path_factory.mktemp("kafka") / "home", certificates)
    process.format("--standalone", *(option for mechanism in MECHANISMS[1:] for option in (
        "--add-scram", f"{mechanism}=[name={USER},password={PASSWORD}]")))
    process.start()
    yield process
    process.kill()


def read_back(topic: str, file: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    capsys.readouterr()
    assert run(["consume", topic, "--until-end", "--from", "beginning", "--client-config", file]) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(("protocol", "mechanism"), [
    ("SSL", ""), *(("SASL_SSL", each) for each in MECHANISMS), *(("SASL_PLAINTEXT", each) for each in MECHANISMS)])
def test_commands_reach_the_cluster(node: SecureNode, protocol: str, mechanism: str, tmp_path: Path,
                                    capsys: pytest.CaptureFixture[str]) -> None:
    """Those of our own client, of the client library, and of the load generator."""
    file = properties(tmp_path, node.client(protocol, mechanism))
    topic = f"t-{protocol}-{mechanism}".lower()
    (tmp_path / "rows.jsonl").write_text('{"a":1}\n{"a":2}\n')
    assert run(["topics", "create", topic, "--partitions", "1", "--client-config", file]) == 0
    assert run(["pipeline", "ingest", str(tmp_path / "rows.jsonl"), "--topic", topic, "--job", str(tmp_path / "job"),
                "--client-config", file, "--threads", "1"]) == 0
    assert read_back(topic, file, capsys) == ['{"a":1}', '{"a":2}']
    assert run(["pipeline", "export", str(tmp_path / "table"), "--topic", topic, "--client-config", file,
                "--threads", "1"]) == 0
    assert "2 rows" in capsys.readouterr().out
    assert run(["quorum", "describe", "--client-config", file]) == 0
    assert run(["groups", "list", "--client-config", file]) == 0
    capsys.readouterr()
    for kind in ("ping", "produce", "fetch", "end-to-end"):
        assert run(["bench", kind, "--client-config", file, "--json", *LOAD, "--topic", f"bench-{topic}"]) == 0
        [measured] = json.loads(capsys.readouterr().out)["runs"]
        assert (measured["requests"] > 0, measured["errors"]) == (True, 0)


WRONG = {"password": "wrong"}
REFUSALS = {
    "wrong password": ("SASL_SSL", "PLAIN", WRONG, "not accepted: Authentication failed"),
    "wrong password, SCRAM": ("SASL_SSL", "SCRAM-SHA-512", WRONG, "not accepted: Authentication failed"),
    "wrong password, no TLS": ("SASL_PLAINTEXT", "SCRAM-SHA-256", WRONG, "not accepted: Authentication failed"),
    "untrusted certificate": ("SASL_SSL", "PLAIN", {"ca": "other"}, "the server's certificate is not trusted"),
    "no certificate of the client": ("SSL", "", {"certificate": ""}, "certificate"),
    "dead address": ("SASL_SSL", "PLAIN", {"at": "DEAD"}, "cannot connect: "),
    "TLS where there is none": ("SSL", "", {"at": "PLAINTEXT"}, "is this a listener with TLS?"),
}


@pytest.mark.parametrize("command", [
    ["topics", "list"], ["consume", "t", "--until-end"], ["bench", "ping"], ["why"],
    ["pipeline", "export", "TABLE", "--topic", "t"], ["pipeline", "ingest", "ROWS", "--topic", "t", "--job", "JOB"],
], ids=lambda command: " ".join(command[:2]))
@pytest.mark.parametrize("refusal", REFUSALS)
def test_the_cause_is_said_within_seconds(node: SecureNode, refusal: str, command: list[str], tmp_path: Path,
                                          capsys: pytest.CaptureFixture[str]) -> None:
    protocol, mechanism, settings, cause = REFUSALS[refusal]
    at = {"DEAD": f"localhost:{node.dead}"}.get(settings.get("at", ""), node.addresses.get(settings.get("at", ""), ""))
    file = properties(tmp_path, node.client(protocol, mechanism, **{**settings, "at": at}))
    (tmp_path / "rows.csv").write_text("a\n1\n")
    paths = {"TABLE": "table", "JOB": "job", "ROWS": "rows.csv"}
    given = [str(tmp_path / paths[each]) if each in paths else each for each in command]
    began = time.monotonic()
    assert run([*given, "--client-config", file]) == 1
    told = capsys.readouterr()
    assert cause in told.err + told.out
    assert time.monotonic() - began < CAUSE_SECONDS * 4   # four times as much as on an idle machine
