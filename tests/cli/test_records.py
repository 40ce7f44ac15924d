"""`kraft produce`, `kraft consume` and `kraft groups`, as in a pipe."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.nodes import END_SECONDS, Started, Tool, command, running
from tools.tree import ROOT


class Pipe:
    """Commands that read standard input or write much, each in a process of its own."""

    def __init__(self, node: Started) -> None:
        self.environment = {**os.environ, "KRAFT_BOOTSTRAP": node.bootstrap}

    def run(self, *arguments: object, given: str = "") -> tuple[int, str, str]:
        """Return exit code, output and complaints."""
        ended = subprocess.run(command(*arguments), cwd=ROOT, text=True, input=given, capture_output=True,
                               timeout=END_SECONDS, check=False, env=self.environment)
        return ended.returncode, ended.stdout, ended.stderr

    def json(self, *arguments: object) -> list[dict[str, Any]]:
        code, out, complaints = self.run("consume", *arguments, "--until-end", "--json")
        assert (code, complaints) == (0, "")
        return [json.loads(line) for line in out.splitlines()]


@pytest.fixture
def pipe(node: Started) -> Pipe:
    return Pipe(node)


def test_lines_in_and_out(pipe: Pipe, tool: Tool) -> None:
    tool.json("topics", "create", "r1", "--partitions", 2)
    given = "".join(f"k{number % 7}\tvalue {number}\n" for number in range(1_000)) + "gone\t\n"
    assert pipe.run("produce", "r1", "--key-separator", r"\t", "--null", "", "--header", "from=test", "--codec", "lz4",
                    given=given) == (0, "", "1,001 records produced\n")
    records = pipe.json("r1")
    assert sorted((row["key"], row["value"]) for row in records if row["value"] is not None) == sorted(
        (f"k{number % 7}", f"value {number}") for number in range(1_000))
    assert [row["value"] for row in records if row["key"] == "k1"] == [f"value {n}" for n in range(1, 1_000, 7)]
    assert [row["value"] for row in records if row["key"] == "gone"] == [None]
    assert all(row["headers"] == [["from", "test"]] for row in records)
    first = next(row for row in records if row["partition"] == 1)
    code, out, _ = pipe.run("consume", "r1", "--partition", 1, "--from", first["offset"], "--limit", 1,
                            "--key-separator", "=")
    assert (code, out) == (0, f"{first['key']}={first['value']}\n")


def test_the_last_records_and_those_that_pass(pipe: Pipe, tool: Tool) -> None:
    tool.json("topics", "create", "r1-last", "--partitions", 2)
    pipe.run("produce", "r1-last", "--key-separator", "=", "--header", "from=first", given="a=1\nb=2\na=3\n")
    pipe.run("produce", "r1-last", "--key-separator", "=", "--header", "from=second", given="a=4\nb=5\nc=6\n")
    records = pipe.json("r1-last")
    for partition in (0, 1):
        values = [row["value"] for row in records if row["partition"] == partition]
        assert [row["value"] for row in pipe.json("r1-last", "--partition", partition, "--last", 1)] == values[-1:]
    assert sorted(row["value"] for row in pipe.json("r1-last", "--last", 100)) == list("123456")
    assert [row["value"] for row in pipe.json("r1-last", "--key", "a")] == ["1", "3", "4"]
    assert sorted(row["value"] for row in pipe.json("r1-last", "--header", "from=second")) == ["4", "5", "6"]
    assert [row["value"] for row in pipe.json("r1-last", "--header", "from", "--key", "a", "--limit", 2)] == ["1", "3"]
    assert pipe.json("r1-last", "--header", "to") == []
    for wrong, why in ((("--from", "end"), "both say where to begin"), (("--group", "g"), "no --last")):
        code, out, complaints = pipe.run("consume", "r1-last", "--last", 1, *wrong)
        assert (code, out) == (2, "")
        assert why in complaints


def test_the_spellings_of_kafkas_tools_and_a_format(pipe: Pipe, tool: Tool) -> None:
    code, _, complaints = tool.run("topics", "create", "--topic", "r1-kafka", "--partitions", 1)
    assert (code, complaints) == (0, "")
    assert pipe.run("produce", "--topic", "r1-kafka", "--key-separator", "=", "--header", "from=test",
                    "--request-required-acks", "all", given="a=1\nb=2\n")[0] == 0
    code, out, complaints = pipe.run("consume", "--topic", "r1-kafka", "--from-beginning", "--max-messages", 2,
                                     "--format", r"%t %p %o %k=%s (%S) %h\n")
    assert (code, complaints) == (0, "")
    assert out == "r1-kafka 0 0 a=1 (1) from=test\nr1-kafka 0 1 b=2 (1) from=test\n"
    code, out, _ = pipe.run("consume", "r1-kafka", "--offset", 1, "--limit", 1, "-f", "%v|%T")
    assert (code, out.startswith("2|1")) == (0, True)
    assert not out.endswith("\n")
    for wrong, why in ((("--format", "%x"), "is no field"), (("--format", "%v", "--json"), "says all that is printed")):
        code, out, complaints = pipe.run("consume", "r1-kafka", *wrong)
        assert (code in (1, 2), out) == (True, "")
        assert why in complaints


def test_a_group_reads_past_what_does_not_pass(pipe: Pipe, tool: Tool) -> None:
    tool.json("topics", "create", "r1-group")
    pipe.run("produce", "r1-group", "--key-separator", "=", given="a=1\nb=2\n")
    read = ("consume", "r1-group", "--group", "r1-group", "--until-end", "--key")
    assert pipe.run(*read, "a") == (0, "1\n", "")
    assert pipe.run(*read, "b") == (0, "", ""), "it was read before, and is not read again"


def test_a_group_continues_where_it_was(pipe: Pipe, tool: Tool) -> None:
    tool.json("topics", "create", "r2")
    pipe.run("produce", "r2", given="one\ntwo\nthree\n")
    assert pipe.run("consume", "r2", "--group", "g2", "--limit", 2) == (0, "one\ntwo\n", "")
    assert tool.json("groups", "offsets", "g2") == [
        {"topic": "r2", "partition": 0, "committed": 2, "end": 3, "lag": 1, "metadata": ""}]
    assert pipe.run("consume", "r2", "--group", "g2", "--until-end") == (0, "three\n", "")
    assert {"group": "g2", "kind": "classic", "state": "Empty", "protocol_type": "consumer",
            "coordinator": 1} in tool.json("groups", "list")
    [described] = tool.json("groups", "describe", "g2")
    assert (described["state"], described["members"]) == ("Empty", [])
    assert tool.json("groups", "reset", "g2", "--to", "-2", "--dry-run") == [
        {"topic": "r2", "partition": 0, "before": 3, "committed": 1}]
    for to, offset in (("earliest", 0), ("2", 2), ("+9", 3), ("latest", 3), ("2000-01-01T00:00:00Z", 0),
                       ("2999-01-01", 3)):
        assert [row["committed"] for row in tool.json("groups", "reset", "g2", "--to", to)] == [offset], to
    code, out, complaint = tool.run("groups", "reset", "g2", "--to", 9, "--dry-run", "--json")
    assert (code, json.loads(out)["committed"]) == (0, 3)
    assert complaint == "kraft: r2/0: offset 9 is not in 0 to 3; the nearest is taken\n"
    assert tool.json("groups", "reset", "fresh", "--to", "1", "--topic", "r2:0") == [
        {"topic": "r2", "partition": 0, "before": None, "committed": 1}]
    assert pipe.run("consume", "r2", "--group", "fresh", "--until-end") == (0, "two\nthree\n", "")
    assert tool.json("groups", "delete", "g2", "fresh") == [{"group": "g2", "result": "deleted"},
                                                            {"group": "fresh", "result": "deleted"}]
    for words in (("describe", "g2"), ("offsets", "g2"), ("reset", "g2", "--to", "earliest", "--dry-run")):
        code, out, complaint = tool.run("groups", *words)
        assert (code, out) == (1, "")
        assert complaint.endswith("(GROUP_ID_NOT_FOUND)\n")
    assert tool.run("groups", "list", "--state", "asleep")[0] == 2


def test_a_group_with_members_is_left_alone(pipe: Pipe, tool: Tool) -> None:
    tool.json("topics", "create", "r3", "--partitions", 2)
    pipe.run("produce", "r3", "--partition", 0, given="here\n")
    with subprocess.Popen(command("consume", "r3", "--group", "g3"), cwd=ROOT, stdout=subprocess.PIPE,
                          env=pipe.environment) as reading:
        assert reading.stdout
        assert reading.stdout.readline() == b"here\n"
        [described] = tool.json("groups", "describe", "g3")
        assert described["state"] == "Stable"
        assert [member["partitions"] for member in described["members"]] == [["r3-0", "r3-1"]]
        code, _, complaint = tool.run("groups", "reset", "g3", "--to", "earliest")
        assert code == 1
        assert complaint == "kraft: group g3: it is Stable with 1 member(s); stop them first (NON_EMPTY_GROUP)\n"
        code, _, complaint = tool.run("groups", "delete", "g3")
        assert code == 1
        assert complaint.endswith("(NON_EMPTY_GROUP)\n")
        reading.terminate()


def test_a_cluster_that_stops_is_reported(tmp_path: Path) -> None:
    with running(tmp_path / "data") as node:
        Pipe(node).run("produce", "r7", given="here\n")
        with subprocess.Popen(command("consume", "r7", "--bootstrap", node.bootstrap), cwd=ROOT, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as reading:
            assert reading.stdout
            assert reading.stderr
            assert reading.stdout.readline() == "here\n"
            assert node.stop() == (0, "")
            assert reading.stderr.readline() == "kraft: no broker can be reached; waiting for one\n"
            reading.terminate()


def test_json_goes_through(pipe: Pipe, tool: Tool) -> None:
    tool.json("topics", "create", "r4", "r5", "--config", "retention.ms=-1")
    given = '{"key":null,"value":{"base64":"/w=="},"headers":[["h",null]],"timestamp":86400000}\n'
    assert pipe.run("produce", "r4", "--json", given=given)[0] == 0
    [record] = pipe.json("r4")
    assert record == {"topic": "r4", "partition": 0, "offset": 0, "timestamp": 86_400_000, "key": None,
                      "value": {"base64": "/w=="}, "headers": [["h", None]]}
    assert pipe.run("produce", "r5", "--json", given=json.dumps(record))[0] == 0
    assert pipe.json("r5") == [record | {"topic": "r5"}]


def test_records_of_any_bytes_go_through(pipe: Pipe, tool: Tool, node: Started) -> None:
    """`consume` and `log dump` print the same, and `produce` reads it, in its order."""
    tool.json("topics", "create", "r11", "r12", "--config", "retention.ms=-1")
    odd = [["a", "1"], [{"base64": "/w=="}, {"base64": "gA=="}], ["n\0l", None]]
    given: list[dict[str, Any]] = [
             {"key": {"base64": "/w=="}, "value": "1", "headers": [["a", "b"]], "timestamp": 5},
             {"key": "k", "value": {"base64": "/g=="}, "headers": odd, "timestamp": 6},
             {"key": None, "value": None, "headers": [], "timestamp": 7}]
    text = "".join(f"{json.dumps(each)}\n" for each in given)
    assert pipe.run("produce", "r11", "--json", "--codec", "lz4", given=text) == (0, "", "3 records produced\n")
    found = pipe.json("r11")
    assert [{name: each[name] for name in given[0]} for each in found[:1] + found[2:]] == given[:1] + given[2:]
    assert found[1]["headers"][:2] == odd[:2]      # the client library silently truncates a name at a NUL
    dumped = [json.loads(line) for line in pipe.run("log", "dump", "--json", f"{node.ready['data'][0]}/r11-0")[1]
              .splitlines()]
    assert [{name: each[name] for name in given[0]} for each in dumped] == given
    text = "".join(f"{json.dumps(each)}\n" for each in dumped)
    assert pipe.run("produce", "r12", "--json", given=text)[0] == 0
    again = pipe.run("log", "dump", "--json", f"{node.ready['data'][0]}/r12-0")[1].splitlines()
    assert [json.loads(line) | {"topic": "r11"} for line in again] == dumped


def test_an_offset_that_a_partition_does_not_have(pipe: Pipe, tool: Tool) -> None:
    tool.json("topics", "create", "r13")
    pipe.run("produce", "r13", given="one\ntwo\n")
    assert pipe.run("consume", "r13", "--partition", 0, "--from", 2, "--until-end") == (0, "", "")
    assert pipe.run("consume", "r13", "--partition", 0, "--from", 99) == (
        1, "", "kraft: partition r13-0: offset 99 is not in 0 to 2 (OFFSET_OUT_OF_RANGE)\n")


def test_refusals(pipe: Pipe, tool: Tool) -> None:
    tool.json("topics", "create", "r6", "--config", "max.message.bytes=100")
    assert pipe.run("produce", "r6", "--json", given='{"value":"1"}\n[]\n') == (
        1, "", "1 record produced\nkraft: line 2: no JSON object\n")
    code, _, complaint = pipe.run("produce", "r6", given="x" * 200)
    assert code == 1
    assert complaint.endswith("(MESSAGE_TOO_LARGE)\n")
    code, _, complaint = pipe.run("consume", "nowhere")
    assert code == 1
    assert complaint.startswith("kraft: topic nowhere: ")
    assert pipe.run("consume", "r6", "--group", "g", "--from", "5")[0] == 2
    pipe.environment["KRAFT_BOOTSTRAP"] = "127.0.0.1:1"
    code, _, complaint = pipe.run("consume", "r6", "--timeout", "0.5")
    assert code == 1
    assert complaint.startswith("kraft: 127.0.0.1:1: ")


@contextmanager
def started(pipe: Pipe, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A command that keeps running; killed when the test leaves it running."""
    process = subprocess.Popen(command(*arguments), cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=pipe.environment, bufsize=1)
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def test_ctrl_c_of_produce_loses_nothing_that_it_read(pipe: Pipe, tool: Tool) -> None:
    tool.json("topics", "create", "r8")
    with started(pipe, "consume", "r8") as reader, started(pipe, "produce", "r8") as writer:
        assert writer.stdin and writer.stderr and reader.stdout
        writer.stdin.write("one\ntwo\n")
        writer.stdin.flush()
        assert [reader.stdout.readline() for _ in range(2)] == ["one\n", "two\n"]
        writer.send_signal(signal.SIGINT)
        assert writer.stderr.read() == "2 records produced\n"
        assert writer.wait(END_SECONDS) == 130
        reader.send_signal(signal.SIGINT)
        assert (reader.stdout.read(), reader.wait(END_SECONDS)) == ("", 130)


def test_ctrl_c_of_a_group_leaves_what_was_printed_committed(pipe: Pipe, tool: Tool) -> None:
    tool.json("topics", "create", "r9")
    pipe.run("produce", "r9", given="one\ntwo\n")
    with started(pipe, "consume", "r9", "--group", "g9") as reader:
        assert reader.stdout and reader.stderr
        assert [reader.stdout.readline() for _ in range(2)] == ["one\n", "two\n"]
        reader.send_signal(signal.SIGINT)
        assert (reader.stderr.read(), reader.wait(END_SECONDS)) == ("", 130)
    assert [row["committed"] for row in tool.json("groups", "offsets", "g9")] == [2]


def test_a_reader_that_has_enough(pipe: Pipe, tool: Tool) -> None:
    tool.json("topics", "create", "r10")
    pipe.run("produce", "r10", given="".join(f"{number}\n" for number in range(50_000)))
    with started(pipe, "consume", "r10") as reader:
        assert reader.stdout and reader.stderr
        assert reader.stdout.readline() == "0\n"
        reader.stdout.close()
        assert (reader.stderr.read(), reader.wait(END_SECONDS)) == ("", 141)
