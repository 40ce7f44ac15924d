"""`--client-config` on a node of Kafka's with TLS and SASL: every command that connects, and the causes of refusals."""

import io
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kraft.cli.command import run
from kraft.client import quorum
from kraft.spark import cluster
from tests.cli.test_client_config import ARGUMENTS, CAUSE_SECONDS, WORKLOAD, connecting, is_plain, properties
from tests.client.secure_broker import make_certificates, needs_openssl
from tests.peer.kafka import require_kafka
from tests.peer.secure import MECHANISMS, SecureNode

pytestmark = [pytest.mark.peer, needs_openssl]

NO_ID = f"{'A' * 21}Q"


class Step(NamedTuple):
    """One call of a command: its end, and a part of its output. TOPIC, TABLE and others stand for the test's own."""

    command: str
    arguments: str = ""
    code: int = 0
    text: str = ""


PASS_OR_FAIL = -1
BENCH = "--seconds 0.1 --warmup 0 --connections 2 --fill-bytes 1000000 --record-bytes 20000 --json --topic bench-TOPIC"
STEPS = (
    Step("users add", "u-TOPIC --password-file SECRET", text="SCRAM-SHA-256"),
    Step("topics create", "TOPIC --partitions 2"), Step("topics alter", "TOPIC --partitions 3"),
    Step("topics list", text="TOPIC"), Step("topics describe", "TOPIC", text="TOPIC"),
    Step("configs set", "topic TOPIC retention.ms=60000"), Step("configs describe", "topic TOPIC", text="60000"),
    Step("configs delete", "topic TOPIC retention.ms"),
    Step("produce", "TOPIC", text="1 record produced"), Step("gateway", "--check", text="login are accepted"),
    Step("consume", "TOPIC --group g-TOPIC --until-end", text="line"),
    Step("groups list", text="g-TOPIC"), Step("groups describe", "g-TOPIC", text="Empty"),
    Step("groups members", "g-TOPIC"), Step("groups offsets", "g-TOPIC", text="TOPIC"),
    Step("groups reset", "g-TOPIC --to earliest", text="TOPIC"),
    Step("groups delete", "g-TOPIC", text="deleted"),
    Step("acls add", "--allow-principal User:u --producer --topic TOPIC", 1, "SECURITY_DISABLED"),
    Step("acls list", "", 1, "SECURITY_DISABLED"), Step("acls remove", "--topic TOPIC", 1, "SECURITY_DISABLED"),
    Step("acls test", "User:u write topic:TOPIC", 1, "SECURITY_DISABLED"),
    Step("users list", text="u-TOPIC"), Step("users describe", "u-TOPIC", text="SCRAM-SHA-256"),
    Step("users remove", "u-TOPIC", text="SCRAM-SHA-256"),
    Step("tokens create", "--renewer bob", 1, "DELEGATION_TOKEN"),
    Step("tokens renew", "--secret-file SECRET", 1, "DELEGATION_TOKEN"),
    Step("tokens expire", "--secret-file SECRET", 1, "DELEGATION_TOKEN"),
    Step("tokens describe", "alice", 1, "DELEGATION_TOKEN"),
    Step("transactions list", text="COORDINATOR"), Step("transactions prepared", text="OPEN FOR"),
    Step("transactions describe", "x-TOPIC", 1, "TRANSACTIONAL_ID_NOT_FOUND"),
    Step("transactions abort", "--transactional-id x-TOPIC", 1, "TRANSACTIONAL_ID_NOT_FOUND"),
    Step("transactions find-hanging", "TOPIC", text="no transaction hangs"),
    Step("transactions timeline", "", 1, "has no flight recorder"),
    Step("topics reassign plan", "TOPIC --brokers 1 --out PLAN"), Step("topics reassign start", "PLAN"),
    Step("topics reassign status", "PLAN"), Step("topics reassign cancel", "--plan PLAN"),
    Step("cluster describe", text="1"), Step("cluster status", text="well"),
    Step("brokers list", text="1"), Step("brokers replicas", "1", text="TOPIC"),
    Step("brokers move", "1 OTHER TOPIC/0"), Step("brokers drain", "1", 1, "no other"),
    Step("brokers decommission", "1", 1, "last voter"), Step("leaders elect", "TOPIC/0"),
    Step("features describe", text="metadata.version"),
    Step("features upgrade", "--feature group.version=1 --dry-run"),
    Step("features downgrade", "--feature group.version=0 --dry-run"),
    Step("features disable", "--feature group.version --dry-run"),
    Step("quorum describe", text="1"), Step("quorum status", text="1"), Step("quorum plan", "1"),
    Step("quorum timeline", "--out HTML", 1, "has no flight recorder"),
    Step("quorum reassign", "1", 1, "UNKNOWN_TOPIC_OR_PARTITION"),
    Step("quorum cancel", "", 1, "UNKNOWN_TOPIC_OR_PARTITION"),
    Step("quorum add", f"4 {NO_ID} CONTROLLER://localhost:9 --timeout 1", 1, "adding voter 4: "),
    Step("quorum remove", f"4 {NO_ID}", 1, "node 4 is not a voter"),
    Step("metadata ls", "/topics", text="TOPIC"), Step("metadata cat", "/topics/TOPIC", text="replicas"),
    Step("metadata diff", "/topics/TOPIC --as-of 1", 1, "+ "), Step("why", text="leads epoch"),
    Step("backup create", "BACKUPS --topic TOPIC", text="bytes of batches"),
    Step("pipeline ingest", "ROWS --topic TOPIC --job JOB --threads 1"),
    Step("pipeline export", "TABLE --topic TOPIC --threads 1", text="3 rows"),
    *(Step(f"bench {kind}", BENCH, text='"errors": 0') for kind in ("ping", "produce", "fetch", "end-to-end")),
    Step("bench commit", "--seconds 0.1 --warmup 0 --json", text='"errors": 0'),
    Step("bench workload", "WORKLOAD --seconds 0.3 --warmup 0 --json", text='"errors": 0'),
    Step("bench drain", "--backlog-bytes 100000 --record-bytes 20000 --topic drain-TOPIC --json",
         text='"records_left": 0'),
    Step("bench check", "--seconds 1 --topic bench-TOPIC --json", PASS_OR_FAIL, '"small"'),
    Step("bench search", f"ping {BENCH} --limit-ms 500 --precision 1", text='"rate"'),
    Step("bench compare", f"SERVER SERVER ping {BENCH} --pairs 1", text='"errors": 0'),
    Step("audit", "", 1, "__kraft_audit"), Step("console", "--check --listen 127.0.0.1:0", text="answers"),
    Step("top", "--once --interval 0.1", text="RECORDS/S"),
    Step("debug bundle", "--out ARCHIVE", text="archive.tar.gz"),
    Step("topics delete", "TOPIC", text="TOPIC"),
)
STEP_SECONDS = 20
# They connect to the controller, whose listener may have another protocol than the broker's.
READING_THE_LOG = {"backup create", "metadata cat", "metadata ls", "metadata diff", "quorum timeline"}
# Commands of our own client, of librdkafka, of the pipeline, and of the load generator's core.
EACH_KIND = frozenset({"topics create", "produce", "consume", "quorum describe", "metadata ls", "pipeline ingest",
                       "pipeline export", "bench ping", "bench produce", "topics delete"})


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureNode]:
    require_kafka()
    certificates = tmp_path_factory.mktemp("certificates")
    make_certificates(certificates)
    process = SecureNode(tmp_path_factory.mktemp("kafka") / "home", certificates)
    process.prepare()
    try:
        process.start()
        yield process
    finally:
        process.kill()


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """Paths that stand in the arguments of commands, by their name there."""
    (tmp_path / "rows.csv").write_text("a\n1\n2\n")
    (tmp_path / "secret").write_text("c2VjcmV0\n")
    (tmp_path / "workload.yaml").write_text(WORKLOAD)
    return {"TABLE": str(tmp_path / "table"), "JOB": str(tmp_path / "job"), "ROWS": str(tmp_path / "rows.csv"),
            "FILE": str(tmp_path / "plan.json"), "PLAN": str(tmp_path / "plan.json"),
            "HTML": str(tmp_path / "timeline.html"), "ARCHIVE": str(tmp_path / "archive.tar.gz"),
            "SECRET": str(tmp_path / "secret"), "BACKUPS": str(tmp_path / "backups"),
            "WORKLOAD": str(tmp_path / "workload.yaml")}


