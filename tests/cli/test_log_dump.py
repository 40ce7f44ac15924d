"""`kraft log dump` and `stat`: what a consumer sees, exactly; damage is reported and not shown."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kraft import Log
from kraft.cli.command import run
from kraft.cli.record_lines import LineFormat, LineRecord, read_line
from kraft_native.log.live import LivePage
from tests.cli.partitions import PartitionMaker, flip
from tests.golden import golden, needs_golden, partitions


def lines(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[str]:
    assert run(["log", *map(str, arguments)]) == 0
    return capsys.readouterr().out.splitlines()


def objects(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[dict]:
    return [json.loads(line) for line in lines(capsys, "dump", "--json", *arguments)]


@pytest.fixture
def maker(tmp_path: Path) -> PartitionMaker:
    made = PartitionMaker(tmp_path / "some-topic-3")
    made.records(b"one", b"\xff\x00", None)
    made.records(b"two", producer_id=7, transactional=True, codec="zstd")
    made.marker(7, commit=False)
    made.aborted(7, 3, 4)
    made.roll()
    made.records(b"three", leader_epoch=2)
    return made


@pytest.mark.parametrize("partition", partitions(), ids=str)
def test_records_are_exactly_kafkas(partition, capsys: pytest.CaptureFixture[str]) -> None:
    expected = golden("log", "expected", f"{partition.name}.jsonl").read_text().splitlines()
    assert lines(capsys, "dump", "--json", "--digest", partition.directory) == expected


@needs_golden
def test_values_are_whole_without_digest(capsys: pytest.CaptureFixture[str]) -> None:
    found = objects(capsys, golden("log", "data", "big-0"))
    assert [len(record["value"]) for record in found] == [30, 307_200, 30]
    assert list(found[0]) == ["offset", "timestamp", "key", "value", "headers", "timestamp_type", "leader_epoch",
                              "topic", "partition"]
    assert (found[0]["topic"], found[0]["partition"]) == ("big", 0)


def test_bytes_that_are_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Values of every form, and names of headers. `kraft produce --json` reads what `--json` prints."""
    with Log(tmp_path / "odd") as log:
        log.append_record(b"\xff", b"k\xfe", 5, [(b"n\xff", b"\x80"), ("n", None)])
    assert lines(capsys, "dump", tmp_path / "odd") == ["0 5 6bfe ff 6eff=80 n=null"]
    line, = lines(capsys, "dump", "--json", tmp_path / "odd")
    assert read_line(line.encode(), LineFormat(True, None, None)) == LineRecord(
        b"k\xfe", b"\xff", [("n\udcff", b"\x80"), ("n", None)], 5)
    assert json.loads(line)["topic"] is None
    digest, = lines(capsys, "dump", "--json", "--digest", tmp_path / "odd")
    assert json.loads(digest)["headers"] == [["n\udcff", "80"], ["n", None]]


def test_names_of_files_that_are_no_text(maker: PartitionMaker, capsys: pytest.CaptureFixture[str]) -> None:
    odd = maker.directory.rename(os.fsdecode(os.fsencode(maker.directory.parent) + b"/od\xff"))
    assert lines(capsys, "verify", odd)[-1].startswith(f"{odd.parent}/od\\udcff: 2 segments")
    assert json.loads(lines(capsys, "stat", "--json", odd)[0])["directory"] == str(odd)


@pytest.mark.parametrize("partition", partitions(), ids=str)
def test_batches_are_kafkas(partition, capsys: pytest.CaptureFixture[str]) -> None:
    expected = [
        (name, b["position"], b["size"], b["baseOffset"], b["lastOffset"], b["count"], b["crc"], b["compresscodec"],
         b["producerId"], b["producerEpoch"], b["baseSequence"], b["lastSequence"], b["partitionLeaderEpoch"],
         b["isTransactional"], b["isControl"], b["deleteHorizonMs"])
        for name, facts in sorted(partition.files.items()) if name.endswith(".log") for b in facts["batches"]]
    names = ("file", "position", "size", "base_offset", "last_offset", "count", "crc", "codec", "producer_id",
             "producer_epoch", "base_sequence", "last_sequence", "leader_epoch", "transactional", "control",
             "delete_horizon")
    found = objects(capsys, "--batches", partition.directory)
    assert [tuple(fields[name] for name in names) for fields in found] == expected


