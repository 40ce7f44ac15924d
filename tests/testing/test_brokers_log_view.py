"""The judges' view of a log: after each change of the log it has the same batches."""

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from kraft.testing.brokers.log_view import Batch, LogView, decoded_batches, encoded_batch
from kraft.testing.sim.violation import ViolationError
from kraft_native.facade.log import Log
from kraft_native.segment.config import LogConfig

PRODUCER = 1001
MAGIC_POSITION = 16


class Bench:
    """A log, and a view of it. `known` has the chains that other replicas show."""

    def __init__(self, directory: Path) -> None:
        self.log = Log(directory / "t-0", LogConfig(high_watermark="manual"))
        self.known: dict[int, int | None] = {0: 0}
        self.view = LogView(UUID(int=7), self.known.get)
        self.value = 0

    def append(self, count: int = 1, epoch: int = 0) -> None:
        self.log.append(encoded_batch(PRODUCER, 0, self.value, self.value, count), leader_epoch=epoch)
        self.value += count

    def check(self) -> None:
        """Compare the view with another one that reads all of the log."""
        other = LogView(self.view.topic_id, lambda _offset: self.view.start_chain)
        other.read_back(self.log)
        assert [each[:7] for each in self.view.batches] == [each[:7] for each in other.batches]
        assert (self.view.start_offset, self.view.end_offset) == (self.log.log_start_offset, self.log.log_end_offset)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.log.close()
    vars(made).clear()


def test_appended_batches_are_fresh_once(bench: Bench) -> None:
    bench.append(3)
    change = bench.view.read_back(bench.log)
    assert [(each.base_offset, each.end_offset, each.value, each.producer) for each in change.fresh] == [
        (0, 3, 0, PRODUCER)]
    bench.append()
    assert [each.value for each in bench.view.read_back(bench.log).fresh] == [3]
    assert bench.view.read_back(bench.log) == (False, [])
    assert bench.view.chain_at(3) == bench.view.batches[0].chain == bench.view.batches[1].before
    assert (bench.view.has_boundary(3), bench.view.has_boundary(2), bench.view.chain_at(2)) == (True, False, None)
    bench.check()


def test_a_cut_shows_even_when_others_are_in_its_place(bench: Bench) -> None:
    for _ in range(3):
        bench.append(2)
    bench.view.read_back(bench.log)
    chain = bench.view.chain_at(2)
    bench.log.truncate_to(2)
    bench.log.producers.truncate_and_reload(bench.log.directory, 0, 0, 0)
    bench.value = 10
    for _ in range(2):
        bench.append(2, epoch=1)
    change = bench.view.read_back(bench.log)
    assert change.is_cut
    assert [each.value for each in change.fresh] == [10, 12]
    assert bench.view.chain_at(2) == chain
    bench.check()


def test_a_log_that_cannot_be_read_is_a_violation(bench: Bench) -> None:
    bench.append()
    bench.view.read_back(bench.log)
    size = bench.log.size_bytes
    bench.append()
    bench.append()
    [segment] = Path(bench.log.directory).glob("*.log")
    with segment.open("r+b") as file:
        file.seek(size + MAGIC_POSITION)
        file.write(b"\x7f")
    with pytest.raises(ViolationError, match="LogIsReadable"):
        bench.view.read_back(bench.log)


def test_deleted_batches_leave_their_chain(bench: Bench) -> None:
    for _ in range(3):
        bench.append(2)
    bench.log.set_high_watermark(6)
    bench.view.read_back(bench.log)
    chain = bench.view.chain_at(2)
    bench.log.delete_records(2)
    assert bench.view.read_back(bench.log) == (False, [])
    assert (bench.view.start_offset, bench.view.start_chain) == (2, chain)
    bench.log.delete_records(5)
    bench.view.read_back(bench.log)
    assert (bench.view.start_offset, bench.view.start_chain, len(bench.view.batches)) == (5, None, 1)
    bench.check()


def test_a_restarted_log_begins_with_what_others_know(bench: Bench) -> None:
    bench.append(2)
    bench.view.read_back(bench.log)
    bench.known[50] = 4711
    bench.log.truncate_fully_and_start_at(50)
    assert bench.view.read_back(bench.log) == (True, [])
    assert (bench.view.start_offset, bench.view.end_offset, bench.view.chain) == (50, 50, 4711)


def test_unflushed_batches_are_at_risk(bench: Bench) -> None:
    for _ in range(4):
        bench.append(2)
    bench.view.read_back(bench.log)
    bench.view.durable_end = 4
    assert bench.view.at_risk == 2
    bench.view.drop(1)
    assert (bench.view.end_offset, bench.view.at_risk) == (6, 1)


def test_an_answer_holds_what_was_sent() -> None:
    data = encoded_batch(PRODUCER, 2, 8, 30, 2)
    [found] = decoded_batches(data, None)
    assert found._replace(crc=0) == Batch(0, 2, -1, PRODUCER, 2, 8, 30, None, None, 0)
