"""A node that is secured as docs/security.md says: administrators show certificates, users log in, and only what ACLs
allow is done."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from kraft.cli.command import run
from tests.integration.process import NodeProcess
from tests.ports import free_ports

PORTS: Final = ("9092", "9093", "9094")
Command = Callable[..., str]


class SecuredNode(NodeProcess):
    """A node with the files of `kraft security init`, at ports that are free."""

    def __init__(self, directory: Path) -> None:
        self.secrets = directory / "secrets"
        super().__init__(directory / "data", {})
        assert run(["security", "init", str(self.secrets)]) == 0
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
    """Run a command as one of the users; return what it prints on either stream."""
    def command(user: str, *words: str, code: int = 0, records: str = "") -> str:
        source = tmp_path / "records"
        source.write_text(records)
        capsys.readouterr()
        with source.open() as stream:
            monkeypatch.setattr("sys.stdin", stream)
            assert run([*words, "--client-config", f"{node.secrets}/{user}.properties"]) == code, capsys.readouterr()
        printed = capsys.readouterr()
        return printed.out + printed.err
    return command


def test_the_sentences_at_the_start(node: SecuredNode) -> None:
    assert set(node.access) == {"SSL", "SASL_SSL", "CONTROLLER"}
    assert all("may do what ACLs allow" in sentence for sentence in node.access.values())
    assert "no client is anonymous" in node.access["SSL"] and "no client is anonymous" in node.access["CONTROLLER"]
    assert "an anonymous client may do nothing else" in node.access["SASL_SSL"]


def test_a_user_does_what_it_is_allowed_to(node: SecuredNode, command: Command) -> None:
    command("admin", "topics", "create", "orders")
    command("admin", "topics", "create", "other")
    assert "not accepted" in command("app", "topics", "list", code=1)
    command("admin", "users", "add", "app", "--password-file", f"{node.secrets}/app.password")
    assert "TOPIC_AUTHORIZATION_FAILED" in command("app", "produce", "orders", code=1, records="two coffees\n")
    command("admin", "acls", "add", "--allow-principal", "User:app", "--producer", "--topic", "orders")
    command("app", "produce", "orders", records="two coffees\n")
    assert "GROUP_AUTHORIZATION_FAILED" in command("app", "consume", "orders", "--group", "readers", "--limit", "1",
                                                   code=1)
    command("admin", "acls", "add", "--allow-principal", "User:app", "--consumer", "--topic", "orders", "--group",
            "readers")
    assert command("app", "consume", "orders", "--group", "readers", "--limit", "1") == "two coffees\n"
    assert "TOPIC_AUTHORIZATION_FAILED" in command("app", "produce", "other", code=1, records="x\n")
    assert "other" not in command("app", "topics", "list")
    assert "CLUSTER_AUTHORIZATION_FAILED" in command("app", "users", "list", code=1)