@pytest.mark.parametrize("partition", partitions(), ids=str)
def test_index_entries_are_kafkas(partition, capsys: pytest.CaptureFixture[str]) -> None:
    found = objects(capsys, "--index", partition.directory)
    for name, facts in partition.files.items():
        ours = [fields for fields in found if fields["file"] == name]
        if name.endswith(".index"):
            assert [(e["offset"], e["position"]) for e in ours] == [
                (e["offset"], e["position"]) for e in facts["entries"]]
        elif name.endswith(".timeindex"):
            assert [(e["timestamp"], e["offset"]) for e in ours] == [
                (e["timestamp"], e["offset"]) for e in facts["entries"]]
        elif name.endswith(".txnindex"):
            assert [(e["producer_id"], e["first_offset"], e["last_offset"], e["last_stable_offset"]) for e in ours] == [
                (e["producerId"], e["firstOffset"], e["lastOffset"], e["lastStableOffset"]) for e in facts["entries"]]
        elif name.endswith(".snapshot"):
            assert [(e["producer_id"], e["producer_epoch"], e["last_sequence"]) for e in ours] == [
                (e["producerId"], e["producerEpoch"], e.get("lastSequence", -1)) for e in facts["entries"]]
    epochs = [[f["leader_epoch"], f["start_offset"]] for f in found if f["file"] == "leader-epoch-checkpoint"]
    checkpoint = partition.expected["dump"]["leader_epoch_checkpoint"].split("\n")[2:]
    assert epochs == [[int(number) for number in line.split()] for line in checkpoint if line]


def test_control_records(maker: PartitionMaker, capsys: pytest.CaptureFixture[str]) -> None:
    marker, = objects(capsys, "--control", maker.directory)
    assert (marker["offset"], marker["type"], marker["producer_id"], marker["coordinator_epoch"]) == (4, "ABORT", 7, 0)


def test_text(maker: PartitionMaker, capsys: pytest.CaptureFixture[str]) -> None:
    assert lines(capsys, "dump", maker.directory) == [
        '0 1000 "k" "one"', '1 1000 "k" ff00', '2 1000 "k" null', '3 1003 "k" "two"', '5 1005 "k" "three"']
    assert lines(capsys, "dump", "--batches", maker.directory)[0].startswith(
        f"file={maker.path('.log', 0).name} position=0 size=")
    assert "type=ABORT" in lines(capsys, "dump", "--control", maker.directory)[0]
    assert "start_offset=5" in lines(capsys, "dump", "--index", maker.directory)[-1]


def test_from_and_limit(maker: PartitionMaker, capsys: pytest.CaptureFixture[str]) -> None:
    def offsets(*arguments: object) -> list[int]:
        return [record["offset"] for record in objects(capsys, maker.directory, *arguments)]

    assert offsets("--from", 1) == [1, 2, 3, 5]
    assert offsets("--from", 1, "--limit", 2) == [1, 2]
    assert offsets("--from", 4) == [5]
    assert offsets("--from", 9) == []
    assert offsets("--limit", 0) == []
    assert len(objects(capsys, "--batches", "--limit", 2, maker.directory)) == 2
    assert len(objects(capsys, "--index", "--limit", 1, maker.directory)) == 1


