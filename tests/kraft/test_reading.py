"""The iterators of logs: bounds, isolation, transactions, control records; the same for the owner and a reader."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from kraft import Log, LogReader, errors
from kraft_native.batch import control
from tests.native.logs import START_MS, batch

Either = Log | LogReader


@pytest.fixture(params=["owner", "reader", "reader of a closed log"])
def reading(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[Callable[[Log], None]], Either]]:
    """Return a function that fills a log and returns a reader of it."""
    opened: list[Either] = []

    def fill(write: Callable[[Log], None]) -> Either:
        log = Log.open(tmp_path, segment_bytes=2000)
        opened.append(log)
        write(log)
        if request.param == "owner":
            return log
        if request.param != "reader":
            log.close()
        reader = LogReader(tmp_path)
        opened.append(reader)
        return reader

    yield fill
    while opened:
        opened.pop().close()


def offsets(source: Either, *arguments: int, **named: object) -> list[int]:
    """Return the offsets of `records`, after a comparison with those of `arrow`."""
    found = [record.offset for record in source.records(*arguments, **named)]
    columns = [offset for piece in source.arrow(*arguments, columns=["offset"], **named)
               for offset in piece["offset"].to_pylist()]
    assert columns == found
    return found


def fill_plainly(log: Log) -> None:
    for _ in range(40):
        log.append(batch(5, value=b"x" * 20))


@pytest.mark.parametrize("read_bytes", [1, 700, 1 << 20])
def test_every_start_and_end(reading, read_bytes: int) -> None:
    source = reading(fill_plainly)
    assert offsets(source, read_bytes=read_bytes) == list(range(200))
    for start in (0, 1, 4, 5, 7, 99, 199, 200):
        for end in (0, 1, 5, 8, 100, 199, 200, 1000):
            assert offsets(source, start, end, read_bytes=read_bytes) == list(range(start, min(end, 200)))
    assert offsets(source, end=12) == list(range(12))


@pytest.mark.parametrize("start", [-1, 39, 201, 9999])
@pytest.mark.parametrize("iterator", ["records", "batches", "arrow"])
def test_a_start_outside_of_the_log_is_refused(reading, iterator: str, start: int) -> None:
    """Starts below the log start or past the log end are refused. At the log end there is nothing to read."""
    def write(log: Log) -> None:
        fill_plainly(log)
        log.delete_records(40)

    source = reading(write)
    with pytest.raises(errors.OffsetOutOfRangeError, match=f"offset {start} is not in 40 to 200"):
        list(getattr(source, iterator)(start))
    assert list(getattr(source, iterator)(200)) == []


def test_batches_are_whole(reading) -> None:
    source = reading(fill_plainly)
    found = list(source.batches(7, 12))
    assert [(each.base_offset, each.last_offset) for each in found] == [(5, 9), (10, 14)]
    assert all(each.valid for each in found)
    assert list(source.batches(200)) == []


def test_records_of_an_iterator_outlive_the_log(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        log.append(batch(3))
        kept = list(log.batches()) + list(log.records())
        table = pa.Table.from_batches(log.arrow())
    assert bytes(kept[0]) == bytes(kept[0]) and kept[0].valid and kept[3].value == b"value"
    assert table["value"].to_pylist() == [b"value"] * 3
    del kept, table


def test_offsets_outside_are_refused(reading) -> None:
    source = reading(fill_plainly)
    with pytest.raises(errors.InvalidArgumentError, match="isolation: 'serializable' is not one of"):
        list(source.records(isolation="serializable"))
    if isinstance(source, Log):
        source.delete_records(50)
        assert offsets(source) == list(range(50, 200))
        with pytest.raises(errors.OffsetOutOfRangeError):
            list(source.records(49))


def fill_with_transactions(log: Log) -> None:
    """Append 0-1 of 1 (aborted), 2-3 plain, 4-5 of 2 (committed), 6 abort of 1, 7-8 of 1 (committed).

    Then 9 commit of 2, 10 commit of 1, 11-12 of 2 (open), 13-14 plain.
    """
    def records(producer_id: int = -1, sequence: int = 0) -> None:
        if producer_id < 0:
            log.append(batch(2))
        else:
            log.append(batch(2, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=True))

    def end(producer_id: int, commit: bool) -> None:
        log.append(control.marker(commit=commit, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0,
                                  timestamp_ms=START_MS), origin="coordinator")

    records(1)
    records()
    records(2)
    end(1, commit=False)
    records(1, 2)
    end(2, commit=True)
    end(1, commit=True)
    records(2, 2)
    records()


@pytest.mark.parametrize("read_bytes", [1, 1 << 20])
def test_isolation_hides_what_it_must(reading, read_bytes: int) -> None:
    source = reading(fill_with_transactions)
    everything = [0, 1, 2, 3, 4, 5, 7, 8, 11, 12, 13, 14]
    assert offsets(source, read_bytes=read_bytes) == everything
    assert offsets(source, isolation="read_uncommitted", read_bytes=read_bytes) == everything
    assert offsets(source, isolation="read_committed", read_bytes=read_bytes) == [2, 3, 4, 5, 7, 8]
    assert offsets(source, 3, 8, isolation="read_committed", read_bytes=read_bytes) == [3, 4, 5, 7]
    assert [each.base_offset for each in source.batches(isolation="read_committed", read_bytes=read_bytes)] == [
        2, 4, 6, 7, 9, 10]


def test_control_records_are_returned_on_request(reading) -> None:
    source = reading(fill_with_transactions)
    assert [each.offset for each in source.records(control=True)] == list(range(15))
    assert [each.offset for each in source.records(control=True, isolation="read_committed")] == [
        2, 3, 4, 5, 6, 7, 8, 9, 10]


def test_followers_hide_aborted_transactions_too(tmp_path: Path) -> None:
    with Log(tmp_path) as log, LogReader(tmp_path) as reader:
        fill_with_transactions(log)
        followed = reader.follow(isolation="read_committed", timeout=0)
        assert [each.base_offset for each in followed] == [2, 4, 6, 7, 9, 10]


def test_log_end_is_the_owners_alone(tmp_path: Path) -> None:
    with Log.open(tmp_path, high_watermark="manual") as log, LogReader(tmp_path) as reader:
        log.append(batch(3))
        assert offsets(log) == [] and offsets(log, isolation="log_end") == [0, 1, 2]
        with pytest.raises(errors.InvalidArgumentError, match="log_end"):
            list(reader.records(isolation="log_end"))


def test_arrow_gives_the_requested_columns(reading) -> None:
    source = reading(fill_plainly)
    piece = next(source.arrow(columns=["key", "offset"], read_bytes=500))
    assert piece.schema.names == ["key", "offset"] and len(piece) > 0
    with pytest.raises(errors.InvalidArgumentError, match="colour"):
        next(source.arrow(columns=["colour"]))
