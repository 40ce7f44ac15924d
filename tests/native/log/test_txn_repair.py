"""An unreadable transaction index of an earlier owner is rebuilt from the batches, also an empty one."""

from pathlib import Path

import pytest

from kraft_native.batch.control import marker
from kraft_native.batch.records import BatchBuilder
from kraft_native.facade.log import Log

GARBAGE = bytes(34)


def transaction(log: Log, producer_id: int, *, commit: bool) -> tuple[int, int]:
    """Append one record and its marker; return their offsets."""
    builder = BatchBuilder(transactional=True)
    builder.append(b"value", b"key", 1_700_000_000_000)
    first = log.append(builder.build(producer_id=producer_id, producer_epoch=0, base_sequence=0)).first_offset
    end = marker(commit=commit, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0,
                 timestamp_ms=1_700_000_000_000)
    return first, log.append(end, origin="coordinator").first_offset


def spoil_index(directory: Path) -> None:
    (directory / "00000000000000000000.txnindex").write_bytes(GARBAGE)


def test_garbage_where_no_entry_belongs(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        transaction(log, 5, commit=True)
    spoil_index(tmp_path)
    with Log(tmp_path) as log:
        assert log.aborted_transactions(0, log.log_end_offset) == []


@pytest.mark.parametrize("look_first", [False, True])
def test_an_abort_behind_garbage(tmp_path: Path, look_first: bool) -> None:
    with Log(tmp_path) as log:
        old = transaction(log, 5, commit=False)
    spoil_index(tmp_path)
    with Log(tmp_path) as log:
        if look_first:
            log.aborted_transactions(0, log.log_end_offset)
        new = transaction(log, 6, commit=False)
        found = [entry[:3] for entry in log.aborted_transactions(0, log.log_end_offset)]
        assert found == [(5, *old), (6, *new)]
