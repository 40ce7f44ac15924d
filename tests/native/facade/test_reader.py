"""Reader of other processes' logs: golden directories, an owner that does everything, waiting, damage, limits."""

import asyncio
import contextlib
import errno
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kraft_native.base import errors
from kraft_native.batch.batch import Batch, walk
from kraft_native.batch.records import BatchBuilder, records
from kraft_native.facade.log import Log
from kraft_native.facade.reader import LogReader
from kraft_native.file import faults
from kraft_native.log import live
from kraft_native.log.live import LivePage
from tests.golden import GoldenPartition, needs_golden, partitions
from tests.native.gate import READ, Gate
from tests.native.live_owner import Owner, check_slice, content
from tools.tree import ROOT

SOON = 20.0


@pytest.fixture(autouse=True)
def no_views_left():
    before = live.counters()
    yield
    assert live.counters() == before


@pytest.fixture
def owner(tmp_path):
    made = Owner(tmp_path, 1)
    yield made
    made.close()


def batch(first: int, count: int = 1, codec: str = "none", **options: object) -> bytes:
    builder = BatchBuilder(codec)
    for offset in range(first, first + count):
        builder.append(content(offset, 1), timestamp_ms=1000 + offset)
    return builder.build(first, **options)


def batches(reader: LogReader, offset: int | None = None) -> Iterator[Batch]:
    """Yield batches from the one that holds `offset` (the log start) to the last one visible when the iteration
    reaches it."""
    offset = reader.log_start_offset if offset is None else offset
    while True:
        piece = reader.read(offset)
        if not len(piece) and piece.next_offset == offset:
            return
        yield from walk(piece, check_crc=False)
        offset = piece.next_offset


def offsets(pieces: Iterable[Any]) -> list[int]:
    return [record.offset for each in pieces for record in records(each)]


def snapshot_of(directory: Path) -> dict[str, tuple[int, int, bytes]]:
    return {path.name: (path.stat().st_mtime_ns, path.stat().st_size, path.read_bytes())
            for path in directory.iterdir()}


# --- logs that Kafka wrote --------------------------------------------------------------------------------------------


@needs_golden
@pytest.mark.parametrize("partition", partitions(), ids=str)
def test_kafka_s_directories_are_read_as_kafka_reads_them(partition: GoldenPartition):
    expected = partition.expected
    before = {path.name: path.stat().st_mtime_ns for path in partition.directory.iterdir()}
    with LogReader(partition.directory) as reader:
        assert not reader.owner_alive
        assert reader.log_start_offset == expected["earliest"]
        assert reader.log_end_offset == reader.high_watermark == expected["latest"]
        assert reader.last_stable_offset == expected["last_stable_offset"]
        found = [record for each in batches(reader) if not each.is_control for record in records(each)
                 if record.offset >= reader.log_start_offset]
        assert [(record.offset, record.timestamp_ms) for record in found] == [
            (record["offset"], record["timestamp"]) for record in partition.records()]
        for answer in expected["list_offsets"]:
            if answer["query"] < 0 or answer["error"]:
                continue
            isolation = answer["isolation"]
            answered = reader.offset_for_time(answer["query"], isolation)
            if answer["offset"] >= 0:
                assert answered == (answer["offset"], answer["timestamp"], answer["leader_epoch"])
            else:
                assert answered is None
        aborted = {(producer, first) for trace in expected["fetch_trace_read_committed"]
                   for producer, first in map(tuple_of, trace["aborted"] or ())}
        assert {entry[:2] for entry in reader.aborted_transactions(0, expected["latest"])} >= aborted
    assert {path.name: path.stat().st_mtime_ns for path in partition.directory.iterdir()} == before


def tuple_of(aborted: dict[str, int]) -> tuple[int, int]:
    return aborted["producerId"], aborted["firstOffset"]


# --- an owner that does everything ------------------------------------------------------------------------------------


