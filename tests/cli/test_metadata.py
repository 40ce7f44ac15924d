"""`kraft metadata`: the metadata log of files that Kafka wrote, of a running cluster, and of its files."""

import json
from pathlib import Path
from typing import Any

import pytest

from kraft.cli.command import run
from kraft.cli.metadata_source import AsOf, from_files
from kraft.cli.metadata_tree import differences, tree_of
from kraft.config.errors import InvalidConfigError
from kraft.local.cluster import LocalCluster
from tests.golden import golden, needs_golden


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """Nothing of the engine runs in this process."""


class Shell:
    """Run `kraft metadata` in this process."""

    def __init__(self, source: list[object], capsys: pytest.CaptureFixture[str]) -> None:
        self.source = source
        self.capsys = capsys

    def run(self, *arguments: object) -> tuple[int, str, str]:
        self.capsys.readouterr()
        code = run([str(each) for each in ("metadata", *arguments, *self.source)])
        printed = self.capsys.readouterr()
        return code, printed.out, printed.err

    def cat(self, *arguments: object) -> Any:
        code, out, complaints = self.run("cat", *arguments, "--json")
        assert (code, complaints) == (0, "")
        return json.loads(out)


def node(kind: str, number: int) -> Path:
    return golden("quorum", kind, f"node-{number}")


@needs_golden
@pytest.mark.parametrize("kind", ["dynamic", "static"])
def test_all_nodes_of_kafka_knew_the_same(kind: str) -> None:
    ends = [from_files(node(kind, number), AsOf()).offset for number in (1, 2, 3)]
    common = AsOf(offset=min(ends))
    first, *others = (tree_of(from_files(node(kind, number), common)) for number in (1, 2, 3))
    assert all(differences(first, other) == [] for other in others)


@needs_golden
def test_shell_over_files(capsys: pytest.CaptureFixture[str]) -> None:
    shell = Shell(["--data", node("dynamic", 1)], capsys)
    assert shell.run("ls")[1].split()[:3] == ["image/", "features/", "brokers/"]
    assert shell.run("ls", "/brokers")[1].split() == ["1/", "2/", "3/"]
    assert shell.cat("/features/metadata.version") == 30
    assert shell.cat("/brokers/1")["rack"] == "rack-1"
    assert shell.cat("/image", "--as-of", 120) == {"offset": 120, "epoch": 2, "timestamp_ms": 1795258781805}
    code, out, _ = shell.run("diff", "/topics/w1", "--as-of", 100, "--to", 120)
    assert (code, out.splitlines()[1]) == (1, "~ /topics/w1/1/isr = [2, 1] -> [1, 2]")
    assert shell.run("diff", "--as-of", 120, "--to", 120)[:2] == (0, "")
    by_time = shell.cat("/image", "--as-of", "2026-11-21T10:59:41.806")
    assert by_time["timestamp_ms"] <= 1795258781806
    code, _, complaints = shell.run("cat", "/topics/none")
    assert code == 1
    assert "there is no none in /topics; there is: " in complaints
    assert shell.run("ls", "--as-of", "yesterday")[0] == 1
    assert shell.run("diff", "/none", "--as-of", 100) == (
        1, "", shell.run("cat", "/none")[2])
    for ahead in ("2999-01-01", 10**9):
        for words in (("ls", "--as-of", ahead), ("cat", "/image", "--as-of", ahead), ("diff", "--to", ahead)):
            code, out, complaints = shell.run(*words)
            assert (code, out) == (1, ""), words
            assert "lies ahead" in complaints


@needs_golden
def test_a_snapshot_is_what_the_log_gives(capsys: pytest.CaptureFixture[str]) -> None:
    directory = node("dynamic", 1) / "__cluster_metadata-0"
    snapshot = max(directory.glob("*.checkpoint"))
    end = int(snapshot.name[:20])
    shell = Shell(["--data", snapshot], capsys)
    code, out, _ = shell.run("diff", "/topics", "--with", directory, "--to", end - 1)
    assert (code, out) == (0, "")


def test_points_in_time() -> None:
    assert AsOf.parse("17") == AsOf(offset=17)
    assert AsOf.parse("1970-01-01T00:00:01") == AsOf.parse("1970-01-01T02:00:01+02:00") == AsOf(time_ms=1000)
    assert AsOf.parse(None).includes(10**9, 10**15)
    assert not AsOf(offset=4).includes(5, 0)
    for text in ("x", "", "-5"):
        with pytest.raises(InvalidConfigError, match=f"--to: '{text}' is not an offset or a time"):
            AsOf.parse(text, "--to")


@pytest.mark.kraft_cluster(brokers=2, controllers=1)
def test_live_and_its_files(kraft_cluster: LocalCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topics", "create", "m1", "--partitions", "2", "--replication-factor", "2", "--config",
                "retention.ms=1234", "--bootstrap", kraft_cluster.bootstrap]) == 0
    live = Shell(["--bootstrap", kraft_cluster.bootstrap], capsys)
    found = live.cat("/")
    assert set(found["topics"]) == {"m1"}
    assert sorted(found["topics"]["m1"]["1"]["replicas"]) == [1, 2]
    assert found["configs"]["topic"] == {"m1": {"retention.ms": "1234"}}
    from_a_controller = Shell(["--bootstrap", kraft_cluster.controller_bootstrap], capsys).cat("/topics")
    assert from_a_controller == found["topics"]
    controller = next(iter(kraft_cluster.controllers.values()))
    files = Shell(["--data", controller.directory], capsys)
    assert files.cat("/", "--as-of", found["image"]["offset"]) == found
    for ahead in ("2999-01-01", 10**9):
        code, out, complaints = live.run("ls", "--as-of", ahead)
        assert (code, out) == (1, "")
        assert "lies ahead" in complaints
    before = live.cat("/", "--as-of", 5)
    assert before["topics"] == {}
    assert before["image"]["offset"] <= 5      # not within the transaction of the first records
