"""Files of the flight recorder: bounded, readable after any end of the process, and never a reason to stop."""

import os
from pathlib import Path

import pytest

from kraft.recorder.entry import STATE, Entry
from kraft.runtime.quorum.recorder_file import NAME, OLD_NAME, RecorderFile, read_entries


def entry(number: int, what: str = "becomes") -> Entry:
    return Entry(1000 + number, 1, number, what, {"epoch": number})


def test_entries_exist_as_soon_as_they_are_written(tmp_path: Path) -> None:
    file = RecorderFile(tmp_path)
    written = [entry(number) for number in range(5)]
    for each in written:
        file.write(each)
    assert list(read_entries(tmp_path)) == written      # no file was closed, as after kill -9
    file.close()
    file = RecorderFile(tmp_path)
    file.write(entry(5))
    file.close()
    assert list(read_entries(tmp_path)) == [*written, entry(5)]


def test_two_files_of_bounded_size_the_newer_of_which_begins_with_the_state(tmp_path: Path) -> None:
    file = RecorderFile(tmp_path, bytes_max=1000)
    file.state = lambda: entry(-1, STATE)
    for number in range(200):
        file.write(entry(number))
    file.close()
    assert max(os.path.getsize(tmp_path / name) for name in (NAME, OLD_NAME)) < 1200
    assert sorted(os.listdir(tmp_path)) == [OLD_NAME, NAME]
    assert (tmp_path / NAME).read_text().splitlines()[0] == entry(-1, STATE).line
    found = [each for each in read_entries(tmp_path) if each.what != STATE]
    assert found == [entry(number) for number in range(200 - len(found), 200)]


def test_leftovers_of_a_machine_crash_are_passed_over(tmp_path: Path) -> None:
    good = entry(1).line.encode()
    (tmp_path / NAME).write_bytes(good + b"\n" + bytes(300) + b"\n" + good[:20] + b"\n\xff\xfe\n" + good + b"\n")
    assert list(read_entries(tmp_path)) == [entry(1), entry(1)]


def test_a_disk_that_accepts_no_write_is_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = RecorderFile(tmp_path / "missing")
    assert not file.is_open
    file.write(entry(1))
    file.write(entry(2))
    file.close()
    assert len(caplog.records) == 1
    assert "flight-recorder.jsonl cannot be written" in caplog.text