def start(module: str, *arguments: object) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-m", module, *map(str, arguments)], cwd=ROOT, text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", ["files", "log"])
def test_readers_of_a_busy_owner_never_see_anything_wrong(tmp_path, kind, seed):
    owner = start("tests.native.live_owner", kind, tmp_path, seed, {"files": 1000, "log": 400}[kind])
    followers = [start("tests.native.live_follower", tmp_path, number) for number in range(2)]
    closing = owner.communicate("\n" * 20, timeout=60)[0].splitlines()[-1]
    word, _, log_end = closing.split()
    assert word == "closed"
    for follower in followers:
        report = dict(pair.split("=") for pair in follower.communicate(timeout=SOON)[0].split())
        assert follower.returncode == 0
        assert report["end"] == log_end
        assert int(report["records"]) > 0
    # The rest is read the same without the owner, from the files alone.
    with LogReader(tmp_path) as reader:
        assert str(reader.log_end_offset) == log_end
        assert check_slice(reader.read(reader.log_start_offset), 0)


def test_every_state_of_a_log_is_read_right_step_by_step(tmp_path):
    """Owner and reader share one process, so that the exact answer is known after each step."""
    owner = Owner(tmp_path, 7)
    with LogReader(tmp_path) as reader:
        for _ in range(400):
            owner.step()
            assert (reader.log_start_offset, reader.high_watermark, reader.log_end_offset) == (
                owner.log_start, owner.high_watermark, owner.log_end)
            assert offsets(batches(reader)) == [offset for _, _, first, end in owner.batches if end > owner.log_start
                                                 for offset in range(first, end) if end <= owner.high_watermark]
    owner.close()


# --- limits -----------------------------------------------------------------------------------------------------------


def test_reads_end_at_the_limits(tmp_path):
    page = LivePage(tmp_path)
    data = b"".join(batch(first, 5) for first in range(0, 50, 5))
    (tmp_path / f"{0:020d}.log").write_bytes(data + b"\0" * 1000)
    page.publish(10, 30, 20, 50, 0, len(data))
    page.end_truncation()
    with LogReader(tmp_path) as reader:
        assert reader.owner_alive
        limits = (reader.log_start_offset, reader.last_stable_offset, reader.high_watermark, reader.log_end_offset)
        assert limits == (10, 20, 30, 50)
        assert offsets([reader.read(10)]) == list(range(10, 30))
        assert offsets([reader.read(12, isolation="read_uncommitted")]) == list(range(10, 30))
        assert offsets([reader.read(10, isolation="read_committed")]) == list(range(10, 20))
        for offset, isolation in ((20, "read_committed"), (30, "high_watermark"), (50, "high_watermark")):
            piece = reader.read(offset, isolation=isolation)
            assert (len(piece), piece.first_offset, piece.next_offset) == (0, -1, offset)
        for offset in (-1, 9, 51):
            with pytest.raises(errors.OffsetOutOfRangeError):
                reader.read(offset)
        # A limit inside a batch, which no owner publishes, hides the whole batch.
        page.publish(10, 29, 20, 50, 0, len(data))
        assert offsets([reader.read(10)]) == list(range(10, 25))
        page.publish(10, 50, 50, 50, 0, len(data))
        assert offsets(batches(reader, 10)) == list(range(10, 50))
    page.close()


def test_max_bytes_is_kept_but_for_the_first_batch(owner, tmp_path):
    for _ in range(30):
        owner.append()
    with LogReader(tmp_path) as reader:
        for max_bytes in (0, 1, 60, 61, 700, 5000, 1 << 20):
            offset = 0
            while offset < owner.log_end:
                piece = reader.read(offset, max_bytes)
                sizes = [each.size_in_bytes for each in walk(piece)]
                assert sum(sizes) == len(piece)
                assert len(sizes) == 1 or len(piece) <= max_bytes
                assert piece.first_offset == offset
                offset = piece.next_offset
        for bad in (-1, 1 << 31):
            with pytest.raises(errors.InvalidArgumentError, match="max_bytes"):
                reader.read(0, bad)
        with pytest.raises(errors.InvalidArgumentError, match="isolation: 'other'"):
            reader.read(0, isolation="other")


def test_a_batch_larger_than_every_buffer(tmp_path):
    page = LivePage(tmp_path)
    builder = BatchBuilder()
    builder.append(bytes(3 << 20))
    data = batch(0) + builder.build(1) + batch(2)
    (tmp_path / f"{0:020d}.log").write_bytes(data)
    page.publish(0, 3, 3, 3, 0, len(data))
    page.end_truncation()
    with LogReader(tmp_path) as reader:
        assert len(reader.read(1, 10)) > 3 << 20
        assert offsets([reader.read(2, 10)]) == [2]
        assert len(reader.read(0)) == len(batch(0))  # whatever else fits in max_bytes, and no part of a batch
    page.close()


