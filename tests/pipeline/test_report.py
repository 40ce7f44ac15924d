"""`kraft pipeline report`: pages from benchmark results and recordings."""

import json
from pathlib import Path
from typing import Any

import pytest

from kraft.cli.command import run
from kraft.pipeline.report import Election, compared, elections, mismatches, page, percentiles, read_inputs
from kraft.recorder.entry import Entry
from kraft_native.base.errors import InvalidArgumentError


def bench_file(path: Path, *rates: float) -> Path:
    runs = [{"name": f"run {number}", "workload": {"kind": "produce", "connections": 1}, "server": "s", "seconds": 1.0,
             "requests": 10, "errors": 0, "first_error": None, "requests_per_second": rate, "records_per_second": rate,
             "megabytes_per_second": rate / 10, "latency_us": {"50": 1e6 / rate, "99": 2e6 / rate, "max": 3.0},
             "end_to_end_us": None, "cpu_us_per_request": None, "cpu_seconds_per_gigabyte": None,
             "resident_megabytes": None, "requests_per_slot": [5, 5], "histogram": [[50, 1.0], [99, 2.0]]}
            for number, rate in enumerate(rates)]
    path.write_text(json.dumps({"runs": runs}))
    return path


def becomes(time_ms: float, node: int, number: int, role: str, epoch: int) -> Entry:
    return Entry(time_ms, node, number, "becomes", {"role": role, "epoch": epoch})


ENTRIES = [becomes(1000, 1, 1, "Candidate", 1), becomes(1010, 1, 2, "Leader", 1),
           Entry(1100, 1, 3, "commits", {"offset": 5}, 10, 5000), becomes(6000, 2, 1, "Prospective", 1),
           becomes(6005, 2, 2, "Candidate", 2), becomes(6030, 2, 3, "Leader", 2)]


@pytest.fixture(scope="module", autouse=True)
def warm(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Open fonts before the tests: files that the first plot of a process opens stay open."""
    path = bench_file(tmp_path_factory.mktemp("warm") / "a.json", 1)
    page("warm", read_inputs([path]))


def test_elections() -> None:
    assert elections(ENTRIES) == [Election(1, 1, 1010, 10, -1), Election(2, 2, 6030, 30, 1030)]
    assert elections([]) == []


def test_percentiles() -> None:
    assert percentiles([]) == {}
    assert percentiles([7]) == {"50": 7, "90": 7, "99": 7, "max": 7}
    assert percentiles(list(map(float, range(101)))) == {"50": 50, "90": 90, "99": 99, "max": 100}


def test_comparisons_are_of_pairs(tmp_path: Path) -> None:
    inputs = read_inputs([bench_file(tmp_path / "a.json", 100, 200, 300), bench_file(tmp_path / "b.json", 50, 100)])
    ratio = next(each for each in compared(inputs.runs["a"], inputs.runs["b"]) if each.figure == "requests/s")
    assert (ratio.ratio, ratio.low, ratio.high) == (2, 2, 2)


def test_different_workloads_are_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [bench_file(tmp_path / "a.json", 100), bench_file(tmp_path / "b.json", 50)]
    found = json.loads(files[1].read_text())
    found["runs"][0]["workload"]["connections"] = 7
    files[1].write_text(json.dumps(found))
    inputs = read_inputs(files)
    assert mismatches(inputs) == [("a", "b", [("connections", 1, 7)])]
    with pytest.raises(InvalidArgumentError, match="connections is 1 and 7"):
        compared(inputs.runs["a"], inputs.runs["b"])
    assert run(["pipeline", "report", *map(str, files), "--html", str(tmp_path / "page.html")]) == 0
    assert capsys.readouterr().err == ("kraft: a and b ran different workloads and are not compared: connections 1 and "
                                       "7\n")
    text = (tmp_path / "page.html").read_text()
    assert "Not compared: the workloads differ" in text
    assert "<td>connections</td><td>1</td><td>7</td>" in text
    assert "95 % interval" not in text


def test_files_of_one_name_are_not_mixed_up(tmp_path: Path) -> None:
    for name, rate in (("x", 100), ("y", 50)):
        (tmp_path / name).mkdir()
        bench_file(tmp_path / name / "a.json", rate)
    inputs = read_inputs([tmp_path / "x" / "a.json", tmp_path / "y" / "a.json"])
    assert [(name, [run.requests_per_second for _, run in runs]) for name, runs in inputs.runs.items()] == [
        (str(tmp_path / "x" / "a.json"), [100]), (str(tmp_path / "y" / "a.json"), [50])]


def test_one_run_has_no_interval(tmp_path: Path) -> None:
    inputs = read_inputs([bench_file(tmp_path / "a.json", 100), bench_file(tmp_path / "b.json", 50)])
    assert {each.low for each in compared(inputs.runs["a"], inputs.runs["b"])} == {None}
    assert "none: one pair" in page("x", inputs)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recording = tmp_path / "timeline.jsonl"
    recording.write_text("".join(f"{entry.line}\n" for entry in ENTRIES))
    files = [str(bench_file(tmp_path / "a.json", 100, 200)), str(bench_file(tmp_path / "b.json", 50)), str(recording)]
    assert run(["pipeline", "report", *files, "--json", "--html", str(tmp_path / "page.html")]) == 0
    rows: list[dict[str, Any]] = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found = {(row["source"], row["figure"]): row["median"] for row in rows}
    assert (found["a", "requests/s"], found["b", "requests/s"]) == (150, 50)
    assert found["recordings", "election ms"] == 20
    text = (tmp_path / "page.html").read_text()
    assert all(part in text for part in ("<svg", "Elections", "Compared"))
    assert run(["pipeline", "report", str(recording), "--html", str(tmp_path / "page.html")]) == 0
    assert "election ms" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["no result", '{"runs": [{"name": "x"}]}', "[1]"])
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "x").write_text(text)
    with pytest.raises(InvalidArgumentError, match=str(tmp_path / "x")):
        read_inputs([tmp_path / "x"])


@pytest.mark.parametrize("content", [b"\xff\xfe", b"5", b'{"runs": 5}', b'{"runs": [5]}', b'{"runs": [{}]}', b"[]\n"])
def test_files_of_another_kind_are_one_sentence(tmp_path: Path, content: bytes,
                                                capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.json").write_bytes(content)
    assert run(["pipeline", "report", str(tmp_path / "x.json")]) == 1
    printed = capsys.readouterr().err
    assert printed.startswith(f"kraft: {tmp_path}/x.json: ")
    assert printed.count("\n") == 1
