"""`kraft bench`: each load against a node, what it prints and what it writes."""

import json
import platform
import re
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kraft._version import __version__
from kraft.cli.bench_output import shortfall_of
from kraft.cli.command import run
from kraft.client import Cluster
from kraft.client.quorum import QuorumClient
from kraft.client.topics import create_topic
from kraft.pipeline.report import read_inputs
from kraft.protocol.messages.describe_client_quotas_request import DescribeClientQuotasRequest
from kraft.protocol.messages.describe_client_quotas_response import DescribeClientQuotasResponse
from tests.cli.nodes import Started, Tool

SHORT = ("--seconds", 0.3, "--warmup", 0, "--connections", 2)
KINDS = {
    "ping": (),
    "produce": ("--batch-bytes", 4096, "--codec", "lz4", "--acks", -1),
    "fetch": ("--fill-bytes", 1 << 20),
    "end-to-end": ("--rate", 500, "--record-bytes", 20),
}


def options(kind: str) -> list[str]:
    return [str(each) for each in (*SHORT, *KINDS[kind], "--topic", f"bench-{kind}")]


@pytest.fixture(scope="module")
def drawn(node: Started, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page. matplotlib keeps the font files open that its first drawing opens: no test may be that first one."""
    pytest.importorskip("matplotlib")
    page = tmp_path_factory.mktemp("page") / "page.html"
    assert run(["bench", "ping", *options("ping"), "--bootstrap", node.bootstrap, "--html", str(page)]) == 0
    return page


@pytest.mark.parametrize("kind", KINDS)
def test_each_load_is_measured(kind: str, node: Started, tool: Tool) -> None:
    [found] = tool.json("bench", kind, *options(kind), "--pid", node.process.pid)
    [measured] = found["runs"]
    assert measured["name"] == node.bootstrap
    assert (measured["workload"]["kind"], measured["workload"]["connections"]) == (kind, 2)
    assert (measured["errors"], measured["first_error"]) == (0, None)
    assert measured["requests"] > 0
    assert measured["seconds"] == pytest.approx(0.3, rel=0.5)
    assert 0 < measured["latency_us"]["50"] <= measured["latency_us"]["max"]
    assert datetime.fromisoformat(measured["date"]).tzinfo == UTC
    assert (measured["host"], measured["version"]) == (platform.node(), __version__)
    assert 0 < measured["generator_busy"] < 1.5
    assert measured["resident_megabytes"] > 1
    assert measured["cpu_us_per_request"] >= 0
    assert (measured["records_per_second"] > 0) == (kind != "ping")
    assert bool(measured["end_to_end_us"]) == (kind == "end-to-end")


def test_commits_are_records_of_the_metadata_log(node: Started, tool: Tool) -> None:
    """Each request commits a record, and nothing of them stays in the metadata."""
    with Cluster(node.bootstrap) as cluster:
        before = QuorumClient(cluster).describe().high_watermark
        [found] = tool.json("bench", "commit", "--connections", 2, "--in-flight", 4, "--seconds", 0.2, "--warmup", 0)
        committed = QuorumClient(cluster).describe().high_watermark - before
        left = cluster.send(DescribeClientQuotasRequest(components=[], strict=False), DescribeClientQuotasResponse)
    [run_] = found["runs"]
    assert (run_["workload"]["kind"], run_["errors"]) == ("commit", 0)
    assert 0 < run_["requests"] <= committed - 2
    assert run_["records_per_second"] == pytest.approx(run_["requests_per_second"])
    assert run_["latency_us"]["max"] > 0
    assert [entity.entity_name for entry in left.entries or () for entity in entry.entity
            if str(entity.entity_name).startswith("kraft-bench")] == []


def test_commits_of_a_local_quorum(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load = ["--seconds", "0.2", "--warmup", "0", "--rate", "20", "--in-flight", "8"]
    assert run(["bench", "commit", "--local", "1", "--data", str(tmp_path), *load]) == 0
    out, complaints = capsys.readouterr()
    assert complaints == ""
    assert "commit on 1 local controller(s)" in out and "server CPU" in out
    assert list(tmp_path.iterdir()) == []
    for wrong, says in ((["--data", str(tmp_path)], "--data needs --local"),
                        (["--local", "1", "--bootstrap", "localhost:1"], "goes without --bootstrap"),
                        (["--local", "1", "--pid", "1"], "goes without --pid")):
        assert run(["bench", "commit", *wrong]) == 2
        assert says in capsys.readouterr().err


def test_requests_that_are_refused_count_for_nothing(node: Started, capsys: pytest.CaptureFixture[str]) -> None:
    with Cluster(node.bootstrap) as cluster:
        create_topic(cluster, "bench-refused", 2, configs={"max.message.bytes": "100"})
    loaded = [str(each) for each in (*SHORT, *KINDS["produce"], "--topic", "bench-refused")]
    assert run(["bench", "produce", *loaded, "--bootstrap", node.bootstrap]) == 1
    out, complaints = capsys.readouterr()
    assert re.search(r"requests +│ 0/s", out) and re.search(r"bytes +│ 0\.0 MB/s", out)
    assert re.search(r"kraft: .*: [\d,]+ of [\d,]+ requests were refused \(MESSAGE_TOO_LARGE\)", complaints)


def test_the_result_is_printed_and_written_to_files(node: Started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                    capsys: pytest.CaptureFixture[str]) -> None:
    """The address comes from the environment; `kraft pipeline report` reads what --output writes."""
    monkeypatch.setenv("KRAFT_BOOTSTRAP", node.bootstrap)
    file = tmp_path / "a.json"
    assert run(["bench", "produce", *options("produce"), "--output", str(file)]) == 0
    out, complaints = capsys.readouterr()
    assert complaints == ""
    assert f"produce on {node.bootstrap}" in out
    assert all(name in out for name in ("requests", "records", "latency us", "errors"))
    assert "server CPU" not in out
    [(name, measured)] = read_inputs([file]).runs["a"]
    assert name == node.bootstrap
    assert measured.cpu_us_per_request is None


def test_a_page(drawn: Path) -> None:
    text = drawn.read_text("utf-8")
    assert "<h1>kraft bench ping</h1>" in text
    assert text.count("<svg") == 2


def test_a_node_beside_itself(node: Started, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "both.json"
    pid = str(node.process.pid)
    sides = ["bench", "compare", node.bootstrap, node.bootstrap, "produce", *options("produce"), "--pairs", "2"]
    assert run([*sides, "--pid-a", pid, "--pid-b", pid, "--output", str(file)]) == 0
    assert "A / B" in capsys.readouterr().out
    found: dict[str, Any] = json.loads(file.read_text("utf-8"))
    assert [each["name"] for each in found["runs"]] == ["A 1", "B 1", "A 2", "B 2"]
    assert all(each["errors"] == 0 for each in found["runs"])
    ratios = {each["figure"]: each for each in found["ratios"]}
    assert {"requests/s", "CPU us/request"} <= ratios.keys()
    assert ratios["requests/s"]["low"] <= ratios["requests/s"]["ratio"] <= ratios["requests/s"]["high"]


@pytest.mark.parametrize(("arguments", "option"), [(["ping"], "--pid"),
                                                   (["compare", "nobody:1", "nobody:1", "ping"], "--pid-b")])
def test_a_missing_process_is_reported_before_any_load(arguments: list[str], option: str,
                                                       capsys: pytest.CaptureFixture[str]) -> None:
    pid = int(Path("/proc/sys/kernel/pid_max").read_text()) + 1
    assert run(["bench", *arguments, option, str(pid)]) == 1
    assert capsys.readouterr() == ("", f"kraft: pid: there is no process {pid} on this machine\n")


def test_a_rate_that_is_not_reached(tool: Tool) -> None:
    code, out, complaint = tool.run("bench", "ping", "--rate", 5_000_000, "--seconds", 0.6, "--warmup", 0, "--json")
    assert code == 1
    assert json.loads(out)["runs"][0]["requests"] > 0
    assert complaint.startswith(f"kraft: {tool.bootstrap}: 5,000,000 requests/s were due and ")
    assert "; the limit was the " in complaint


@pytest.mark.parametrize(("busy", "side"), [(0.97, "the load generator, whose thread computed 97% of the time"),
                                            (0.2, "the server or the way to it: the load generator computed 20%")])
def test_which_side_was_the_limit(busy: float, side: str) -> None:
    run: Any = SimpleNamespace(workload={"kind": "ping", "rate": 100.0, "in_flight": 1}, seconds=10.25, requests=949,
                               errors=0, requests_per_second=94.9, records_per_second=0.0, generator_busy=busy,
                               backlog=None)
    said = shortfall_of(run)
    assert said is not None
    assert side in said
    run.requests = 950
    assert shortfall_of(run) is None
    run.requests, run.seconds = 0, 0.2
    assert shortfall_of(run) == "no request was answered within 0.2 s"


def test_a_topic_that_does_not_exist_is_not_read(tool: Tool) -> None:
    code, out, complaint = tool.run("bench", "fetch", *SHORT, "--topic", "bench-nowhere")
    assert (code, out) == (1, "")
    assert complaint.endswith("(UNKNOWN_TOPIC_OR_PARTITION)\n")
    assert "bench-nowhere" not in [row["topic"] for row in tool.json("topics", "list")]
    tool.json("topics", "create", "bench-empty")
    code, _, complaint = tool.run("bench", "fetch", *SHORT, "--topic", "bench-empty")
    assert code == 1
    assert "topic bench-empty: there is no record to read" in complaint


def test_acks_by_name(tool: Tool) -> None:
    [found] = tool.json("bench", "produce", *SHORT, "--acks", "all", "--topic", "bench-produce")
    assert found["runs"][0]["workload"]["acks"] == -1
    assert tool.run("bench", "produce", "--acks", "some")[0] == 2


@pytest.mark.parametrize(("option", "value", "says"), [
    ("--seconds", 0, "0.0 is not in the range 0<x<=2000000"), ("--warmup", -1, "-1.0 is not in the range 0<=x<="),
    ("--seconds", "nan", "nan is no number"), ("--warmup", "inf", "inf is not in the range"),
    ("--output", "/nonexistent/x", "there is no directory '/nonexistent'"), ("--html", "/", "is a directory"),
    ("--fill-bytes", -1, "-1 is not in the range x>=0"),
])
def test_options_are_checked_before_any_load(option: str, value: object, says: str, tool: Tool) -> None:
    code, out, complaint = tool.run("bench", "ping", option, value)
    assert (code, out) == (2, "")
    assert says in " ".join(complaint.split())


def test_impossible_loads_are_reported(tool: Tool) -> None:
    code, out, complaint = tool.run("bench", "produce", *options("produce"), "--acks", 2)
    assert (code, out) == (1, "")
    assert complaint.startswith("kraft: acks: ")