def test_slices_outlive_what_was_read(tmp_path, owner):
    owner.append()
    reader = LogReader(tmp_path)
    piece = reader.read(0)
    copy = bytes(piece)
    owner.cut(1)
    reader.close()
    assert bytes(piece) == copy
    for call in (lambda: reader.read(0), lambda: reader.high_watermark, lambda: reader.wait(0)):
        with pytest.raises(errors.LogClosedError):
            call()
    reader.close()


# --- with and without an owner ----------------------------------------------------------------------------------------


def test_nothing_in_the_directory_changes(tmp_path):
    owner = Owner(tmp_path, 3)
    for _ in range(200):
        owner.step()
    owner.close()
    (tmp_path / live.FILE_NAME).unlink()
    before = snapshot_of(tmp_path)
    with LogReader(tmp_path) as reader:
        assert list(batches(reader))
        assert reader.last_stable_offset == reader.log_end_offset
        reader.offset_for_time(1000)
        reader.aborted_transactions(0, 100)
    assert snapshot_of(tmp_path) == before


@pytest.mark.parametrize("tail", [b"\0" * 500, b"\xff" * 500, batch(40)[:-1], batch(40)[:20], batch(3)])
def test_without_an_owner_a_torn_tail_is_invisible(tmp_path, tail):
    (tmp_path / f"{0:020d}.log").write_bytes(batch(0, 20))
    (tmp_path / f"{20:020d}.log").write_bytes(batch(20, 10) + batch(30, 10) + tail)
    with LogReader(tmp_path) as reader:
        assert (reader.log_start_offset, reader.log_end_offset, reader.high_watermark) == (0, 40, 40)
        assert offsets(batches(reader)) == list(range(40))
        assert offsets([reader.read(35)]) == list(range(30, 40))
        assert not reader.owner_alive
        assert reader.wait(39)
        with pytest.raises(errors.LogClosedError, match="has no owner"):
            reader.wait(40)


def test_an_empty_directory_is_an_empty_log(tmp_path):
    with LogReader(tmp_path) as reader:
        assert (reader.log_start_offset, reader.log_end_offset, reader.last_stable_offset) == (0, 0, 0)
        assert list(batches(reader)) == []
        assert reader.offset_for_time(0) is None
        assert reader.aborted_transactions(0, 10) == []
    with pytest.raises(FileNotFoundError):
        LogReader(tmp_path / "absent")


def test_a_reader_follows_an_owner_that_comes_later_and_the_next_one(tmp_path):
    (tmp_path / f"{0:020d}.log").write_bytes(batch(0, 5) + batch(5, 5)[:-1])
    with LogReader(tmp_path) as reader:
        assert reader.log_end_offset == 5
        for end in (3, 4):
            page = LivePage(tmp_path)
            data = b"".join(batch(offset) for offset in range(end))
            (tmp_path / f"{0:020d}.log").write_bytes(data)
            page.publish(0, end, end, end, 0, len(data))
            page.end_truncation()
            assert reader.high_watermark == end
            assert offsets(batches(reader)) == list(range(end))
            assert reader.owner_alive
            page.close()
            assert offsets(batches(reader)) == list(range(end))
            assert not reader.owner_alive


def test_a_reader_of_a_dead_owner_waits_until_the_next_one_has_repaired_the_log(tmp_path):
    owner = start("tests.native.live_owner", "log", tmp_path, 5, 200)
    with LogReader(tmp_path) as reader:
        offset = reader.log_start_offset
        while not reader.high_watermark > 20:
            assert reader.wait(reader.high_watermark, SOON)
        owner.kill()
        owner.communicate()
        assert not reader.owner_alive
        before = offsets(batches(reader, offset))
        newest = max(tmp_path.glob("*.log"))
        with newest.open("ab") as file:
            file.write(batch(10**6)[:-1])  # as an interrupted write might leave
        with Log(tmp_path) as log:
            assert reader.owner_alive
            assert reader.log_end_offset == log.log_end_offset
            after = offsets(batches(reader, offset))
            assert after[:len(before)] == before
            log.append_record(b"next")
            assert reader.log_end_offset == log.log_end_offset


