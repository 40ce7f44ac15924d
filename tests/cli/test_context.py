"""`kraft context`: named clusters are kept, chosen and used, and their credentials go nowhere else."""

import json
import stat
from pathlib import Path

import click
import pytest

from kraft.cli import client_config
from kraft.cli.command import run
from kraft.cli.contexts import Contexts
from kraft.cli.options import BOOTSTRAP
from kraft.client.security import current
from kraft.config.errors import InvalidConfigError
from kraft_native.base.errors import InvalidArgumentError

LOGIN = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=alice\nsasl.password=hunter2\n"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without settings, in a directory of its own."""
    for name in ("KRAFT_CONTEXT", "KRAFT_BOOTSTRAP"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def used(*arguments: str) -> tuple[str, str]:
    """Return the addresses and the user with which a command would connect."""
    found: list[tuple[str, str]] = []

    @click.command()
    @BOOTSTRAP
    def command(bootstrap: str) -> None:
        found.append((bootstrap, current().username))

    command.main(list(arguments), standalone_mode=False)
    return found[0]


def create(home: Path, name: str = "prod", servers: str = "prod:9092") -> None:
    (home / "client.properties").write_text(LOGIN)
    assert run(["context", "set", name, "--bootstrap-server", servers, "--properties", "client.properties"]) == 0


def test_the_first_one_is_the_current_one(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert used() == ("127.0.0.1:9092", "")
    create(home)
    assert capsys.readouterr().out == "prod: created, and the current one\n"
    assert used() == ("prod:9092", "alice")
    assert run(["context", "set", "test", "--bootstrap-server", "test:1"]) == 0
    assert used() == ("prod:9092", "alice")
    assert run(["context", "use", "test"]) == 0
    assert used() == ("test:1", "")
    assert run(["context", "use", "--none"]) == 0
    assert used() == ("127.0.0.1:9092", "")


def test_precedence(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials go to the addresses of their context only, unless both are named together."""
    create(home)
    assert run(["context", "set", "test", "--bootstrap-server", "test:1"]) == 0
    assert used("--bootstrap", "other:1") == ("other:1", "")
    assert used("--bootstrap-server", "other:1", "--context", "prod") == ("other:1", "alice")
    assert used("--context", "test") == ("test:1", "")
    monkeypatch.setenv("KRAFT_BOOTSTRAP", "variable:1")
    assert used() == ("variable:1", "")
    assert used("--context", "prod") == ("prod:9092", "alice")
    monkeypatch.setenv("KRAFT_CONTEXT", "prod")
    assert used() == ("prod:9092", "alice")
    assert used("--bootstrap", "other:1") == ("other:1", "")
    (home / "file.properties").write_text("bootstrap.servers=file:1\n")
    monkeypatch.delenv("KRAFT_BOOTSTRAP")
    assert used("--command-config", "file.properties") == ("file:1", "")
    monkeypatch.setenv("KRAFT_CONTEXT", "")
    assert used() == ("127.0.0.1:9092", "")
    with pytest.raises(click.UsageError, match="both say how to connect"):
        used("--context", "prod", "--client-config", "file.properties")


def test_an_unknown_one(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidConfigError, match="context 'none': unknown; none is set"):
        used("--context", "none")
    create(home)
    for arguments in (["use", "none"], ["show", "none"], ["delete", "none"]):
        assert run(["context", *arguments]) == 1
        assert "context 'none': unknown; known: prod" in capsys.readouterr().err


def test_files_are_private_and_secrets_hidden(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    create(home)
    path = home / "config" / "kraft" / "contexts" / "prod.properties"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "hunter2" in path.read_text()
    capsys.readouterr()
    assert run(["context", "show", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["properties"]["sasl.password"] == "(hidden)"
    assert shown["properties"]["sasl.username"] == "alice"
    assert run(["context", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"name": "prod", "current": True, "bootstrap_servers": "prod:9092",
                                                   "protocol": "SASL_PLAINTEXT"}


def test_changes(home: Path) -> None:
    create(home)
    assert run(["context", "set", "prod", "-X", "client.id=me", "-X", "sasl.username=bob"]) == 0
    assert used() == ("prod:9092", "bob")
    assert Contexts().read("prod")["client.id"] == "me"
    assert run(["context", "set", "prod", "-X", "client.id="]) == 0
    assert "client.id" not in Contexts().read("prod")
    assert run(["context", "delete", "prod"]) == 0
    assert (Contexts().names(), Contexts().current()) == ([], None)


def test_paths_do_not_depend_on_the_directory(home: Path) -> None:
    Contexts().write("prod", {"ssl.ca.location": "ca.pem", "bootstrap.servers": "a:1"})
    assert Contexts().read("prod") == {"ssl.ca.location": str(home / "ca.pem"), "bootstrap.servers": "a:1"}


@pytest.mark.parametrize(("arguments", "why"), [
    (["a/b", "--bootstrap-server", "a:1"], "a name has 1 to 100 letters"), (["prod"], "needs addresses"),
    (["prod", "--bootstrap-server", "a:1", "-X", "acks=all"], "without effect here: acks"),
    (["prod", "--bootstrap-server", "a:1", "-X", "ssl.trust=x"], "ssl.trust: not supported"),
])
def test_what_cannot_be_set_changes_nothing(arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["context", "set", *arguments]) in (1, 2)
    assert why in capsys.readouterr().err
    assert Contexts().names() == []


def test_a_command_whose_addresses_are_optional(home: Path) -> None:
    create(home)
    with click.Context(click.Command("none")):
        assert client_config.implied_servers("") == "prod:9092"
        assert client_config.implied_servers("") == "prod:9092"


def test_a_name(home: Path) -> None:
    for name in ("", ".hidden", "a b", "a" * 101):
        with pytest.raises(InvalidArgumentError, match="context"):
            Contexts().read(name)
