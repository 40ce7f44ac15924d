"""Damaged directories that Kafka left: nothing valid is lost, nothing damaged is served, and the log continues."""

import shutil
from pathlib import Path

import pytest

from kraft_native.batch.batch import LENGTH_AT
from kraft_native.facade.log import Log
from tests.golden import needs_golden
from tests.native.logs import batch
from tests.native.unclean_cases import (
    BEGIN,
    DOCUMENT,
    END,
    UNREADABLE_EPOCHS,
    Case,
    Served,
    cases,
    open_log,
    serve,
    table,
)
from tests.oracle.batch import decode
from tests.oracle.damage import Found, epochs, largest_timestamp, markers, read_log

pytestmark = needs_golden


@pytest.fixture(params=cases(), ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


@pytest.fixture
def directory(case: Case, tmp_path: Path) -> Path:
    return case.copy(tmp_path)


def same_batches(served: Served, valid: list[Found]) -> None:
    assert [(found.base_offset, found.last_offset, found.data) for found in served.batches] == [
        (found.base_offset, found.last_offset, found.data) for found in valid]


def covers(log: Log, served: Served) -> None:
    """Check that every offset is either in a batch or refused."""
    at = log.log_start_offset
    pieces = [(found.base_offset, found.last_offset + 1) for found in served.batches]
    pieces += [(error.offset, error.next_offset) for error in served.refused]
    for first, end in sorted(pieces):
        assert first == at
        at = end
    assert at == log.log_end_offset


def test_there_are_47_cases() -> None:
    assert len(cases()) == 47


def test_all_that_is_valid_and_nothing_else_is_served(case, directory):
    valid = read_log(directory)
    prefixes = case.expected["log_files"].values()
    assert len(valid) >= sum(facts["valid_batches"] for facts in prefixes)
    with open_log(directory) as log:
        served = serve(log)
        same_batches(served, valid)
        covers(log, served)
        assert log.log_start_offset == case.expected["before"]["earliest"]
        assert log.log_end_offset >= max(facts["next_offset"] for facts in prefixes)
        if case.mode == "clean":
            assert log.log_end_offset == case.expected["before"]["latest"], "a clean stop said where the log ends"
        if not case.expected["damage"]:
            assert log.recovery.intact
            assert served.refused == []


def test_refused_files_are_reported(case, directory):
    """The open reports it where it scanned, the read everywhere. Cut bytes were never valid."""
    with open_log(directory) as log:
        report = log.recovery
        served = serve(log)
        refused = {(error.offset, error.next_offset) for error in served.refused}
        assert {(lost.offset, lost.next_offset) for lost in report.lost_ranges} <= refused
        assert {(found.offset, found.next_offset) for found in report.damage} <= refused
        for error in served.refused:
            assert Path(error.path).parent == directory
            assert 0 <= error.position <= Path(error.path).stat().st_size
        assert report.marks_from == "kafka"
        assert report.cut_bytes == sum(cut.size_bytes for cut in report.cut)
        assert report.clean or report.segments_scanned > 0
        assert case.mode == "clean" or not report.clean


def test_appends_go_on_and_a_clean_stop_is_remembered(case, directory):
    with open_log(directory) as log:
        before = serve(log)
        end = log.log_end_offset
        assert log.append(batch(3)).first_offset == end
    with open_log(directory) as log:
        assert log.recovery.marks_from == "state"
        # Damage that the tail check finds turns it into a scan, even after a clean stop.
        assert log.recovery.clean or {(found.offset, found.next_offset) for found in log.recovery.damage} == {
            (error.offset, error.next_offset) for error in before.refused}
        after = serve(log)
        covers(log, after)
        assert after.batches[:-1] == before.batches
        assert [(error.offset, error.next_offset) for error in after.refused] == [
            (error.offset, error.next_offset) for error in before.refused]
        assert (after.batches[-1].base_offset, log.log_end_offset) == (end, end + 3)


def test_a_crash_right_after_the_open_changes_nothing(case, directory, tmp_path):
    with open_log(directory) as log:
        first = serve(log)
        again = shutil.copytree(directory, tmp_path / "again" / directory.name)
    with open_log(again) as log:
        assert not log.recovery.clean or first.refused or case.mode == "clean"
        assert serve(log).batches == first.batches


def test_aborted_transactions(case, directory):
    valid = read_log(directory)
    with open_log(directory) as log:
        found = [entry[:3] for entry in log.aborted_transactions(0, log.log_end_offset)]
        known = [entry for entry in found if not any(
            damaged[2] <= entry[2] < (damaged[3] if damaged[3] >= 0 else segment.next_base)
            for segment in log.segments for damaged in segment.damage)]
        assert known == markers(valid)
        if case.transactional:
            assert found
        # After a loss the stop's own snapshot shows which transactions are open, so that none hangs.
        if case.mode == "clean" or case.topic != "txn-torn-marker":
            assert log.last_stable_offset == log.high_watermark


def test_epochs(case, directory):
    valid = read_log(directory)
    with open_log(directory) as log:
        assert log.epochs.entries() == epochs(valid)


def test_times(case, directory):
    valid = read_log(directory)
    records = []
    for found in valid:
        decoded = decode(found.data, check_crc=False)
        records += [(decoded.base_offset + record.offset_delta, record.timestamp_ms) for record in decoded.records]
    times = {largest_timestamp(found) for found in valid}
    with open_log(directory) as log:
        for time in [0, *sorted(times), max(times) + 1]:
            expected = next((found for found in records if found[1] >= time), None)
            answer = log.offset_for_time(time, "log_end")
            assert (answer and answer[:2]) == expected, time
        largest = max(time for _, time in records)
        assert log.max_timestamp()[:2] == next(found for found in records if found[1] == largest)


def test_producers(case, directory):
    """The newest batch of each producer is recognized when it is sent again."""
    newest = {}
    for found in read_log(directory):
        decoded = decode(found.data, check_crc=False)
        if decoded.producer_id >= 0 and not decoded.attributes & 0x20:
            newest[decoded.producer_id] = found
    with open_log(directory) as log:
        if serve(log).refused or case.transactional:
            pytest.skip("the newest batches are not readable, or of producer epochs that ended")
        for found in newest.values():
            info = log.append(bytes(8) + found.data[LENGTH_AT:])
            assert info.duplicate
            assert info.first_offset == found.base_offset


def test_unreadable_leader_epoch_checkpoint(tmp_path):
    """Kafka takes its only log directory offline and stops."""
    directory = Case("killed", UNREADABLE_EPOCHS).copy(tmp_path)
    with open_log(directory) as log:
        assert [Path(ignored.path).name for ignored in log.recovery.ignored] == ["leader-epoch-checkpoint"]
        assert [Path(path).name for path in log.recovery.rebuilt] == ["leader-epoch-checkpoint"]
    with open_log(directory) as log:
        assert log.recovery.clean
        assert log.recovery.ignored == []


def test_the_table_of_the_documentation_is_true() -> None:
    assert DOCUMENT.read_text("utf-8").split(BEGIN)[1].split(END)[0] == table()
