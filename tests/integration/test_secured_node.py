"""A node that is secured as docs/security.md says: administrators show certificates, users log in, and only what ACLs
allow is done. The commands are those of the page."""

import json
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from kraft.cli.command import run
from tests.golden import REPOSITORY
from tests.integration.admin import wait_until
from tests.integration.process import NodeProcess
from tests.ports import free_ports

PORTS: Final = ("9092", "9093", "9094")
ENDLESS: Final = "--follow"
SECONDS: Final = 30.0
AUDIT_FILE: Final = "/var/log/kraft/audit.jsonl"
BLOCK: Final = re.compile(r"<!-- run by tests/integration/test_secured_node.py -->\n```sh\n(.*?)```", re.DOTALL)
START, FIRST_STEPS, TOKENS, ACLS, AUDIT = BLOCK.findall((REPOSITORY / "docs" / "security.md").read_text())

Command = Callable[..., str]


class SecuredNode(NodeProcess):
    """A node with the files of `kraft security init`, at ports that are free."""

    def __init__(self, directory: Path) -> None:
        self.secrets = directory / "secrets"
        self.audit_file = directory / "audit.jsonl"
        super().__init__(directory / "data", {
            "delegation.token.secret.key": "of this test", "kraft.audit.file": str(self.audit_file),
            "kraft.audit.topic.enable": "true", "offsets.topic.replication.factor": "1",
            "kraft.audit.topic.replication.factor": "1"})
        assert run(["security", "init", str(self.secrets), "--client", "alice", "--client", "scheduler"]) == 0
        ports = dict(zip(PORTS, map(str, free_ports(len(PORTS))), strict=True))
        for path in self.secrets.glob("*.properties"):
            text = path.read_text()
            for written, own in ports.items():
                text = text.replace(f"localhost:{written}", f"localhost:{own}")
            path.write_text(text)

    def _options(self) -> list[str]:
        return [f"--config={self.secrets}/localhost.properties"]

    def _ready(self, message: dict[str, Any]) -> None:
        self.access = message["access"]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredNode]:
    made = SecuredNode(tmp_path_factory.mktemp("secured"))
    made.start()
    yield made
    made.stop()
    assert made.alarms() == []


@pytest.fixture
def command(node: SecuredNode, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
            tmp_path: Path) -> Command:
    """Run a command, by default as the administrator; return what it prints on either stream. The directory of the
    page is that of the node's secrets."""
    monkeypatch.chdir(node.secrets.parent)

    def command(*words: str, user: str = "admin", code: int = 0, records: str = "") -> str:
        source = tmp_path / "records"
        source.write_text(records)
        capsys.readouterr()
        security = [] if "--client-config" in words else ["--client-config", f"secrets/{user}.properties"]
        with source.open() as stream:
            monkeypatch.setattr("sys.stdin", stream)
            assert run([*words, *security]) == code, (words, capsys.readouterr())
        printed = capsys.readouterr()
        return printed.out + printed.err
    return command


def run_line(command: Command, line: str, **more: Any) -> str:
    """Run one line of the page: `kraft ...`, or `echo TEXT | kraft ...`."""
    words = shlex.split(line, comments=True)
    if words[0] == "echo":
        return run_line(command, shlex.join(words[3:]), records=words[1] + "\n")
    assert words[0] == "kraft"
    return command(*words[1:], **more)


def test_the_node_starts_as_the_page_says(node: SecuredNode) -> None:
    assert shlex.split(START)[:5] == ["kraft", "server", "start", "--config", "secrets/localhost.properties"]
    assert set(node.access) == {"SSL", "SASL_SSL", "CONTROLLER"}
    assert all("may do what ACLs allow" in sentence for sentence in node.access.values())
    assert "no client is anonymous" in node.access["SSL"] and "no client is anonymous" in node.access["CONTROLLER"]
    assert "an anonymous client may do nothing else" in node.access["SASL_SSL"]


def test_a_user_does_what_it_is_allowed_to(command: Command) -> None:
    topic, user, producer, consumer, produce, consume = FIRST_STEPS.splitlines()
    run_line(command, topic)
    assert "not accepted" in command("topics", "list", user="app", code=1)
    run_line(command, user)
    assert "TOPIC_AUTHORIZATION_FAILED" in command("produce", "orders", user="app", code=1, records="x\n")
    run_line(command, producer)
    run_line(command, produce)
    assert "GROUP_AUTHORIZATION_FAILED" in run_line(command, consume, code=1)
    run_line(command, consumer)
    assert run_line(command, consume) == "two coffees\n"
    command("topics", "create", "other")
    assert "TOPIC_AUTHORIZATION_FAILED" in command("produce", "other", user="app", code=1, records="x\n")
    assert "other" not in command("topics", "list", user="app")
    assert "CLUSTER_AUTHORIZATION_FAILED" in command("users", "list", user="app", code=1)


def test_tokens(command: Command) -> None:
    create, *others = TOKENS.splitlines()
    made = json.loads(run_line(command, f"{create} --json"))
    Path("secret").write_text(made["secret"] + "\n")
    for line in others:
        run_line(command, line)
    assert run_line(command, next(line for line in others if "describe" in line)).count("\n") <= 1, "it has expired"


def test_acls(command: Command) -> None:
    *lines, tested = ACLS.splitlines()
    for line in lines:
        run_line(command, line)
    assert "allowed" in run_line(command, tested)


def test_the_audit(node: SecuredNode, command: Command) -> None:
    assert AUDIT_FILE in AUDIT
    command("topics", "create", "audited")
    created = ("audit", "--resource", "topic:audited")
    wait_until(lambda: _is_stored(command, *created), "the topic has the event", SECONDS)
    for line in AUDIT.splitlines():
        if ENDLESS not in line:
            run_line(command, line.replace(AUDIT_FILE, str(node.audit_file)))
    found = command(*created, str(node.audit_file))
    assert "admin" in found and "CreateTopics" in found


def _is_stored(command: Command, *words: str) -> bool:
    """Return whether the command finds an event. The node creates the topic with the first one."""
    try:
        return "CreateTopics" in command(*words)
    except AssertionError:
        return False
