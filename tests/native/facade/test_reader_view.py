"""Reader without an owner, beside a log that opens the same files: both agree in everything, and the reader writes
nothing."""

import atexit
import functools
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_native.facade.log import Log
from kraft_native.facade.reader import LogReader
from kraft_native.file.buffer import counters
from kraft_native.log.recovery_report import RecoveryReport
from tests.golden import needs_golden
from tests.native.log.test_damage import damages
from tests.native.log.test_recovery import compacted
from tests.native.logs import START_MS, batch, read_all
from tests.native.recovery_logs import ROUNDS, config, flip, killed, segments, template
from tests.native.unclean_cases import Case, cases, open_log, serve

TIMES = [START_MS + delta for delta in range(-10, 100 * ROUNDS + 500, 90)]


def name_of(path: str) -> str:
    return Path(path).name.removesuffix(".swap")


def facts(source: Log | LogReader, report: RecoveryReport, times: list[int]) -> dict[str, object]:
    end = source.log_end_offset
    served = serve(source, "high_watermark")
    return {
        "bounds": (source.log_start_offset, end, source.high_watermark, source.last_stable_offset),
        "batches": [(found.base_offset, found.data) for found in served.batches],
        "refused": [(name_of(error.path), error.position, error.offset, error.next_offset, error.what)
                    for error in served.refused],
        "damage": [(name_of(found.path), *found[1:]) for found in report.damage],
        "cut": [(name_of(found.path), *found[1:]) for found in report.cut],
        "lost": report.lost_ranges,
        "clean": report.clean,
        "times": [source.offset_for_time(time) for time in times],
        "committed": [source.offset_for_time(time, "read_committed") for time in times],
        "aborted": [source.aborted_transactions(first, first + 9) for first in range(0, end, 4)],
    }


def listing(directory: Path) -> dict[str, tuple[int, int]]:
    return {path.name: (path.stat().st_mtime_ns, path.stat().st_size) for path in directory.iterdir()}


def agree(directory: Path, opened: Log, times: list[int] = TIMES) -> dict[str, Any]:
    """Check that both agree; `opened` is of a copy of the directory."""
    before = listing(directory)
    with opened as log:
        wanted = facts(log, log.recovery, times)
    with LogReader(directory, cleanup_policy=opened.config.cleanup_policy) as reader:
        report = reader.recovery
        assert report is not None
        assert facts(reader, report, times) == wanted
    assert listing(directory) == before
    return wanted


def beside(directory: Path) -> Path:
    return Path(shutil.copytree(directory, directory.parent / "opened" / directory.name))


@pytest.mark.parametrize("stop", ["clean", "killed"])
@given(st.data())
def test_whatever_happens_to_files_a_reader_sees_what_an_open_finds(stop, data):
    with tempfile.TemporaryDirectory() as top:
        if stop == "clean":
            directory = Path(shutil.copytree(template(), Path(top) / "log-0"))
        else:
            directory = Path(shutil.copytree(killed_template(), Path(top) / "log-0"))
        for name, content in data.draw(st.lists(damages(), min_size=1, max_size=2)):
            if content is None:
                (directory / name).unlink(missing_ok=True)
            else:
                (directory / name).write_bytes(content)
        agree(directory, Log(beside(directory), config()))


@functools.cache
def killed_template() -> Path:
    """Return a killed log, with the names of `template` and more: damages are drawn from those."""
    top = Path(tempfile.mkdtemp(prefix="kraft-killed-"))
    atexit.register(shutil.rmtree, top)
    return killed(top)


@needs_golden
@pytest.mark.parametrize("case", cases(), ids=str)
def test_the_damage_cases_of_kafka(case: Case, tmp_path):
    (tmp_path / "read").mkdir()
    (tmp_path / "opened").mkdir()
    directory, other = case.copy(tmp_path / "read"), case.copy(tmp_path / "opened")
    with open_log(shutil.copytree(other, tmp_path / "times" / other.name)) as log:
        largest = log.max_timestamp()[1]
    agree(directory, open_log(other), [0, largest - 50, largest, largest + 1])


@pytest.mark.parametrize("step", ["nothing", "one source", "all sources", "log renamed", "damaged"])
def test_a_swap_that_began_counts_without_being_finished(tmp_path, step):
    directory = Path(shutil.copytree(template(), tmp_path / "log-0"))
    _, base, sources = compacted(directory)
    if step == "damaged":
        flip(directory / f"{base:020d}.log.swap", 80)
    elif step != "nothing":
        for path in sources[:1] if step == "one source" else sources:
            path.unlink()
    if step == "log renamed":
        (directory / f"{base:020d}.log.swap").rename(directory / f"{base:020d}.log")
    agree(directory, Log(beside(directory), config(cleanup_policy="compact")))


