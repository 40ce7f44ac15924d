"""The component's own log: opening, appending in every form, following, figures."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from kraft import CorruptLogError, Log, LogConfig, LogReader, errors
from kraft_native.batch.batch import Batch
from kraft_native.batch.records import BatchBuilder
from kraft_native.file import faults
from tests.native.logs import START_MS, batch
from tools.tree import ROOT

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SOON = 20.0


def values(log: Log | LogReader) -> list[bytes | None]:
    return [record.value for record in log.records()]


# --- opening ----------------------------------------------------------------------------------------------------------


def test_open_creates_and_opens_again(tmp_path: Path) -> None:
    with Log.open(tmp_path / "log", segment_bytes=4096) as log:
        assert log.config.segment_bytes == 4096 and log.append_record(b"a") == 0
    with Log.open(tmp_path / "log", create=False) as log:
        assert values(log) == [b"a"] and log.log_end_offset == 1


def test_open_without_create_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such log"):
        Log.open(tmp_path / "log", create=False)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("settings", "text"), [
    ({"segment_bites": 1}, "segment_bites"),
    ({"segment_bytes": 1}, "segment_bytes: 1 bytes is outside 14"),
    ({"segment_bytes": "big"}, "segment_bytes: 'big' is not a number of bytes"),
    ({"durability": "hope"}, "durability: 'hope' is not one of page-cache"),
])
def test_wrong_settings_are_named_and_create_nothing(tmp_path: Path, settings: dict[str, object], text: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=text):
        Log.open(tmp_path / "log", **settings)
    assert not list(tmp_path.iterdir())


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    with Log(tmp_path / "log") as log:
        with pytest.raises(errors.LogLockedError):
            Log(log.directory)
        assert log.append_record(b"still mine") == 0


def test_the_end_of_the_with_block_closes_also_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), Log(tmp_path) as log:
        log.append_record(b"a")
        raise ZeroDivisionError
    assert log.closed
    log.close()
    for call in (lambda: log.append_record(b"b"), lambda: log.read(0), log.stats):
        with pytest.raises(errors.LogClosedError):
            call()


def test_another_thread_is_refused(tmp_path: Path) -> None:
    with Log(tmp_path / "log") as log:
        log.append_record(b"a")
        refused: list[type[BaseException]] = []

        def use() -> None:
            calls: list[Callable[[], object]] = [
                lambda: log.append_record(b"b"), lambda: log.append_records([(b"b", None, None, ())]),
                lambda: log.append_columns(pa.array([b"b"])), lambda: list(log.records()),
                log.stats, log.compact, log.close, lambda: log.apply_retention(0),
            ]
            for call in calls:
                try:
                    call()
                except errors.WrongThreadError as error:
                    refused.append(type(error))

        thread = threading.Thread(target=use)
        thread.start()
        thread.join(SOON)
        assert len(refused) == 8 and log.log_end_offset == 1


# --- appending --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
def test_records_are_cut_into_batches_that_the_log_takes(tmp_path: Path, codec: str) -> None:
    """Values that no codec compresses, in all sizes around the limit."""
    noise = np.random.default_rng(1).bytes(1 << 16)
    rows = [(noise[i:i + i * 37 % 9000], b"%d" % i, START_MS + i, [("header", noise[i:i + i % 50])])
            for i in range(300)]
    with Log.open(tmp_path, max_message_bytes=10_000) as log:
        infos = log.append_records(iter(rows), codec=codec)
        assert [info.first_offset for info in infos[1:]] == [info.last_offset + 1 for info in infos[:-1]]
        assert len(infos) > 50 and infos[-1].last_offset == 299
        batches = list(log.batches())
        assert all(each.size_in_bytes <= 10_000 for each in batches)
        assert [(each.value, each.key, each.timestamp_ms, list(each.headers)) for each in log.records()] == rows


def test_a_batch_has_a_largest_number_of_records(tmp_path: Path) -> None:
    with Log(tmp_path / "log") as log:
        infos = log.append_records((b"", None, START_MS, ()) for _ in range(25_000))
        assert [info.last_offset for info in infos] == [9_999, 19_999, 24_999]
        assert log.append_records([]) == []


def test_a_record_that_never_fits_ends_it_and_what_was_full_stays(tmp_path: Path) -> None:
    with Log.open(tmp_path, max_message_bytes=2000) as log:
        with pytest.raises(errors.MessageTooLargeError):
            log.append_records([(b"x" * 900, None, START_MS, ()), (b"y" * 3000, None, START_MS, ())])
        assert values(log) == [b"x" * 900]


def test_missing_parts_differ_from_empty_ones(tmp_path: Path) -> None:
    with Log(tmp_path / "log") as log:
        log.append_records([(None, b"k", 1, ()), (b"", None, 2, [("h", None)]), (b"v", b"", 3, [("", b"")])])
        assert [(each.value, each.key, each.timestamp_ms, each.headers) for each in log.records()] == [
            (None, b"k", 1, ()), (b"", None, 2, (("h", None),)), (b"v", b"", 3, (("", b""),)),
        ]


@pytest.mark.parametrize("codec", CODECS)
def test_arrow_columns_come_back_as_they_went(tmp_path: Path, codec: str) -> None:
    count = 5000
    table = {
        "value": pa.array([b"value %d" % i if i % 7 else None for i in range(count)], pa.binary()),
        "key": pa.array([b"%d" % (i % 10) for i in range(count)], pa.binary()),
        "timestamp": pa.array([START_MS + i for i in range(count)], pa.int64()),
    }
    with Log(tmp_path) as log:
        infos = log.append_columns(table["value"], keys=table["key"], timestamps=table["timestamp"], codec=codec,
                                   batch_bytes=20_000)
        assert len(infos) == 5 and infos[-1].last_offset == count - 1
        found = pa.Table.from_batches(log.arrow(read_bytes=30_000))
        assert found["value"].to_pylist() == table["value"].to_pylist()
        assert found["key"].to_pylist() == table["key"].to_pylist()
        assert found["timestamp"].cast(pa.int64()).to_pylist() == table["timestamp"].to_pylist()


def test_numpy_columns_and_headers(tmp_path: Path) -> None:
    with Log(tmp_path / "log") as log:
        log.append_columns(np.array([b"a", b"bb", b"ccc"]), timestamps=np.array([1, 2, 3], dtype=np.int64))
        headers = pa.array([[("h", b"1")], [], [("h", b"2"), ("i", None)]],
                           pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))
        log.append_columns(pa.array([b"d", b"e", b"f"]), headers=headers)
        assert values(log) == [b"a", b"bb", b"ccc", b"d", b"e", b"f"]
        assert [each.headers for each in log.records(3)] == [(("h", b"1"),), (), (("h", b"2"), ("i", None))]


def test_columns_of_unequal_length_change_nothing(tmp_path: Path) -> None:
    with Log(tmp_path / "log") as log:
        with pytest.raises(errors.InvalidArgumentError):
            log.append_columns(pa.array([b"a", b"b"]), keys=pa.array([b"k"]))
        assert log.log_end_offset == 0


def test_a_damaged_batch_is_refused_and_the_log_continues(tmp_path: Path) -> None:
    with Log(tmp_path / "log") as log:
        made = bytearray(batch(3))
        made[-1] ^= 1
        with pytest.raises(errors.CorruptRecordError):
            log.append(made)
        assert log.append(batch(3)).last_offset == 2


# --- following --------------------------------------------------------------------------------------------------------


async def collect(log: Log, start: int, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    async for each in log.follow(start):
        found += [record.value for record in log.records(each.base_offset, each.next_offset)]
        if len(found) >= count:
            break
    return found


@pytest.mark.parametrize("durability", ["page-cache", "group-commit", "per-append"])
def test_followers_wake_for_each_append(tmp_path: Path, durability: str) -> None:
    """This holds also when the flusher makes an append visible later, and nothing is appended afterwards."""
    async def main() -> list[list[bytes | None]]:
        with Log.open(tmp_path, durability=durability) as log:
            for number in range(5):
                log.append_record(b"%d" % number)
            followers = [asyncio.create_task(collect(log, start, 20 - start)) for start in (0, 0, 5)]
            for number in range(5, 20):
                await asyncio.sleep(0)
                log.append_record(b"%d" % number)
            return await asyncio.wait_for(asyncio.gather(*followers), SOON)

    everything = [b"%d" % number for number in range(20)]
    assert asyncio.run(main()) == [everything, everything, everything[5:]]


def test_an_idle_follower_does_not_run(tmp_path: Path) -> None:
    async def main() -> int:
        reads = 0

        class Counted(Log):
            def read(self, *arguments, **named):
                nonlocal reads
                reads += 1
                return super().read(*arguments, **named)

        with Counted(tmp_path) as log:
            follower = asyncio.create_task(collect(log, 0, 1))
            for _ in range(100):
                await asyncio.sleep(0)
            log.append_record(b"a")
            await asyncio.wait_for(follower, SOON)
        return reads

    assert asyncio.run(main()) <= 4


def test_close_ends_followers(tmp_path: Path) -> None:
    async def main() -> list[list[bytes | None]]:
        log = Log(tmp_path)
        followers = [asyncio.create_task(collect(log, 0, 10)) for _ in range(3)]
        log.append_record(b"a")
        for _ in range(10):
            await asyncio.sleep(0)
        log.close()
        return await asyncio.wait_for(asyncio.gather(*followers), SOON)

    assert asyncio.run(main()) == [[b"a"]] * 3


def test_a_reader_overtaken_by_retention_gets_an_error(tmp_path: Path) -> None:
    async def main() -> None:
        with Log(tmp_path) as log:
            for _ in range(10):
                log.append_record(b"a")
            log.delete_records(5)
            with pytest.raises(errors.OffsetOutOfRangeError):
                await collect(log, 2, 1)

    asyncio.run(main())


def raised_by(batches: Iterator[Batch]) -> BaseException | None:
    try:
        next(batches)
    except errors.KraftError as error:
        return error
    return None


def regrow(log: Log, offset: int, count: int) -> None:
    """Replace the records from `offset` on by other ones."""
    log.truncate_to(offset)
    for number in range(count):
        log.append_record(b"other %d" % number)


@pytest.mark.parametrize(("cut", "noticed"), [(0, True), (7, True), (9, True), (10, False)])
def test_a_follower_notices_a_truncation_that_it_slept_through(tmp_path: Path, cut: int, noticed: bool) -> None:
    """The log has eleven records. It is cut and grows to twenty before the follower reads again."""
    async def main() -> None:
        with Log(tmp_path) as log:
            for _ in range(11):
                log.append_record(b"a")
            follower = log.follow(0)
            for _ in range(11):
                batch = await anext(follower)
                assert batch.leader_epoch == 0
            regrow(log, 11 if not noticed else cut, 20)
            if noticed:
                with pytest.raises(errors.OffsetOutOfRangeError, match="truncated below"):
                    await anext(follower)
            else:
                assert (await anext(follower)).base_offset == 11
            await follower.aclose()  # type: ignore[attr-defined]

    asyncio.run(main())


@pytest.mark.parametrize("asleep", [False, True])
def test_a_reader_that_follows_notices_it_too(tmp_path: Path, asleep: bool) -> None:
    raised: list[BaseException | None] = []
    with Log(tmp_path) as log, LogReader(tmp_path) as reader:
        for _ in range(5):
            log.append_record(b"a")
        follower = reader.follow(0, timeout=SOON)
        assert [next(follower).base_offset for _ in range(5)] == [0, 1, 2, 3, 4]
        log.truncate_to(5)  # removes no record that the follower returned
        log.append_record(b"a")
        assert next(follower).base_offset == 5
        if asleep:
            thread = threading.Thread(target=lambda: raised.append(raised_by(follower)))
            thread.start()
            while not (tmp_path / "kraft.live").read_bytes()[256]:   # its request to be woken
                os.sched_yield()
            regrow(log, 3, 9)
            thread.join(SOON)
            assert [type(error) for error in raised] == [errors.OffsetOutOfRangeError]
        else:
            regrow(log, 3, 9)
            with pytest.raises(errors.OffsetOutOfRangeError, match="truncated below"):
                next(follower)


def test_a_limit_inside_a_batch_is_waited_for(tmp_path: Path) -> None:
    """The high watermark may be set anywhere; the batch becomes visible when it passes its end."""
    async def main() -> list[bytes | None]:
        with Log.open(tmp_path, high_watermark="manual") as log:
            log.append(batch(10))
            log.set_high_watermark(5)
            follower = asyncio.create_task(collect(log, 0, 10))
            for _ in range(20):
                await asyncio.sleep(0)
            assert not follower.done() and values(log) == []
            log.set_high_watermark(10)
            return await asyncio.wait_for(follower, SOON)

    assert len(asyncio.run(main())) == 10


WRITER = """
import sys
from kraft import Log
log = Log(sys.argv[1])
print("open", flush=True)
for line in sys.stdin:
    log.append_record(line.strip().encode())
