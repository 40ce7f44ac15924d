"""A crash that leaves a full disk: the log opens and reads, reports why it refuses appends, and loses nothing."""

import errno
import shutil
from contextlib import ExitStack

import pytest

from kraft_native.base.errors import LogReadOnlyError, StorageError
from kraft_native.facade.log import Log
from kraft_native.file.faults import count_operations, fail_at
from tests.golden import needs_golden
from tests.native.logs import batch, readable
from tests.native.recovery_logs import answers, config, flip, killed, segments, template
from tests.native.unclean_cases import cases, open_log, serve

# Operations that need space. On a full disk too, existing names can be opened, and files can be truncated and removed.
TAKES_SPACE = frozenset({"write", "allocate", "mkdir"})


@pytest.fixture(params=["as killed", "torn end", "no indexes", "no epochs", "damage inside", "no transaction indexes"])
def crashed(request, tmp_path):
    directory = killed(tmp_path)
    last = segments(directory)[-1]
    if request.param == "torn end":
        with last.open("r+b") as file:
            file.truncate(len(last.read_bytes().rstrip(b"\0")) - 3)
    elif request.param == "no indexes":
        for path in directory.glob("*index"):
            path.unlink()
    elif request.param == "no transaction indexes":
        for path in directory.glob("*.txnindex"):
            path.unlink()
    elif request.param == "no epochs":
        (directory / "leader-epoch-checkpoint").unlink()
    elif request.param == "damage inside":
        flip(last, 90)
    return directory


def whole(directory, tmp_path):
    """Return the content and the answers of the log where there is space."""
    with Log(shutil.copytree(directory, tmp_path / "whole" / "log-0"), config()) as log:
        return facts(log)


def facts(log):
    seen, damage = readable(log)
    return (log.log_start_offset, log.log_end_offset, seen, [(error.offset, error.next_offset) for error in damage],
            log.epochs.entries(), answers(log) if not damage else None)


def expect_read_only(log, cause):
    assert log.failure is cause
    assert isinstance(cause, StorageError)
    assert cause.errno == errno.ENOSPC
    for change in (lambda: log.append(batch()), lambda: log.truncate_to(0), log.roll, log.checkpoint, log.flush):
        with pytest.raises(LogReadOnlyError) as caught:
            change()
        assert caught.value.cause is cause


def test_it_opens_reads_and_says_why_it_is_read_only(crashed, tmp_path):
    wanted = whole(crashed, tmp_path)
    with fail_at(1, error=errno.ENOSPC, kinds=TAKES_SPACE, under=crashed, persistent=True) as plan:
        with Log(crashed, config()) as log:
            assert facts(log) == wanted
            expect_read_only(log, log.failure)
        assert plan.fired
    with Log(crashed, config()) as log:      # space is available again
        assert log.failure is None
        assert facts(log) == wanted
        assert log.append(batch()).first_offset == wanted[1]


def test_the_disk_becomes_full_at_any_point_of_the_opening(crashed, tmp_path):
    wanted = whole(crashed, tmp_path)
    copy = tmp_path / "count" / "log-0"
    with count_operations(kinds=TAKES_SPACE, under=shutil.copytree(crashed, copy)) as counter:
        log = Log(copy, config())
        opened = counter.seen
        log.close()
    assert opened >= 3
    for k in range(1, opened + 1):
        directory = shutil.copytree(crashed, tmp_path / str(k) / "log-0")
        with fail_at(k, error=errno.ENOSPC, kinds=TAKES_SPACE, under=directory, persistent=True), \
                Log(directory, config()) as log:
            expect_read_only(log, log.failure)
            assert facts(log) == wanted
        with Log(directory, config()) as log:
            assert facts(log) == wanted


@pytest.mark.parametrize("name", ["*.index", "*.timeindex", "*.txnindex"])
def test_a_lost_index_of_a_cleanly_closed_log_needs_no_space_to_be_read(tmp_path, name):
    directory = shutil.copytree(template(), tmp_path / "log-0")
    wanted = whole(directory, tmp_path)
    for path in directory.glob(name):
        path.unlink()
    with fail_at(1, error=errno.ENOSPC, kinds=TAKES_SPACE, under=directory, persistent=True) as plan:
        with Log(directory, config()) as log:
            assert facts(log) == wanted
        assert plan.fired
    with Log(directory, config()) as log:
        assert facts(log) == wanted
        assert log.append(batch()).first_offset == wanted[1]


def test_an_index_that_could_not_be_written_does_not_count_as_kept(tmp_path):
    directory = shutil.copytree(template(), tmp_path / "log-0")
    segments(directory)[0].with_suffix(".index").unlink()
    log = Log(directory, config())
    with fail_at(1, error=errno.ENOSPC, kinds=TAKES_SPACE, under=directory, suffix=".index", persistent=True):
        log.read(3, isolation="log_end")
    log.append(batch())
    with pytest.raises(StorageError):
        log.checkpoint()
    log.close()
    with Log(directory, config()) as log:
        assert not log.recovery.clean


# Operations that a full disk refuses in a directory that only Kafka wrote: a new name, or the first bytes of a new
# file.
NO_LOCK = {"kinds": {"open"}, "suffix": "/.lock"}
NO_PAGE = {"kinds": {"open"}, "suffix": "/kraft.live"}
NO_PAGE_BYTES = {"kinds": {"write"}, "suffix": "/kraft.live"}


@needs_golden
@pytest.mark.parametrize("refused", [NO_LOCK, NO_PAGE, NO_PAGE_BYTES], ids=["lock", "page", "bytes"])
@pytest.mark.parametrize("case", cases(), ids=str)
def test_kafka_s_directories_are_read_without_a_place_for_the_lock(case, refused, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "opened").mkdir()
    directory, other = case.copy(tmp_path / "full"), case.copy(tmp_path / "opened")
    with open_log(other) as log:
        wanted = seen_by(log)
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    with ExitStack() as plans:
        kept_out = plans.enter_context(fail_at(1, error=errno.ENOSPC, under=directory, persistent=True, **refused))
        plans.enter_context(fail_at(1, error=errno.ENOSPC, kinds=TAKES_SPACE, under=directory, persistent=True))
        with open_log(directory) as log:
            assert seen_by(log) == wanted
            expect_read_only(log, log.failure)
        assert kept_out.fired
    left = {path.name: path.read_bytes() for path in directory.iterdir()}
    assert {name: data for name, data in left.items() if name not in (".lock", "kraft.live")} == before
    with open_log(directory) as log:         # space is available again
        assert log.failure is None
        assert seen_by(log) == wanted


def seen_by(log):
    served = serve(log)
    return (log.log_start_offset, log.log_end_offset, log.last_stable_offset, served.batches,
            [(error.position, error.offset, error.next_offset) for error in served.refused], log.epochs.entries(),
            log.max_timestamp(), log.aborted_transactions(0, log.log_end_offset))


@needs_golden
def test_other_failures_of_the_lock_are_raised(tmp_path):
    directory = cases()[0].copy(tmp_path)
    for refused in (NO_LOCK, NO_PAGE, NO_PAGE_BYTES):
        with fail_at(1, error=errno.EIO, under=directory, **refused), pytest.raises(StorageError) as caught:
            open_log(directory)
        assert caught.value.errno == errno.EIO


def test_other_failures_are_raised(tmp_path):
    directory = killed(tmp_path)
    with fail_at(1, error=errno.EIO, kinds=TAKES_SPACE, under=directory), pytest.raises(StorageError) as caught:
        Log(directory, config())
    assert caught.value.errno == errno.EIO