def test_progress(maker: PartitionMaker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[int] = []

    @contextmanager
    def progress_bar(_what: str, total_bytes: int) -> Iterator[Callable[[int], None]]:
        yield reported.append
        assert sum(reported) == total_bytes > 0

    monkeypatch.setattr("kraft.cli.log.progress_bar", progress_bar)
    assert len(lines(capsys, "dump", maker.directory)) == 5
    assert all(count >= 0 for count in reported)


def test_the_log_start(maker: PartitionMaker, capsys: pytest.CaptureFixture[str]) -> None:
    (maker.directory.parent / "log-start-offset-checkpoint").write_text("0\n2\nother 3 9\nsome-topic 3 2\n")
    assert [record["offset"] for record in objects(capsys, maker.directory)] == [2, 3, 5]
    assert [record["offset"] for record in objects(capsys, maker.directory, "--from", 0)] == [2, 3, 5]
    assert json.loads(lines(capsys, "stat", "--json", maker.directory)[0])["log_start"] == 2


def test_the_noted_high_watermark(maker: PartitionMaker, capsys: pytest.CaptureFixture[str],
                                  monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower that stopped may have records that no leader kept."""
    checkpoint = maker.directory.parent / "replication-offset-checkpoint"
    checkpoint.write_text("0\n2\nother 3 9\nsome-topic 3 4\n")
    assert [record["offset"] for record in objects(capsys, maker.directory)] == [0, 1, 2, 3]
    assert len(objects(capsys, "--batches", maker.directory)) == 4
    monkeypatch.chdir(maker.directory)
    assert len(lines(capsys, "dump", ".")) == 4
    page = LivePage(maker.directory)
    page.publish(0, 6, 6, 6, maker.base, maker.position)
    assert len(objects(capsys, maker.directory)) == 5
    page.close()
    checkpoint.write_text("0\n1\nother 3 9\n")
    assert objects(capsys, maker.directory) == []
    metadata = maker.directory.rename(maker.directory.parent / "__cluster_metadata-0")
    assert len(objects(capsys, metadata)) == 5


def test_an_owner_decides_what_is_seen(maker: PartitionMaker, capsys: pytest.CaptureFixture[str]) -> None:
    page = LivePage(maker.directory)
    page.publish(1, 4, 3, 6, maker.base, maker.position)
    assert [record["offset"] for record in objects(capsys, maker.directory)] == [1, 2, 3]
    found = json.loads(lines(capsys, "stat", "--json", maker.directory)[0])
    assert (found["owner"], found["high_watermark"], found["last_stable_offset"]) == ("live", 4, 3)
    assert "high watermark 4" in lines(capsys, "stat", maker.directory)[-1]
    maker.append(".log", bytes(100))    # space that the owner reserved in advance
    assert run(["log", "verify", str(maker.directory)]) == 0
    page.close()
    capsys.readouterr()
    assert lines(capsys, "verify", maker.directory)[-1].endswith(", 100 bytes reserved: sound")
    assert "reserved       100 bytes" in "\n".join(lines(capsys, "stat", maker.directory))
    maker.append(".log", b"no batch")
    assert run(["log", "verify", str(maker.directory)]) == 1
    capsys.readouterr()


def test_damage_is_reported_and_not_shown(maker: PartitionMaker, capsys: pytest.CaptureFixture[str]) -> None:
    flip(maker.path(".log", 0), 80)
    assert run(["log", "dump", "--json", str(maker.directory)]) == 1
    shown = capsys.readouterr()
    assert [json.loads(line)["offset"] for line in shown.out.splitlines()] == [3, 5]
    assert f"{maker.path('.log', 0).name} position 0 offset 0: stored crc" in shown.err
    assert "offsets 0 to 2 cannot be read" in shown.err


def test_damaged_indexes_are_reported(maker: PartitionMaker, capsys: pytest.CaptureFixture[str]) -> None:
    maker.path(".timeindex", 0).unlink()
    maker.path(".snapshot").write_bytes(b"no snapshot")
    maker.append(".index", b"odd")
    assert run(["log", "dump", "--index", str(maker.directory)]) == 1
    reported = capsys.readouterr().err
    assert f"{maker.path('.timeindex', 0).name}: missing" in reported
    assert f"{maker.path('.snapshot').name}: " in reported
    assert "not a whole number" in reported


def test_statistics(maker: PartitionMaker, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(lines(capsys, "stat", "--json", maker.directory)[0])
    assert (found["log_start"], found["log_end"], found["records"], found["batches"]) == (0, 6, 6, 4)
    assert (found["control_batches"], found["segments"], found["unreadable_bytes"]) == (1, 2, 0)
    assert found["codecs"] == {"none": 3, "zstd": 1}
    assert found["leader_epochs"] == [[0, 0], [2, 5]]
    assert (found["first_timestamp"], found["last_timestamp"]) == (1_000, 1_005)
    maker.append(".log", b"rest")
    (maker.directory / "leader-epoch-checkpoint").write_text("no number")
    text = "\n".join(lines(capsys, "stat", maker.directory))
    assert "unreadable     4 bytes" in text
    assert "1970-01-01T00:00:01.000+00:00" in text


@pytest.mark.parametrize(("arguments", "text"), [
    (["log", "dump"], "Missing argument"),
    (["log", "dump", "/nowhere/at/all"], "does not exist"),
    (["log", "dump", "--batches", "--index", "{}"], "exclude each other"),
    (["log", "dump", "--digest", "{}"], "--digest is a form of --json"),
    (["log", "verify", "{}/empty"], "not a partition directory"),
    (["log", "explode"], "No such command"),
])
def test_wrong_usage(maker: PartitionMaker, capsys: pytest.CaptureFixture[str], arguments: list[str],
                     text: str) -> None:
    (maker.directory / "empty").mkdir()
    assert run([argument.format(maker.directory) for argument in arguments]) == 2
    assert text in capsys.readouterr().err


@needs_golden
def test_a_copy_without_the_checkpoint_beside_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The log then starts with its first segment."""
    shutil.copytree(golden("log", "data", "delrec-0"), tmp_path / "delrec-0")
    assert objects(capsys, tmp_path / "delrec-0")[0]["offset"] == 102
    assert objects(capsys, golden("log", "data", "delrec-0"))[0]["offset"] == 123
