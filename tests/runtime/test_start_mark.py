"""A controller that lost its vote or its log does not begin as a new one."""

from pathlib import Path

import pytest

from kraft.runtime.metadata_directory import DIRECTORY_NAME, START_MARK
from kraft.runtime.start_mark import StartMark, check_metadata_log
from kraft_native.errors import CorruptFileError
from tests.golden import golden, needs_golden
from tests.runtime.metadata_nodes import formatted

RECORD = bytes(8) + b"\0\0\0\x01" + bytes(49)


def test_a_formatted_directory_is_new_until_the_mark_is_there(tmp_path: Path) -> None:
    log = formatted(tmp_path) / DIRECTORY_NAME
    assert not check_metadata_log(tmp_path, ()).exists
    (log / f"{0:020}.log").write_bytes(bytes(100))      # opened, with space reserved: no election, no record
    mark = check_metadata_log(tmp_path, ())
    mark.note(records=False)
    with pytest.raises(CorruptFileError, match=r"quorum-state: the vote .* is missing"):
        check_metadata_log(tmp_path, ())
    (log / "quorum-state").write_text("{}")
    assert check_metadata_log(tmp_path, ()).exists, "a vote may come before any record"
    mark.note(records=True)
    mark.note(records=False)
    with pytest.raises(CorruptFileError, match="every record of the metadata log is missing"):
        check_metadata_log(tmp_path, ())
    (log / f"{0:020}.log").write_bytes(RECORD)
    assert check_metadata_log(tmp_path, ()).has_records


@needs_golden
@pytest.mark.parametrize("parts", [("node", "data"), ("quorum", "dynamic", "node-1"), ("quorum", "static", "node-2")])
def test_directories_that_kafka_wrote_have_no_mark_and_start(parts: tuple[str, ...]) -> None:
    assert not check_metadata_log(golden(*parts), (golden(*parts),)).exists


def test_without_a_mark_records_or_partitions_show_an_earlier_start(tmp_path: Path) -> None:
    """Kafka formats a voter of a static quorum without any directory for the log."""
    (tmp_path / "data").mkdir()
    assert not check_metadata_log(tmp_path, (tmp_path / "data",)).exists
    (tmp_path / "data" / "t-0").mkdir()
    with pytest.raises(CorruptFileError, match="the metadata log of this controller is missing"):
        check_metadata_log(tmp_path, (tmp_path / "data",))
    (tmp_path / DIRECTORY_NAME).mkdir()
    assert not check_metadata_log(tmp_path, (tmp_path / "data",)).exists, "formatted with --keep-data"
    (tmp_path / DIRECTORY_NAME / f"{0:020}.log").write_bytes(RECORD)
    with pytest.raises(CorruptFileError, match="the vote of this controller"):
        check_metadata_log(tmp_path, ())


@pytest.mark.parametrize("content", ["", "{}", '{"version":1,"records":true}', "[]"])
def test_a_damaged_mark_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / START_MARK).write_text(content)
    with pytest.raises(CorruptFileError, match=START_MARK):
        StartMark(tmp_path)
