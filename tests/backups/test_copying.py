"""Files of a partition's batches: those that may be used again, and where a file ends."""

import hashlib
from pathlib import Path
from typing import Final
from uuid import UUID

import pytest

from kraft.backups.copying import PartitionCopier, SegmentFile, before, reusable
from kraft.backups.manifest import PartitionCopy, Segment
from kraft.backups.store import Directory, read
from kraft.client import Cluster
from kraft_native.batch.records import BatchBuilder

WANTED: Final = PartitionCopy("orders", UUID(int=7), 3, 0, 300, 5, ())


@pytest.mark.parametrize(("at", "expected"), [(0, 100), (50, 100), (100, 200), (200, 230), (230, None)])
def test_files_of_earlier_backups(at: int, expected: int | None) -> None:
    """Full ones, and the one that ends where the copy ends."""
    known = [Segment(0, 100, 1, 64, "a"), Segment(0, 50, 1, 30, "b"), Segment(100, 200, 1, 64, "c"),
             Segment(200, 230, 1, 10, "d"), Segment(200, 220, 1, 5, "e"), Segment(200, 300, 1, 64, "f")]
    found = reusable(known, at, 230, 64)
    assert (found.end if found else None) == expected


def test_a_file_that_the_leader_has_lost_is_not_used_again(tmp_path: Path) -> None:
    """Records of epoch 3 end at 100 after an unclean election, those of epoch 4 at 150. Epoch 9 is unknown."""
    with Directory(tmp_path / "store") as store:
        for start, end, epoch in ((0, 100, 3), (100, 120, 3), (100, 150, 4), (150, 160, 4), (0, 50, 9)):
            file = SegmentFile(store, WANTED, start, epoch)
            file.write(memoryview(b"%d" % end))
            file.finish(end)
        (tmp_path / "store" / "segments" / WANTED.topic_id.hex / "3" / "notes.txt").write_text("of somebody")
        copier = PartitionCopier(Cluster("127.0.0.1:9"), store, 1)
        copier._end_of_epoch = lambda _, epoch: {3: 100, 4: 150}.get(epoch, -1)
        assert [(each.start, each.end) for each in copier._known(WANTED)] == [(0, 100), (100, 150)]
        (tmp_path / "store" / WANTED.file(copier._known(WANTED)[0])).write_bytes(b"longer")
        assert [(each.start, each.end) for each in copier._known(WANTED)] == [(100, 150)]


def test_a_file_has_its_digest_in_its_name(tmp_path: Path) -> None:
    with Directory(tmp_path / "store") as store:
        file = SegmentFile(store, WANTED, 10, 2)
        file.write(memoryview(b"one"))
        file.write(memoryview(b"two"))
        segment = file.finish(20)
        assert segment == Segment(10, 20, 2, 6, hashlib.sha256(b"onetwo").hexdigest())
        assert read(store, WANTED.file(segment)) == b"onetwo"
        assert Segment.of(segment.file_name) == segment
        dropped = SegmentFile(store, WANTED, 20, 2)
        dropped.write(memoryview(b"part"))
        dropped.abandon()
        assert list((tmp_path / "store" / "parts").iterdir()) == []


@pytest.mark.parametrize(("end", "batches"), [(0, 0), (1, 1), (3, 1), (4, 2), (99, 2)])
def test_batches_before_an_offset(end: int, batches: int) -> None:
    builder = BatchBuilder()
    for number in range(3):
        builder.append(b"%d" % number, timestamp_ms=1)
    found = [builder.build(0), builder.build(3)]
    assert bytes(before(memoryview(b"".join(found)), end)) == b"".join(found[:batches])
