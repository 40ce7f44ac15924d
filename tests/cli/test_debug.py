"""`kraft debug bundle`: everything that explains a node is in it, and none of the planted secrets."""

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraft.cli.bundle import Bundle, listing, tail
from kraft.cli.command import run
from kraft.cli.redaction import Redactor
from tests.cli.nodes import Started, running
from tests.ports import free_ports

SECRETS = {
    "admin": "planted-admin-1", "alice": "planted-alice-2", "store": "planted-store-3",
    "token": "planted-token-4444444", "provider": "planted-provider-5", "client": "planted-client-6",
    "unknown": "planted-unknown-7",
    "delegation": "planted-delegation-8", "key": "plantedMIIEvQIBADANBgkqhkiG9w0BAQ9",
}
SETTINGS = """
node.id=7
log.dirs={data}
kraft.log.file={log}
kraft.metrics.listener={metrics}
kraft.metrics.token.file={token}
listener.name.secure.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
  username="admin" password="{admin}" user_alice="{alice}";
ssl.keystore.password={store}
sasl.oauthbearer.client.credentials.client.secret={provider}
delegation.token.secret.key={delegation}
vault.role.id={unknown}
"""


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """A node with a log file and a listener for metrics."""
    home = tmp_path_factory.mktemp("measured")
    (home / "token").write_text(f"{SECRETS['token']}\n")
    port, = free_ports(1)
    with running(home / "data", "--set", f"kraft.log.file={home / 'node.log'}", "--set",
                 f"kraft.metrics.listener=127.0.0.1:{port}", "--set",
                 f"kraft.metrics.token.file={home / 'token'}") as node:
        yield node


@pytest.fixture
def settings(measured: Started, tmp_path: Path) -> Path:
    """The settings of that node, with secrets in every place that may have some."""
    data = Path(measured.ready["data"][0])
    log = data.with_name("node.log")
    with log.open("a") as file:
        file.write(f'{{"message": "login of alice with {SECRETS["alice"]} and {SECRETS["admin"]} failed"}}\n')
        file.write(f'"config": sasl.password={SECRETS["client"]}, Authorization: Bearer {SECRETS["token"]}\n')
        file.write(f"-----BEGIN PRIVATE KEY-----\n{SECRETS['key']}\n-----END PRIVATE KEY-----\n")
        file.write(f"store opened by {SECRETS['store']}, {SECRETS['provider']}, {SECRETS['delegation']}\n")
    (tmp_path / "server.properties").write_text(SETTINGS.format(
        data=data, log=log, metrics=measured.ready["metrics"], **SECRETS | {"token": data.with_name("token")}))
    return tmp_path / "server.properties"


def members(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        return {member.name.partition("/")[2]: (archive.extractfile(member) or pytest.fail(member.name)).read().decode()
                for member in archive.getmembers()}


def test_it_explains_a_node_and_has_no_secret(measured: Started, settings: Path, tmp_path: Path,
                                              capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "client.properties").write_text(f"bootstrap.servers={measured.bootstrap}\nclient.id=c\n"
                                                f"sasl.password={SECRETS['client']}\n")
    out = tmp_path / "bundle.tar.gz"
    assert run(["debug", "bundle", "--config", str(settings), "--client-config", str(tmp_path / "client.properties"),
                "--metrics-token-file", str(Path(measured.ready["data"][0]).with_name("token")), "--out",
                str(out)]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith(f"{out}: ")
    assert "errors.txt" not in printed.out
    assert out.stat().st_mode & 0o777 == 0o600
    found = members(out)
    listener = f"listeners/{measured.ready['metrics'].replace(':', '-')}"
    assert set(found) >= {
        "versions.txt", "host.json", "cluster/status.json", "cluster/description.json", "cluster/topics.json",
        "cluster/groups.json", "cluster/brokers.json", "recorder/controllers.json", "recorder/broker-1.jsonl",
        "node-7/server.properties", "node-7/directory-0.json", "node-7/directory-0/meta.properties", "node-7/node.log",
        f"{listener}/metrics.txt", f"{listener}/ready.json", f"{listener}/stacks.txt",
    }
    shown = [(name, secret) for name, text in found.items() for secret in SECRETS.values() if secret in text]
    assert shown == []
    assert "thread MainThread:" in found[f"{listener}/stacks.txt"]
    assert "process_cpu_seconds_total" in found[f"{listener}/metrics.txt"]
    assert json.loads(found[f"{listener}/ready.json"])["ready"] is True
    assert "vault.role.id=(hidden)\n" in found["node-7/server.properties"]
    assert "node.id=7\n" in found["node-7/server.properties"]
    assert "login of alice with (hidden)" in found["node-7/node.log"]
    assert json.loads(found["host.json"])["files"]["/proc/meminfo"].startswith("MemTotal")
    assert "crc32c:" in found["versions.txt"]
    assert json.loads(found["recorder/controllers.json"])["entries"]


def test_a_cluster_that_does_not_answer(settings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The rest is in the archive, and says what is missing."""
    dead, = free_ports(1)
    out = tmp_path / "bundle.tar.gz"
    assert run(["debug", "bundle", "--config", str(settings), "--bootstrap", f"127.0.0.1:{dead}", "--out", str(out),
                "--metrics", f"127.0.0.1:{dead}"]) == 1
    assert f"{out} has the rest" in capsys.readouterr().err
    found = members(out)
    assert "node-7/node.log" in found
    assert "cannot connect" in found["errors.txt"]
    assert f"listeners/127.0.0.1-{dead}/metrics.txt: " in found["errors.txt"]
    assert [secret for secret in SECRETS.values() if any(secret in text for text in found.values())] == []


def test_the_end_of_a_log(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"first\nsecond\nthird\n")
    assert tail(path, 100) == "first\nsecond\nthird\n"
    assert tail(path, 10) == "third\n"
    assert tail(path, 0) == ""


def test_sizes_of_a_directory(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / "0.log").write_bytes(bytes(30))
    (tmp_path / "orders-0" / "0.index").write_bytes(bytes(8))
    (tmp_path / "meta.properties").write_bytes(bytes(5))
    found = listing(tmp_path)
    assert found["partitions"] == {"orders-0": {"files": 2, "bytes": 38}, ".": {"files": 1, "bytes": 5}}
    assert found["free_bytes"] <= found["total_bytes"]


def test_an_archive_that_existed_becomes_private(tmp_path: Path) -> None:
    path = tmp_path / "bundle.tar.gz"
    path.write_bytes(b"")
    path.chmod(0o644)
    with Bundle(path, "top", 0.0, Redactor()) as bundle:
        assert bundle.add("a.txt", lambda: "x")
    assert path.stat().st_mode & 0o777 == 0o600
    assert members(path) == {"a.txt": "x"}