def test_a_set_that_is_not_complete_does_not_count(tmp_path):
    directory = Path(shutil.copytree(template(), tmp_path / "log-0"))
    _, base, _ = compacted(directory)
    (directory / f"{base:020d}.log.swap").rename(directory / f"{base:020d}.log.cleaned")
    agree(directory, Log(beside(directory), config(cleanup_policy="compact")))


def test_a_lost_sealed_tail_is_reported_with_file_and_position(tmp_path):
    directory = killed(tmp_path)
    path, following = segments(directory)[:2]
    data = path.read_bytes()
    path.write_bytes(data[:-30])
    seen = agree(directory, Log(beside(directory), config()))
    assert [refused[0] for refused in seen["refused"]] == [path.name]
    assert seen["refused"][0][3] == int(following.stem)


def test_reading_goes_on_behind_damage_in_the_last_segment(tmp_path):
    directory = killed(tmp_path)
    flip(segments(directory)[-1], 90)
    seen = agree(directory, Log(beside(directory), config()))
    assert len(seen["refused"]) == 1
    assert seen["batches"][-1][0] > seen["refused"][0][3] - 1


@pytest.mark.parametrize("change", ["lost", "wrong"])
def test_transaction_indexes_are_checked(tmp_path, change):
    directory = Path(shutil.copytree(template(), tmp_path / "log-0"))
    indexes = sorted(path for path in directory.glob("*.txnindex") if path.stat().st_size > 0)
    assert indexes
    for path in indexes:
        if change == "lost":
            path.unlink()
        else:
            flip(path, 9)
    seen = agree(directory, Log(beside(directory), config()))
    assert any(seen["aborted"])


def test_an_epoch_that_contradicts_the_cache_is_refused(tmp_path):
    directory = Path(shutil.copytree(template(), tmp_path / "log-0"))
    flip(segments(directory)[1], 15)
    assert len(agree(directory, Log(beside(directory), config()))["refused"]) == 1


def test_two_segments_at_most_are_in_memory(tmp_path):
    directory = Path(shutil.copytree(template(), tmp_path / "log-0"))
    before = counters()["mapped_bytes"]
    largest = max(path.stat().st_size for path in segments(directory))
    with LogReader(directory) as reader:
        serve(reader, "high_watermark")
        indexes = sum(path.stat().st_size for path in directory.glob("*index"))
        assert counters()["mapped_bytes"] - before <= 2 * largest + indexes
    assert counters()["mapped_bytes"] == before


def bytes_read() -> int:
    """Return the bytes that this process has read by system calls so far."""
    [line] = [line for line in Path("/proc/self/io").read_text().splitlines() if line.startswith("rchar")]
    return int(line.split()[1])


def test_of_a_log_that_was_closed_the_end_is_read(tmp_path):
    """Only the end of the last segment is read; earlier bytes are read on demand."""
    directory = tmp_path / "log-0"
    with Log(directory, config(segment_bytes=64 << 20)) as log:
        for _ in range(100):
            log.append(batch(value=b"v" * 80_000))
        expected = read_all(log)
    before = bytes_read()
    with LogReader(directory) as reader:
        assert bytes_read() - before < 1_000_000
        assert (reader.log_end_offset, reader.recovery.clean) == (100, True)
        # Downwards, so that each read needs more of the bytes that were not read yet.
        pieces = [bytes(reader.read(offset, 1)) for offset in range(99, -1, -1)]
        assert b"".join(reversed(pieces)) == expected
        assert bytes_read() - before < 2 * len(expected)


def test_a_file_that_was_replaced_is_read_as_it_was_found(tmp_path):
    """Kafka's cleaner replaces segments and does not announce it in a live page: a copy must not mix two files."""
    directory = tmp_path / "log-0"
    with Log(directory, config(segment_bytes=64 << 20)) as log:
        for _ in range(20):
            log.append(batch(value=b"v" * 8_000))
        expected = read_all(log)
    with LogReader(directory) as reader:
        assert reader.log_end_offset == 20
        [segment] = segments(directory)
        other = segment.with_suffix(".other")
        other.write_bytes(bytes(segment.stat().st_size))
        other.rename(segment)
        assert b"".join(bytes(reader.read(offset, 1)) for offset in range(20)) == expected
