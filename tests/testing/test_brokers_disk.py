"""The disks of simulated brokers: what is left of real logs after each kind of end."""

from collections.abc import Iterator
from random import Random
from uuid import UUID

import pytest

from kraft.testing.brokers.disk import BrokerDisk, Storage
from kraft.testing.brokers.log_view import LogView, encoded_batch
from kraft_native.facade.log import Log
from kraft_native.segment.config import LogConfig

TOPIC_ID = UUID(int=70)
NAME = ("t", 0)


class Loses(Random):
    """Loses all that a loss of power may take."""

    def random(self) -> float:
        return 1.0


class Bench:
    def __init__(self, directories: int = 1) -> None:
        self.storage = Storage()
        self.disk = BrokerDisk(1, directories, self.storage, lambda _name, _id, offset: None if offset else 0)
        self.sequence = 0

    def open(self, durability: str = "page-cache") -> tuple[Log, LogView]:
        return self.disk.open(*NAME, TOPIC_ID, LogConfig(durability=durability, high_watermark="manual"))

    def append(self, log: Log, count: int = 1) -> None:
        log.append(encoded_batch(1001, 0, self.sequence, self.sequence, count), leader_epoch=0)
        self.sequence += count


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench(2)
    yield made
    made.disk.crash()
    made.storage.close()
    vars(made).clear()


def test_a_killed_process_loses_nothing(bench: Bench) -> None:
    assert bench.disk.reopen() == -1
    log, _ = bench.open()
    for _ in range(3):
        bench.append(log, 2)
    bench.disk.crash()
    assert bench.disk.reopen() == -1
    log, view = bench.open()
    assert (log.log_end_offset, view.end_offset, view.durable_end) == (6, 6, 6)


@pytest.mark.parametrize("durability", ["page-cache", "group-commit", "per-append"])
def test_a_loss_of_power_takes_what_is_not_durable(bench: Bench, durability: str) -> None:
    bench.disk.reopen()
    log, view = bench.open(durability)
    bench.append(log, 2)
    if durability == "group-commit":
        log.flush()
    view.read_back(log)
    view.durable_end = 2
    for _ in range(3):
        bench.append(log, 3)
    bench.disk.crash()
    lost = bench.disk.lose_power(Loses(1))
    bench.disk.reopen()
    log, view = bench.open(durability)
    assert lost == (0 if durability == "per-append" else 3)
    assert log.log_end_offset == view.end_offset == (11 if durability == "per-append" else 2)
    assert log.first_lost_offset is None


def test_a_clean_stop_leaves_its_mark_once(bench: Bench) -> None:
    bench.disk.reopen()
    log, _ = bench.open()
    bench.append(log)
    bench.disk.close(broker_epoch=12)
    assert bench.disk.lose_power(Loses(1)) == 0
    assert bench.disk.reopen() == 12
    bench.disk.crash()
    assert bench.disk.reopen() == -1


def test_removed_and_stray_logs_are_not_listed(bench: Bench) -> None:
    bench.disk.reopen()
    log, _ = bench.open()
    bench.append(log)
    bench.disk.remove(NAME, TOPIC_ID)
    assert (bench.disk.names(), bench.disk.found(NAME), bench.disk.home(NAME)) == ([], None, None)
    bench.open()
    bench.disk.remove(NAME, None)
    assert bench.disk.names() == list(bench.disk.kept()) == []


def test_a_failed_directory_comes_back_with_what_it_had(bench: Bench) -> None:
    bench.disk.reopen()
    log, _ = bench.open()
    bench.append(log, 2)
    home = bench.disk.home(NAME)
    assert home is not None
    assert bench.disk.fail(home) == [NAME]
    assert bench.disk.is_offline(NAME)
    assert home not in bench.disk.online
    bench.disk.crash()
    bench.disk.reopen()
    assert bench.disk.home(NAME) is None
    assert bench.disk.may_be_offline(home)
    bench.disk.crash()
    assert bench.disk.repair(Random(1), replace=False) in (0, 1)
    assert bench.disk.reopen() == -1
    assert bench.disk.home(NAME) == home


def test_a_replaced_directory_is_another_one(bench: Bench) -> None:
    bench.disk.reopen()
    log, view = bench.open()
    bench.append(log, 2)
    view.read_back(log)
    home = bench.disk.home(NAME)
    assert home is not None
    bench.disk.fail(home)
    bench.disk.crash()
    assert bench.disk.repair(Random(1), replace=True) == 1
    assert home not in bench.disk.directories
    bench.disk.reopen()
    assert bench.disk.found(NAME) is None
