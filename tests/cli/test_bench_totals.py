"""Counts of `kraft bench` beside those of the node, second by second and in all."""

import os
import re
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import pytest

from kraft.cli.command import run
from tests.cli.nodes import Started, Tool, command, running
from tests.oracle.hdr_log import read_log
from tools.tree import ROOT

TOLERANCE = 0.001
TOTALS = {"messagesin": "records_sent", "bytesin": "record_bytes_sent", "bytesout": "record_bytes_read"}
LOAD = ("--seconds", 0.4, "--warmup", 0)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    resource_tracker.ensure_running()      # the process that Python starts with the first of others, and keeps
    with running(tmp_path_factory.mktemp("measured") / "data", "--set",
                 "kraft.metrics.listener=127.0.0.1:0") as node:
        yield node


@pytest.fixture
def tool(measured: Started, capsys: pytest.CaptureFixture[str]) -> Tool:
    return Tool(measured.bootstrap, capsys)


def counted(node: Started, topics: str) -> dict[str, float]:
    """Return the node's own counters of the topics whose name begins so."""
    with urllib.request.urlopen(f"http://{node.ready['metrics']}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return {name: sum(float(value) for value in re.findall(
        rf'^kafka_server_brokertopicmetrics_{name}_total{{topic="{topics}[^"]*"}} (\S+)$', text, re.MULTILINE))
        for name in TOTALS}


@pytest.mark.parametrize(("kind", "options"), [
    ("produce", ("--connections", 2, "--in-flight", 9, "--batch-bytes", 3000, "--acks", "all", "--rate", 2000)),
    ("produce", ("--connections", 4, "--topics", 2, "--partitions", 3, "--spread", "--keys", "zipf:500", "--codec",
                 "lz4", "--batch-bytes", 900, "--rate", 3000, "--processes", 2)),
    ("end-to-end", ("--connections", 3, "--rate", 900, "--groups", 2, "--batch-bytes", 2000, "--processes", 2)),
])
def test_totals_are_those_of_the_node(kind: str, options: tuple[Any, ...], measured: Started, tool: Tool) -> None:
    """The issue allows a tenth of a percent. Several processes, topics, keys and groups do not change that."""
    topic = f"total-{kind}-{len(options)}"
    [found] = tool.json("bench", kind, *LOAD, *options, "--topic", topic)
    [run_] = found["runs"]
    node = counted(measured, topic)
    assert run_["records_sent"] > 100
    assert bool(run_["record_bytes_read"]) == (kind == "end-to-end")
    for name, total in TOTALS.items():
        assert run_[total] == pytest.approx(node[name], rel=TOLERANCE), name
    if kind == "end-to-end":
        assert run_["records_read"] == pytest.approx(2 * run_["records_sent"], rel=0.3)    # the last may be unread
        assert run_["end_to_end_samples"] > 1.4 * run_["samples"]
    assert (run_["brokers"], run_["durability"]) == (1, "page-cache")
    assert run_["metadata_version"].isdecimal() and run_["cluster_id"] == measured.ready["cluster_id"]


def test_records_that_were_refused_are_no_total(measured: Started, tool: Tool) -> None:
    tool.json("topics", "create", "total-refused", "--partitions", 1, "--config", "max.message.bytes=100")
    code, out, _ = tool.run("bench", "produce", *LOAD, "--topic", "total-refused", "--batch-bytes", 900, "--rate", 100,
                            "--json")
    assert code == 1
    assert '"records_sent": 0' in out
    assert counted(measured, "total-refused")["messagesin"] == 0


def test_each_second_is_shown_and_logged(measured: Started, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "a.hlog"
    load = ["--connections", "2", "--topic", "seconds", "--bootstrap", measured.bootstrap, "--seconds", "1.2"]
    assert run(["bench", "end-to-end", *load, "--warmup", "0", "--rate", "500", "--progress", "--hdr-log", str(log),
                "--json"]) == 0
    printed = capsys.readouterr()
    first, *_ = printed.err.splitlines()
    assert re.match(r" +1 s: [\d.,]+ requests/s, .* records/s and .* MB/s sent, .* read, p50 .* ms, p99 .* ms, "
                    "end to end p50", first)
    comments, lines = read_log(log.read_text("ascii"))
    assert comments[0].startswith("#[kraft bench ")
    samples = {tag: sum(count for line in lines if line.tag == tag for _, count in line.counts)
               for tag in ("", "end-to-end")}
    assert samples == {"": int(re.findall(r'"samples": (\d+)', printed.out)[0]),
                       "end-to-end": int(re.findall(r'"end_to_end_samples": (\d+)', printed.out)[0])}
    assert [line.start for line in lines] == sorted(line.start for line in lines)


@pytest.mark.parametrize(("options", "says"), [
    (("--connections", 2, "--processes", 3), "connections: 2 is below 3"),
    (("--topics", 2), "connections: 1 is below 2"),
    (("--keys", "often"), "keys: 'often' is not none"),
    (("--groups", 2), "groups: 2, but only end-to-end"),
])
def test_a_load_that_does_not_fit_is_refused(options: tuple[Any, ...], says: str, tool: Tool) -> None:
    code, out, complaint = tool.run("bench", "produce", *options)
    assert (code, out) == (1, "")
    assert says in complaint


def test_a_process_that_fails_ends_the_run(tool: Tool) -> None:
    """The partition has no key: only the process that has its connection can find out."""
    code, out, complaint = tool.run("bench", "produce", *LOAD, "--connections", 9, "--processes", 2, "--topic", "keys",
                                    "--keys", "random:2")
    assert (code, out) == (1, "")
    assert re.search(r"generator process \d: keys: none of random:2 belongs to partition \d of 9", complaint)


@pytest.mark.parametrize("processes", [1, 2])
def test_an_interrupted_run_ends_at_once(processes: int, measured: Started) -> None:
    """Ctrl-C comes in the second second of an hour."""
    arguments = command("bench", "ping", "--rate", 50, "--seconds", 3600, "--warmup", 0, "--progress", "--connections",
                        2, "--processes", processes, "--bootstrap", measured.bootstrap)
    with subprocess.Popen(arguments, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          start_new_session=True) as process:
        try:
            assert process.stderr is not None
            assert "1 s: " in process.stderr.readline()
            os.killpg(process.pid, signal.SIGINT)
            out, complaints = process.communicate(timeout=20)
        finally:
            process.kill()
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in complaints


@pytest.mark.parametrize("several", [("search", "ping", "--limit-ms", 1), ("compare", "a:1", "b:1", "ping")])
def test_a_log_has_one_run(several: tuple[Any, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", *map(str, several), "--hdr-log", str(tmp_path / "a")]) == 2
    assert "--hdr-log is the log of one run" in capsys.readouterr().err
    assert not (tmp_path / "a").exists()
