"""`kraft security init` and `kraft certs check`."""

import json
import stat
from pathlib import Path

import pytest

from kraft.cli.command import run
from kraft.client.security import security_of
from kraft.config.authorizer_settings import authorizer_settings
from kraft.config.node_config import NodeConfig
from kraft.config.properties import read_properties
from kraft.runtime.net.tls_contexts import TlsContexts


def made(directory: Path, *arguments: str) -> list[str]:
    assert run(["security", "init", str(directory), *arguments]) == 0
    return sorted(path.name for path in directory.iterdir())


def test_files_that_secure_a_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / "secrets"
    names = made(directory, "--host", "b1.example", "--host", "::1", "--admin", "root", "--client", "alice",
                 "--user", "bob")
    assert names == ["__1.pem", "__1.properties", "alice.librdkafka", "alice.pem", "alice.properties",
                     "b1.example.pem", "b1.example.properties", "bob.librdkafka", "bob.password", "bob.properties",
                     "ca.key", "ca.pem", "root.librdkafka", "root.pem", "root.properties"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == {0o600}
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    config = NodeConfig(read_properties(directory / "b1.example.properties"))
    assert config.ignored == {}
    assert [each.certificate.subject for each in TlsContexts(config).listeners.values()] == ["CN=b1.example"] * 3
    settings = authorizer_settings(config.values)
    assert settings is not None and settings.super_users == {"User:b1.example", "User:::1", "User:root"}
    assert {name: config.protocol(name) for name in ("SSL", "SASL_SSL", "CONTROLLER")} == {
        "SSL": "SSL", "SASL_SSL": "SASL_SSL", "CONTROLLER": "SSL"}
    assert "bootstrap.servers=b1.example:9092,[::1]:9092" in (directory / "alice.properties").read_text()
    capsys.readouterr()
    files = [str(directory / name) for name in names if name.endswith(".properties")]
    assert run(["certs", "check", "--json", *files]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {(row["use"], row["subject"]) for row in rows} == {
        ("own", "CN=alice"), ("own", "CN=b1.example"), ("own", "CN=::1"), ("own", "CN=root"),
        ("trusted", "CN=kraft development CA")}


def test_a_user_logs_in_with_the_password_of_its_file(tmp_path: Path) -> None:
    made(tmp_path / "s")
    password = (tmp_path / "s/app.password").read_text().strip()
    assert len(password) == 32
    security = security_of(read_properties(tmp_path / "s/app.properties"))
    assert (security.protocol, security.username, security.password) == ("SASL_SSL", "app", password)
    library = dict(line.split("=", 1) for line in (tmp_path / "s/app.librdkafka").read_text().splitlines())
    assert (library["sasl.username"], library["sasl.password"]) == ("app", password)


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(tmp_path / "s", "--json")
    before = (tmp_path / "s/ca.key").read_text()
    assert run(["security", "init", str(tmp_path / "s")]) == 1
    assert "exists; nothing is overwritten" in capsys.readouterr().err
    assert (tmp_path / "s/ca.key").read_text() == before


@pytest.mark.parametrize(("arguments", "says"), [
    (["--client", "a/b"], "'a/b' is not a name of letters"), (["--client", "ca"], "none is ca"),
    (["--client", "localhost"], "each host, admin, client and user needs a name of its own"),
    (["--user", "admin"], "each host, admin, client and user needs a name of its own"),
])
def test_names_that_cannot_be_files(tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str],
                                    says: str) -> None:
    assert run(["security", "init", str(tmp_path / "s"), *arguments]) == 1
    assert says in capsys.readouterr().err
    assert not (tmp_path / "s").exists()


def test_faults_of_certificates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(tmp_path / "s")
    made(tmp_path / "t")
    file = tmp_path / "s/admin.properties"
    file.write_text(file.read_text().replace("/s/ca.pem", "/t/ca.pem"))
    assert run(["certs", "check", str(file)]) == 1
    assert "fault: " in (out := capsys.readouterr().out)
    assert "the certificate does not lead to one of the trust store" in out
    (tmp_path / "plain").write_text("security.protocol=PLAINTEXT\n")
    (tmp_path / "node").write_text("process.roles=broker\nlisteners=PLAINTEXT://h:1\n")
    for name, says in (("plain", "security.protocol=PLAINTEXT has no TLS"), ("node", "no listener has TLS")):
        assert run(["certs", "check", str(tmp_path / name)]) == 1
        assert says in capsys.readouterr().err
