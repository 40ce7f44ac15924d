"""`kraft log verify`: sound logs pass, every kind of damage is named with its place, nothing is written."""

import json
import os
import random
import struct
from pathlib import Path

import pytest

from kraft.cli.command import run
from kraft.cli.examine import Examination, Finding
from kraft.files.partition_files import PartitionFiles
from kraft_native.facade.log import Log
from tests.cli.partitions import PartitionMaker, flip
from tests.golden import golden, golden_root, needs_golden, partitions
from tests.oracle.batch import assemble
from tests.oracle.legacy import decode, sample

CASES = [(mode, case) for mode in ("killed", "clean") for case in (
    json.loads(golden("unclean", mode, "expected.json").read_text())["cases"] if golden_root() else ())]


def findings(directory: Path) -> list[Finding]:
    return list(Examination(PartitionFiles(directory)).run())


def places(directory: Path) -> list[tuple[str, int, int]]:
    return [(finding.file, finding.position, finding.offset) for finding in findings(directory)]


@pytest.fixture
def maker(tmp_path: Path) -> PartitionMaker:
    """Three segments: plain batches, transactions (one of them aborted), a second epoch."""
    made = PartitionMaker(tmp_path / "topic-0")
    for number in range(5):
        made.records(b"value %d" % number, None, codec="lz4" if number % 2 else "none")
    made.roll()
    made.records(b"a", producer_id=7, transactional=True)
    made.records(b"b", b"c", producer_id=8, transactional=True)
    made.marker(7, commit=False)
    made.aborted(7, 10, 13)
    made.marker(8, commit=True)
    made.roll()
    for _ in range(3):
        made.records(b"late", leader_epoch=3)
    return made


def test_a_sound_partition(maker: PartitionMaker, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in maker.directory.iterdir()}
    assert run(["log", "verify", str(maker.directory)]) == 0
    assert "3 segments, 12 batches, 18 records" in capsys.readouterr().out
    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in maker.directory.iterdir()} == before


@pytest.mark.parametrize("partition", partitions(), ids=str)
def test_logs_of_kafka_are_sound(partition) -> None:
    assert findings(partition.directory) == []


@needs_golden
@pytest.mark.parametrize(("mode", "case"), CASES)
def test_unclean_directories(mode: str, case: str) -> None:
    """The first damage of each log file is exactly where its whole and valid bytes end."""
    expected = json.loads(golden("unclean", mode, "expected.json").read_text())["cases"][case]
    found = findings(golden("unclean", mode, "data", f"{case}-0"))
    for name, facts in expected["log_files"].items():
        first = next(((f.position, f.offset) for f in found if f.file == name), None)
        whole = facts["valid_bytes"] == facts["size"]
        assert first == (None if whole else (facts["valid_bytes"], facts["next_offset"])), name
    damage = expected["damage"]
    touched = [damage["file"]] if "file" in damage else damage.get("removed_files", [])
    # Only the last few snapshots are kept, so a missing one is no defect.
    touched = [name for name in touched if not (name.endswith(".snapshot") and "removed_files" in damage)]
    assert {f.file for f in found} == set(touched)


def test_every_flipped_byte_of_a_batch_is_found(maker: PartitionMaker) -> None:
    log = maker.path(".log", 0)
    size = log.stat().st_size
    for position in range(size):
        # Base offset and leader epoch are outside the checksum, but the order and the epoch checkpoint show it.
        flip(log, position)
        found = findings(maker.directory)
        flip(log, position)
        assert found, position
        assert found[0].file in (log.name, maker.path(".index", 0).name, maker.path(".timeindex", 0).name)