def test_reads_wait_while_the_owner_truncates(tmp_path, owner):
    owner.append()
    owner.page.begin_truncation()
    results: list[object] = []

    def read() -> None:
        with LogReader(tmp_path) as opened:  # this already waits
            results.append(offsets([opened.read(0)]))

    waiting = threading.Thread(target=read)
    waiting.start()
    waiting.join(0.1)
    assert waiting.is_alive()
    owner.page.end_truncation()
    waiting.join(SOON)
    assert results == [list(range(owner.log_end))]


def test_an_owner_that_dies_while_it_truncates(tmp_path):
    owner = Owner(tmp_path, 1)
    owner.append()
    with LogReader(tmp_path) as reader:
        assert reader.high_watermark == owner.log_end
        owner.page.begin_truncation()
        owner.close()  # releases the lock, as a death would
        assert offsets([reader.read(0)]) == list(range(owner.log_end))  # as far as the files on disk show


def test_open_transactions_bound_what_is_committed_on_disk(tmp_path):
    def transactional(first: int, producer_id: int) -> bytes:
        builder = BatchBuilder(transactional=True)
        builder.append(b"v")
        return builder.build(first, producer_id=producer_id, producer_epoch=0, base_sequence=0)

    (tmp_path / f"{0:020d}.log").write_bytes(batch(0) + transactional(1, 7))
    (tmp_path / f"{2:020d}.log").write_bytes(batch(2) + batch(3))
    with LogReader(tmp_path) as reader:
        assert (reader.last_stable_offset, reader.high_watermark) == (1, 4)
        assert offsets([reader.read(0, isolation="read_committed")]) == [0]
        assert reader.wait(0, isolation="read_committed")
        with pytest.raises(errors.LogClosedError):
            reader.wait(1, isolation="read_committed")


# --- damage -----------------------------------------------------------------------------------------------------------


def test_damage_is_reported_and_never_returned(tmp_path):
    pieces = [batch(offset, 3) for offset in range(0, 30, 3)]
    sizes = [len(piece) for piece in pieces]
    (tmp_path / f"{30:020d}.log").write_bytes(batch(30))
    for position in range(0, sum(sizes), 11):
        data = bytearray(b"".join(pieces))
        data[position] ^= 0x40
        (tmp_path / f"{0:020d}.log").write_bytes(data)
        hit = next(n for n in range(10) if position < sum(sizes[: n + 1]))
        in_epoch = 12 <= position - sum(sizes[:hit]) < 16  # the leader epoch is outside of the CRC
        with LogReader(tmp_path) as reader:
            read = []
            with contextlib.nullcontext() if in_epoch else pytest.raises(errors.CorruptLogError) as caught:
                for each in batches(reader):
                    read.extend(offsets([each]))
            if caught is None:
                assert read == list(range(31))
                continue
            assert read == list(range(hit * 3))
            assert caught.value.position == sum(sizes[:hit])
            assert (caught.value.offset, caught.value.next_offset) == (hit * 3, hit * 3 + 3)
            assert offsets([reader.read(30)]) == [30]


