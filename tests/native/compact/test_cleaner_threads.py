"""Compaction in another thread than the log's owner, which continues to use the log."""

import os
import queue
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pytest

from kraft_native.base.errors import KraftError, OperationError, WrongThreadError
from kraft_native.compact.cleaner import CleanerStats
from kraft_native.facade.log import Log
from tests.native.compact.test_cleaner import START_MS, batch, check_structure, config, expected, stored, values


def settle(answer: Future, work: Callable[[], object]) -> None:
    try:
        answer.set_result(work())
    except (KraftError, OSError) as error:
        answer.set_exception(error)


class Owner:
    """The owner's thread: it runs the steps that a compaction in another thread requests, one `turn` at a time."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.turns = 0
        self._steps: queue.Queue[tuple[Callable[[], object], Future] | None] = queue.Queue()

    def request(self, step: Callable[[], object]) -> object:
        """Request a step from the other thread."""
        answer: Future = Future()
        self._steps.put((step, answer))
        return answer.result()

    def compact(self, between: Callable[[int], None] = lambda turn: None, **options) -> CleanerStats:
        """Compact in a thread, calling `between` before each step."""
        done: Future = Future()

        def work() -> None:
            settle(done, lambda: self.log.compact(START_MS, on_owner=self.request, **options))
            self._steps.put(None)

        thread = threading.Thread(target=work)
        thread.start()
        while (requested := self._steps.get()) is not None:
            step, answer = requested
            between(self.turns)
            self.turns += 1
            settle(answer, step)
        thread.join()
        return done.result()


def fill(log: Log, batches: int = 60) -> None:
    for number in range(batches):
        log.append(batch([(b"k%d" % (number % 7), b"value %d" % number)] * 3,
                         codec="lz4" if number % 5 == 0 else "none"), now_ms=START_MS)


def leftovers(directory: Path) -> list[str]:
    return [name for name in os.listdir(directory) if name.endswith((".deleted", ".cleaned", ".swap"))]


def test_the_same_as_on_the_owners_thread(tmp_path):
    with Log(tmp_path, config()) as log:
        fill(log)
        wanted = expected(log, 0, START_MS)
        owner = Owner(log)
        stats = owner.compact()
        assert stats.rounds == 1 and stats.segments_rewritten > 1
        assert stored(log) == wanted
        check_structure(log)


def test_work_of_the_owner_is_a_step_for_each_group(tmp_path):
    """The number of steps does not depend on the bytes compacted: two checks, a swap for each group, two notes."""
    with Log(tmp_path, config(segment_bytes=600)) as log:
        fill(log, 300)
        owner = Owner(log)
        stats = owner.compact()
        groups = stats.segments_after - 1
        assert stats.segments_before > 50
        assert 4 < owner.turns <= groups + 4


def test_appends_and_rolls_meanwhile(tmp_path):
    with Log(tmp_path, config()) as log:
        fill(log)
        owner = Owner(log)

        def append(turn: int) -> None:
            log.append(batch([(b"new", b"%d" % turn)]), now_ms=START_MS)
            log.roll()

        owner.compact(append)
        assert values(log)[b"new"][1] == b"%d" % (owner.turns - 1)
        assert values(log)[b"k3"][1] == b"value 59"
        check_structure(log)
        assert log.compact(START_MS).rounds == 1
        check_structure(log)


def test_retention_meanwhile_takes_segments_from_under_it(tmp_path):
    with Log(tmp_path, config(segment_bytes=600)) as log:
        fill(log)
        start = log.segments[5].base_offset
        before = values(log)

        def delete(turn: int) -> None:
            if turn == 1:
                log.delete_records(start)

        stats = Owner(log).compact(delete)
        assert stats.rounds == 1
        assert log.log_start_offset == start
        assert values(log) == {key: found for key, found in before.items() if found[0] >= start}
        assert not leftovers(tmp_path)
        check_structure(log)


@pytest.mark.parametrize("at", [1, 2])
def test_a_truncation_ends_it(tmp_path, at):
    with Log(tmp_path, config()) as log:
        fill(log)

        def truncate(turn: int) -> None:
            if turn == at:
                log.truncate_to(log.log_end_offset - 20)
                fill(log, 5)

        with pytest.raises(OperationError, match="truncated or closed"):
            Owner(log).compact(truncate)
        assert not leftovers(tmp_path)
        check_structure(log)
        log.compact(START_MS)
        check_structure(log)


def test_a_close_ends_it(tmp_path):
    log = Log(tmp_path, config())
    fill(log)
    before = values(log)
    with pytest.raises(OperationError, match="truncated or closed"):
        Owner(log).compact(lambda turn: log.close() if turn == 1 else None)
    assert not leftovers(tmp_path)
    with Log(tmp_path, config()) as log:
        assert values(log) == before


def test_without_an_owner_another_thread_is_refused(tmp_path):
    with Log(tmp_path, config()) as log:
        fill(log)
        refused = []

        def work() -> None:
            try:
                log.compact(START_MS)
            except WrongThreadError as error:
                refused.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert refused


def test_how_urgent_it_is(tmp_path):
    with Log(tmp_path, config(min_cleanable_dirty_ratio=0.9)) as log:
        assert log.compaction_due(START_MS) == 0.0
        fill(log)
        assert log.compaction_due(START_MS) == 1.0
        log.compact(START_MS)
        log.append(batch([(b"a", b"1")]), now_ms=START_MS)
        log.roll()
        assert log.compaction_due(START_MS) == 0.0
        log.reconfigure(config(min_cleanable_dirty_ratio=0.9, max_compaction_lag_ms=10))
        assert 1.0 < log.compaction_due(START_MS + 1000) < 2.0
        log.reconfigure(config(cleanup_policy="delete"))
        assert log.compaction_due(START_MS + 1000) == 0.0


def test_how_far_it_came_is_noted_by_a_checkpoint(tmp_path):
    with Log(tmp_path, config()) as log:
        fill(log)
        stats = Owner(log).compact()
        log.checkpoint()
        with Log(shutil.copytree(tmp_path, tmp_path.with_name("copy")), config()) as other:
            assert other.compact(START_MS).first_dirty_offset == stats.first_dirty_offset


def test_the_throttle_receives_all_bytes(tmp_path):
    moved = []
    with Log(tmp_path, config(segment_bytes=40 << 20, max_message_bytes=9 << 20)) as log:
        for _ in range(3):
            log.append(batch([(b"%d" % k, bytes(1 << 20)) for k in range(8)]))
        log.append(batch([(b"a", b"1")]))
        log.roll()
        stats = log.compact(START_MS, throttle=moved.append)
        assert sum(moved) == stats.map_bytes_read + stats.bytes_read + stats.bytes_written
        assert len(moved) >= 2