def test_every_length_of_the_last_log_file(maker: PartitionMaker) -> None:
    log = maker.path(".log")
    data = log.read_bytes()
    ends = {0, len(data) // 3, 2 * len(data) // 3, len(data)}
    for size in range(len(data)):
        log.write_bytes(data[:size])
        found = [finding for finding in findings(maker.directory) if finding.file == log.name]
        assert len(found) == (size not in ends)
        if found:
            assert found[0].position == max(end for end in ends if end <= size)


def test_interior_damage_names_what_is_lost(maker: PartitionMaker, capsys: pytest.CaptureFixture[str]) -> None:
    first_bytes = maker.path(".log", 0).stat().st_size
    flip(maker.path(".log", 0), 70)
    flip(maker.path(".log", 0), first_bytes - 1)
    assert run(["log", "verify", str(maker.directory)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"damaged: {maker.path('.log', 0).name} position 0 offset 0: stored crc")
    assert lines[0].endswith("; offsets 0 to 1 cannot be read")
    assert "offsets 8 to the end of the segment cannot be read" in lines[1]
    assert "2 damages, the first at" in lines[-1]


def test_json(maker: PartitionMaker, capsys: pytest.CaptureFixture[str]) -> None:
    flip(maker.path(".log", 0), 70)
    assert run(["log", "verify", "--json", str(maker.directory)]) == 1
    finding, summary = map(json.loads, capsys.readouterr().out.splitlines())
    assert (finding["file"], finding["position"], finding["offset"], finding["next_offset"]) == (
        maker.path(".log", 0).name, 0, 0, 2)
    assert summary["damages"] == 1
    assert summary["first"] == finding


def test_an_index_that_skips_offsets(maker: PartitionMaker) -> None:
    index = maker.path(".index", 0)
    entries = list(struct.iter_unpack(">ii", index.read_bytes()))
    entries[1] = (entries[1][0] - 2, entries[1][1])
    index.write_bytes(b"".join(struct.pack(">ii", *entry) for entry in [entries[1], *entries[2:]]))
    assert places(maker.directory) == [(index.name, -1, entries[1][0])]


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_index_files(maker: PartitionMaker, suffix: str) -> None:
    index = maker.path(suffix, 0)
    data = index.read_bytes()
    size = {".index": 8, ".timeindex": 12}[suffix]
    for broken in (data[:-1], data + data[-size:], data + bytes(size), data[size:] + data[:size],
                   data + struct.pack(">ii" if size == 8 else ">qi", 1 << 20, 1 << 20)):
        index.write_bytes(broken)
        assert [finding.file for finding in findings(maker.directory)] == [index.name]
    index.unlink()
    assert findings(maker.directory) == [Finding(index.name, -1, -1, "missing")]


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_room_at_the_end_of_an_active_index(maker: PartitionMaker, suffix: str) -> None:
    maker.append(suffix, bytes(1200))
    assert findings(maker.directory) == []


def test_the_transaction_index(maker: PartitionMaker) -> None:
    index = maker.path(".txnindex", 10)
    entry = struct.Struct(">hqqqq")
    for entries, offset in (([], 13), ([(0, 7, 11, 13, 14)], 13), ([(0, 7, 10, 13, 14), (0, 8, 11, 14, 15)], 14),
                            ([(0, 9, 10, 12, 13), (0, 7, 10, 13, 14)], 12)):
        index.write_bytes(b"".join(entry.pack(*fields) for fields in entries))
        assert places(maker.directory) == [(index.name, -1, offset)]
    index.write_bytes(entry.pack(9, 7, 10, 13, 14))
    assert places(maker.directory) == [(index.name, -1, -1)]


def test_the_epoch_checkpoint(maker: PartitionMaker) -> None:
    checkpoint = maker.directory / "leader-epoch-checkpoint"
    checkpoint.write_text("0\n2\n0 0\n3 16\n")
    assert places(maker.directory) == [(maker.path(".log").name, 0, 15)]
    checkpoint.write_text("0\n1\n0 zero\n")
    assert places(maker.directory) == [(checkpoint.name, -1, -1)]
    checkpoint.unlink()
    assert places(maker.directory) == [(checkpoint.name, -1, -1)]


def test_a_broken_snapshot(maker: PartitionMaker) -> None:
    snapshot = maker.path(".snapshot")
    snapshot.write_bytes(os.urandom(0) + bytes(10))
    assert places(maker.directory) == [(snapshot.name, -1, -1)]


def test_a_batch_at_a_wrong_place(maker: PartitionMaker) -> None:
    """The disk wrote a sound batch to a place where it does not belong."""
    log = maker.path(".log", 0)
    first = log.read_bytes()[:maker.path(".log", 0).stat().st_size]
    log.write_bytes(first + first[:100])
    assert places(maker.directory) == [(log.name, len(first), 10)]


def test_a_segment_that_is_deleted(maker: PartitionMaker) -> None:
    partition = PartitionFiles(maker.directory)
    for path in maker.directory.glob(f"{0:020d}.*"):
        path.unlink()
    examination = Examination(partition)
    assert list(examination.run()) == []
    assert (examination.figures.segments, examination.figures.removed_segments) == (2, 1)


def test_a_write_in_progress_is_read_again(maker: PartitionMaker) -> None:
    log = maker.path(".log")
    data = log.read_bytes()
    log.write_bytes(data[:-30])
    examination = Examination(PartitionFiles(maker.directory))
    whole = iter([data])
    examination.progress = lambda _: [log.write_bytes(rest) for rest in whole]
    assert list(examination.run()) == []
    assert examination.figures.records == 18


def test_a_whole_data_directory(maker: PartitionMaker, capsys: pytest.CaptureFixture[str]) -> None:
    """Verify checks each partition, and the files beside them; damage of the small files counts, too."""
    data = maker.directory.parent
    PartitionMaker(data / "other-1").records(b"x")
    (data / "plain").mkdir()
    assert run(["log", "verify", str(data)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0].rpartition("/")[2] for line in out[:2]] == ["other-1", "topic-0"]
    assert out[2] == f"{data}: 2 partitions: all sound"
    assert run(["log", "stat", "--json", str(data)]) == 0
    assert [json.loads(line)["records"] for line in capsys.readouterr().out.splitlines()] == [1, 18]
    flip(data / "other-1" / f"{0:020d}.log", 65)
    (data / "replication-offset-checkpoint").write_text("no number")
    (data / "empty-0").mkdir()
    assert run(["log", "verify", "--json", str(data)]) == 1
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows[-1] == {"directory": str(data), "partitions": 2, "damaged": ["other-1"], "damages_beside": 2}
    assert [row["file"] for row in rows if "file" in row] == ["replication-offset-checkpoint", "empty-0",
                                                              f"{0:020d}.log"]
    assert run(["log", "verify", str(data / "plain")]) == 2


def test_messages_of_formats_v0_and_v1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kafka before 0.10 wrote no time index: for a segment without times none is missing."""
    for magic in (0, 1):
        directory = tmp_path / f"old-{magic}"
        directory.mkdir()
        data = sample(random.Random(magic), 0, 30, (magic,))
        (directory / f"{0:020}.log").write_bytes(data)
        (directory / f"{0:020}.index").write_bytes(b"")
        missing = [(f"{0:020}.timeindex", -1, -1)] if magic == 1 else []
        assert places(directory) == missing
        if magic == 1:
            with Log(directory):
                pass                   # creates the indexes
            assert places(directory) == []
        assert run(["log", "dump", "--json", str(directory)]) == 0
        dumped = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        messages = [message for outer in decode(data) for message in outer.messages]
        assert [(each["offset"], each["timestamp"]) for each in dumped] == [
            (each.offset, each.timestamp_ms) for each in messages]
        assert run(["log", "stat", str(directory)]) == 0
        assert f"{len(messages)} in {len(decode(data))} batches" in capsys.readouterr().out
        damaged = bytearray(data)
        bad = decode(data)[10]
        damaged[bad.position + bad.size - 1] ^= 1
        (directory / f"{0:020}.log").write_bytes(damaged)
        finding = next(each for each in findings(directory) if each.unreadable)
        assert (finding.position, finding.offset, finding.next_offset) == (
            bad.position, bad.messages[0].offset, bad.messages[-1].offset + 1)


def test_a_format_that_is_not_known(tmp_path: Path) -> None:
    directory = tmp_path / "young-0"
    directory.mkdir()
    (directory / f"{0:020}.log").write_bytes(assemble(b"x" * 9, 0, 0, 1, 1, 1, magic=3))
    assert "magic 3" in next(each.what for each in findings(directory) if each.unreadable)