@pytest.mark.parametrize("damage", ["zeros", "rubbish", "shifted", "ahead", "missing", "odd size"])
def test_the_offset_index_is_only_a_hint(tmp_path, damage):
    positions, data = [], b""
    for first in range(0, 300, 3):
        positions.append(len(data))
        data += batch(first, 3)
    entries = [(first + 2, position) for first, position in zip(range(0, 300, 3), positions, strict=True)][5::5]
    if damage == "shifted":
        entries = [(offset, position + 1) for offset, position in entries]
    if damage == "ahead":
        entries = [(offset - 30, position) for offset, position in entries[8:]]
    index = b"".join(offset.to_bytes(4, "big") + position.to_bytes(4, "big") for offset, position in entries)
    index = {"zeros": index[:40] + b"\0" * 400, "rubbish": os.urandom(80), "odd size": index[:-3]}.get(damage, index)
    (tmp_path / f"{0:020d}.log").write_bytes(data)
    if damage != "missing":
        (tmp_path / f"{0:020d}.index").write_bytes(index)
    for offset in range(300):
        with LogReader(tmp_path) as reader:
            assert offsets([reader.read(offset, 1)]) == list(range(offset // 3 * 3, offset // 3 * 3 + 3))


def test_time_indexes_skip_segments_and_wrong_ones_do_not_matter(tmp_path):
    for base in (0, 100, 200):
        (tmp_path / f"{base:020d}.log").write_bytes(b"".join(batch(base + n, 10, "zstd") for n in range(0, 100, 10)))

    def write_index(base: int, entries: list[tuple[int, int]], tail: bytes = b"") -> None:
        (tmp_path / f"{base:020d}.timeindex").write_bytes(
            b"".join(time.to_bytes(8, "big") + relative.to_bytes(4, "big") for time, relative in entries) + tail)

    def answers() -> list[int | None]:
        with LogReader(tmp_path) as reader:
            found = [reader.offset_for_time(time) for time in (0, 1000, 1055, 1100, 1199, 1255, 1299, 1300)]
            return [each and each[0] for each in found]

    right = [0, 0, 55, 100, 199, 255, 299, None]
    assert answers() == right
    for base in (0, 100, 200):
        write_index(base, [(1000 + base + 49, 49), (1000 + base + 99, 99)])
    assert answers() == right
    # The index of a sealed segment is trusted when it is sound: so the first segment is not even opened.
    with faults.Trace(tmp_path) as trace, LogReader(tmp_path) as reader:
        assert reader.offset_for_time(1255)[0] == 255
    reads = [event.path for event in trace.events() if event.kind == "read"]
    assert not [path for path in reads if path.endswith(f"{100:020d}.log")]
    for tail in (b"\0" * 24, b"\0" * 5):
        write_index(0, [(1049, 49)], tail)
        write_index(100, [(1149, 49), (1140, 60)])
        assert answers() == right


def test_failures_of_the_system_are_reported(tmp_path):
    (tmp_path / f"{0:020d}.log").write_bytes(batch(0, 20))
    def attach_and_read() -> list[int]:
        with LogReader(tmp_path) as reader:
            return offsets([reader.read(0)])

    with faults.count_operations(kinds=["open", "read"]) as plan:
        attach_and_read()
    for k in range(1, plan.seen + 1):
        with (faults.fail_at(k, error=errno.EMFILE, kinds=["open", "read"]),
              pytest.raises(errors.StorageError, match=f"errno {errno.EMFILE}")):
            attach_and_read()
    shutil.rmtree(tmp_path)
    with pytest.raises(FileNotFoundError):
        LogReader(tmp_path)


# --- waiting ----------------------------------------------------------------------------------------------------------


def test_coroutines_wait_for_what_comes(tmp_path, owner):
    async def follow() -> list[int]:
        seen = []
        with LogReader(tmp_path) as reader:
            for _ in range(20):
                waiting = asyncio.create_task(asyncio.to_thread(reader.wait, reader.high_watermark))
                await asyncio.sleep(0)
                owner.append()
                await asyncio.wait_for(waiting, SOON)
                seen.append(reader.high_watermark)
        return seen

    assert asyncio.run(follow())[-1] == owner.log_end


def test_two_threads_do_not_share_a_reader_at_once(tmp_path, owner):
    owner.append()
    with LogReader(tmp_path) as reader, Gate(READ) as gate:
        reading = threading.Thread(target=reader.read, args=(0,))
        reading.start()
        gate.arrived()
        for call in (lambda: reader.read(0), lambda: reader.high_watermark, lambda: reader.wait(0), reader.close):
            with pytest.raises(errors.WrongThreadError):
                call()
        for _ in range(10):
            gate.let_go()
        reading.join(SOON)
    reader.close()


@pytest.mark.parametrize("change", ["truncation", "segments"])
def test_a_read_during_a_change_is_repeated(tmp_path, owner, change):
    """The owner rewrites the file between the reader's check of the page and its read of the file, and after it."""
    for _ in range(3):
        owner.append()
    owner.roll()
    owner.append()
    results: list[list[tuple[int, int]]] = []
    with LogReader(tmp_path) as reader, Gate(READ) as gate:
        reading = threading.Thread(target=lambda: results.append(check_slice(reader.read(0), 0)))
        reading.start()
        gate.arrived()
        if change == "truncation":
            owner.cut(4)
            owner.append()
        else:
            owner.compact()
        for _ in range(10):
            gate.let_go()
        reading.join(SOON)
    if change == "truncation":
        assert results == [[(offset, 2) for offset in range(owner.log_end)]]
    else:
        assert results[0][0] == (owner.batches[0][2], 1)  # the first batch is compacted away