log.close()
"""


def test_a_reader_follows_another_process(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True, cwd=ROOT) as writer:
        assert writer.stdout.readline() == "open\n"
        with LogReader(tmp_path) as reader:
            assert list(reader.follow(timeout=0)) == []
            followed = reader.follow(timeout=SOON)
            for number in range(5):
                writer.stdin.write(f"{number}\n")
                writer.stdin.flush()
                assert next(followed).base_offset == number
            writer.stdin.close()
            with pytest.raises(errors.LogClosedError):
                next(followed)
            assert values(reader) == [b"%d" % number for number in range(5)]
            with pytest.raises(errors.InvalidArgumentError, match="timeout: -1"):
                list(reader.follow(timeout=-1))


def test_a_reader_follows_in_an_event_loop_beside_the_owner(tmp_path: Path) -> None:
    async def follow(reader: LogReader) -> list[int]:
        found: list[int] = []
        async for each in reader.follow_async():
            found.append(each.base_offset)
            if len(found) == 10:
                break
        return found

    async def main() -> list[int]:
        with Log(tmp_path) as log, LogReader(tmp_path) as reader:
            task = asyncio.create_task(follow(reader))
            for _ in range(10):
                await asyncio.sleep(0)
                log.append_record(b"a")
            return await asyncio.wait_for(task, SOON)

    assert asyncio.run(main()) == list(range(10))


# --- figures and upkeep -----------------------------------------------------------------------------------------------


def test_stats_are_plain_and_true(tmp_path: Path) -> None:
    with Log.open(tmp_path, segment_bytes=1000, high_watermark="manual") as log:
        for _ in range(5):
            log.append(batch(4, value=b"x" * 100))
        log.set_high_watermark(8)
        found = json.loads(json.dumps(log.stats()))
        assert found["log_start_offset"] == 0 and found["log_end_offset"] == 20 and found["high_watermark"] == 8
        assert found["size_bytes"] == sum(each.size_in_bytes for each in log.batches(isolation="log_end"))
        assert found["segments"] == len(list(tmp_path.glob("*.log"))) > 1
        assert found["directory"] == str(tmp_path) and found["failure"] is None and found["durability"] == "page-cache"


def test_a_failed_write_makes_it_read_only_with_the_cause(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        log.append(batch(3))
        with faults.fail_at(1, error=28, kinds=["write"]), pytest.raises(errors.StorageError) as failed:
            log.append(batch(3))
        with pytest.raises(errors.LogReadOnlyError) as refused:
            log.append_record(b"more")
        assert refused.value.cause is failed.value and failed.value.errno == 28
        assert len(values(log)) == 3 and "No space left" in str(log.stats()["failure"])
    with Log(tmp_path) as log:
        assert len(values(log)) == 3 and log.append_record(b"more") == 3


def test_retention_and_seeking_by_time(tmp_path: Path) -> None:
    with Log.open(tmp_path, segment_bytes=600, retention_ms=1000) as log:
        for number in range(20):
            log.append(batch(2, value=b"x" * 100, timestamp_ms=START_MS + 100 * number))
        assert log.offset_for_time(START_MS + 1001)[0] == 21
        assert log.offset_for_time(START_MS + 1_000_000) is None
        assert log.apply_retention(START_MS + 2000) > 0
        assert log.log_start_offset > 0 and next(log.records()).offset == log.log_start_offset
        assert log.offset_for_time(0)[0] == log.log_start_offset


def test_compaction_keeps_the_latest_of_each_key(tmp_path: Path) -> None:
    progress: list[tuple[int, int]] = []
    with Log.open(tmp_path, cleanup_policy="compact", segment_bytes=2000) as log:
        for number in range(50):
            log.append_records([(b"%d" % number, b"k%d" % key, START_MS, ()) for key in range(5)])
        before = log.size_bytes
        log.roll()
        stats = log.compact(force=True, progress=lambda done, total: progress.append((done, total)))
        assert stats.records_kept == 5 and log.size_bytes < before / 5 and progress[-1][0] == progress[-1][1]
        assert [(each.offset, each.value) for each in log.records()] == [(245 + i, b"49") for i in range(5)]
        assert len(pa.Table.from_batches(log.arrow())) == 5
        for end, count in ((100, 0), (245, 0), (247, 2)):
            assert len(list(log.records(0, end))) == sum(len(each) for each in log.arrow(0, end)) == count


def test_compaction_needs_its_policy(tmp_path: Path) -> None:
    with Log(tmp_path / "log") as log, pytest.raises(errors.InvalidArgumentError, match="cleanup_policy"):
        log.compact()


def test_reading_continues_behind_damage(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=1 << 20)
    with Log(tmp_path, config) as log:
        for number in range(10):
            log.append(batch(2, value=b"%04d" % number))
        size = log.size_bytes // 10
    path = tmp_path / f"{0:020}.log"
    content = bytearray(path.read_bytes())
    content[4 * size + 70] ^= 0xFF
    path.write_bytes(content)
    with Log(tmp_path, config) as log:
        found: list[int] = []
        records = log.records()
        with pytest.raises(CorruptLogError) as damage:
            found.extend(record.offset for record in records)
        assert (damage.value.offset, damage.value.next_offset, damage.value.position) == (8, 10, 4 * size)
        assert sum(len(each) for each in log.arrow(10)) == 10
        assert [record.offset for record in log.records(damage.value.next_offset)] == list(range(10, 20))


def test_the_subclass_costs_an_append_nothing(tmp_path: Path) -> None:
    """`kraft.Log` must not wrap the native methods in Python."""
    with Log(tmp_path / "log") as log:
        for name in ("append", "append_record", "read", "close"):
            assert not any(name in vars(kind) for kind in type(log).__mro__ if kind.__module__.startswith("kraft."))
        builder = BatchBuilder()
        builder.append(b"value")
        assert log.append(builder.build()).first_offset == 0