def filled(text: str, names: dict[str, str]) -> str:
    """Replace the words that stand for the test's own topic and files."""
    return re.sub(r"\b[A-Z]+\b", lambda found: names.get(found[0], found[0]), text)


def call(command: str, file: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, float]:
    """Run a command; return its exit code, all of its output, and its seconds."""
    capsys.readouterr()
    began = time.monotonic()
    code = run([*command.split(), "--client-config", file])
    seconds = time.monotonic() - began
    shown = capsys.readouterr()
    return code, shown.out + shown.err, seconds


@pytest.mark.parametrize(("listener", "mechanism", "commands"), [
    ("SECURE", "SCRAM-SHA-512", None), ("TLS", "", None), ("SECURE", "SCRAM-SHA-256", EACH_KIND),
    ("SECURE", "PLAIN", EACH_KIND), ("LOGIN", "SCRAM-SHA-512", EACH_KIND)])
def test_every_command_reaches_the_cluster(node: SecureNode, listener: str, mechanism: str,
                                           commands: frozenset[str] | None, files: dict[str, str], tmp_path: Path,
                                           capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command with SCRAM over TLS and with TLS on both sides, one of each kind with the others.

    Those that read the metadata log connect to the controller, whose listener has SASL over TLS.
    """
    file = properties(tmp_path, node.client(listener, mechanism))
    names = files | {"TOPIC": f"t-{listener}-{mechanism}".lower(), "SERVER": node.addresses[listener],
                     "OTHER": f"{node.home}/other"}
    failures = []
    for step in STEPS:
        if commands is not None and step.command not in commands:
            continue
        if listener != "SECURE" and step.command in READING_THE_LOG:
            step = step._replace(code=1, text=node.controller)
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"line\n")))
        text = filled(step.text, names)
        code, shown, seconds = call(f"{step.command} {filled(step.arguments, names)}", file, capsys)
        is_expected = code in (0, 1) if step.code == PASS_OR_FAIL else code == step.code
        if not is_expected or text not in shown or "Traceback" in shown or seconds > STEP_SECONDS:
            failures.append((step.command, code, shown, seconds))
    assert "\n".join(map(str, failures)) == ""


def test_every_command_is_among_the_steps() -> None:
    assert {step.command for step in STEPS} == set(connecting())


REFUSALS = {
    "untrusted authority": (("SECURE", "PLAIN"), {"ca": "other"}, "the server's certificate is not trusted: "),
    "wrong password": (("SECURE", "PLAIN"), {"password": "wrong"}, "not accepted: Authentication failed"),
    "wrong password, SCRAM": (("SECURE", MECHANISMS[2]), {"password": "wrong"}, "not accepted: Authentication failed"),
    "no TLS": (("SECURE", ""), {"protocol": "PLAINTEXT"}, "requires TLS, and security.protocol is PLAINTEXT"),
    "no SASL": (("SECURE", ""), {"protocol": "SSL", "certificate": ""}, "the listener requires SASL (PLAIN, SCRAM"),
    "no certificate of the client": (("TLS", ""), {"certificate": ""}, "certificate"),
    "TLS where none is": (("OPEN", ""), {"protocol": "SSL"}, "is this a listener with TLS?"),
    "SASL where none is": (("OPEN", "PLAIN"), {"protocol": "SASL_PLAINTEXT"}, "the listener has no SASL"),
    "nothing listens": (("SECURE", "PLAIN"), {"address": "UNUSED"}, "cannot connect: "),
}


FOR_ALL = ("untrusted authority", "wrong password", "no TLS", "no SASL")


@pytest.mark.parametrize("refusal", REFUSALS)
def test_every_command_says_the_cause(node: SecureNode, refusal: str, files: dict[str, str], tmp_path: Path,
                                      capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each refusal is one line. The rarer causes are shown with one command of each kind."""
    for module in (quorum, cluster):           # the seconds in which addresses are tried again
        monkeypatch.setattr(module, "REACH_SECONDS", 0.1)
    (tmp_path / "plan.json").write_text('{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1]}]}')
    given, wrong, cause = REFUSALS[refusal]
    unused = f"localhost:{node.unused_port}"
    text = node.client(*given, **wrong).replace("UNUSED", unused)
    file = properties(tmp_path, text)
    server = text.partition("bootstrap.servers=")[2].partition("\n")[0]
    failures = []
    for name in connecting() if refusal in FOR_ALL else sorted(EACH_KIND | {"why"}):
        arguments = ARGUMENTS.get(name, "").replace("localhost:1", server, 2)
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"line\n")))
        code, shown, seconds = call(f"{name} {filled(arguments, files)}", file, capsys)
        if code != 1 or not is_plain(name, shown, cause) or seconds > CAUSE_SECONDS * 4:
            failures.append((name, code, shown, seconds))
    assert "\n".join(map(str, failures)) == ""
