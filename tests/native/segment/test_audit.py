"""The walk over a log file of another owner: sizes around the window, damage, files that change meanwhile."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_native.base.errors import InvalidArgumentError, StorageError
from kraft_native.batch.batch import LEADER_EPOCH_AT, LENGTH_AT, OVERHEAD_BYTES, walk
from kraft_native.batch.control import marker
from kraft_native.batch.records import BatchBuilder
from kraft_native.segment.audit import SegmentAudit
from tests.oracle import audit as oracle

WINDOW = 4096


def batch(base_offset: int, size: int = 10, count: int = 2, **fields: int) -> bytes:
    builder = BatchBuilder()
    for _ in range(count):
        builder.append(bytes(size // count), timestamp_ms=1_000 + base_offset)
    return builder.build(base_offset, **fields)


def examine(path: Path, **options: int) -> tuple[SegmentAudit, bytes]:
    """Return the finished walk and all stretches combined."""
    data = b""
    with SegmentAudit(path, options.pop("base_offset", 0), window_bytes=WINDOW, **options) as audit:
        while audit.step():
            assert audit.stretch_bytes == len(audit.stretch())
            data += audit.stretch()
    assert audit.sound_bytes == len(data)
    return audit, data


@pytest.mark.parametrize("size", [0, 100, WINDOW - 100, WINDOW - 70, WINDOW, WINDOW + 1, 3 * WINDOW, 10 * WINDOW])
def test_batches_of_all_sizes(tmp_path: Path, size: int) -> None:
    path = tmp_path / "0.log"
    whole = b"".join(batch(2 * number, size if number % 3 == 1 else 10) for number in range(30))
    path.write_bytes(whole)
    audit, data = examine(path)
    assert data == whole
    assert (audit.batch_count, audit.record_count, audit.next_offset, audit.damage) == (30, 60, 60, [])
    assert (audit.min_timestamp_ms, audit.max_timestamp_ms) == (1_000, 1_058)


@given(st.data())
def test_damage_as_the_oracle_sees_it(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Batches of many sizes, some bytes changed, the end cut off: the walk finds and loses what a byte-by-byte
    search does."""
    sizes = data.draw(st.lists(st.sampled_from([2, 50, 300, 3_000, 5_000, 9_000]), min_size=1, max_size=8))
    whole = bytearray(b"".join(batch(2 * number, size) for number, size in enumerate(sizes)))
    for position in data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=4)):
        whole[position] ^= data.draw(st.integers(1, 255))
    del whole[data.draw(st.integers(0, len(whole))):]
    path = tmp_path_factory.getbasetemp() / "oracle.log"
    path.write_bytes(whole)
    audit, sound = examine(path)
    expected = oracle.examine(bytes(whole), 0, 2**31)
    assert [damaged[:4] for damaged in audit.damage] == expected.damage
    assert sound == expected.sound


def test_a_large_batch_with_a_wrong_checksum(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    large = bytearray(batch(2, 5 * WINDOW))
    large[-1] ^= 1
    path.write_bytes(batch(0) + large + batch(4))
    audit, data = examine(path)
    assert data == batch(0) + batch(4)
    assert [damaged[:4] for damaged in audit.damage] == [(len(batch(0)), len(batch(0)) + len(large), 2, 4)]


def test_a_length_that_claims_the_rest_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    rest = b"".join(batch(2 * number) for number in range(1, 100))
    broken = bytearray(batch(0))
    broken[LENGTH_AT:LEADER_EPOCH_AT] = (len(broken) + len(rest) - OVERHEAD_BYTES).to_bytes(4, "big")
    path.write_bytes(broken + rest)
    audit, data = examine(path)
    assert data == rest
    assert len(audit.damage) == 1


def test_without_checksums(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    broken = bytearray(batch(0) + batch(2, 5 * WINDOW))
    broken[-1] ^= 1
    path.write_bytes(broken)
    audit, _ = examine(path, check_crc=False)
    assert (audit.batch_count, audit.damage) == (2, [])


def test_offsets_stay_in_the_segment(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(batch(10) + batch(12) + batch(14))
    assert examine(path, base_offset=10, next_base=16)[0].damage == []
    assert [d[2:4] for d in examine(path, base_offset=10, next_base=15)[0].damage] == [(14, -1)]
    assert [d[2:4] for d in examine(path, base_offset=11)[0].damage] == [(11, 12)]


def test_events(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    transactional = BatchBuilder(transactional=True)
    transactional.append(b"x", timestamp_ms=0)
    pieces = [batch(0, leader_epoch=3)]
    for offset, producer in ((2, 7), (3, 7), (4, 8), (5, 7)):
        pieces.append(transactional.build(offset, leader_epoch=3, producer_id=producer, producer_epoch=0,
                                          base_sequence=0))
    for offset, producer, commit in ((6, 7, True), (7, 8, False)):
        pieces.append(marker(commit=commit, producer_id=producer, producer_epoch=0, coordinator_epoch=1, timestamp_ms=5,
                             base_offset=offset, leader_epoch=5))
    path.write_bytes(b"".join(pieces))
    with SegmentAudit(path, 0) as audit:
        assert audit.step()
        events = [(kind, offset, value) for kind, _, offset, value in audit.take_events()]
        assert not audit.take_events()
    assert events == [("epoch", 0, 3), ("data", 2, 7), ("data", 4, 8), ("data", 5, 7), ("epoch", 6, 5),
                      ("commit", 6, 7), ("abort", 7, 8)]
    assert audit.control_batch_count == 2


def test_many_events_end_a_stretch_early(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(b"".join(batch(2 * number, leader_epoch=number) for number in range(9_000)))
    epochs = []
    with SegmentAudit(path, 0) as audit:
        while audit.step():
            epochs += [value for _, _, _, value in audit.take_events()]
    assert epochs == list(range(9_000))


def test_a_file_that_is_cut_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    one = batch(0, 1_000)
    path.write_bytes(b"".join(batch(2 * number, 1_000) for number in range(50)))
    with SegmentAudit(path, 0, window_bytes=WINDOW) as audit:
        assert audit.step()
        with path.open("r+b") as file:
            file.truncate(10 * len(one))
        while audit.step():
            pass
    assert (audit.batch_count, audit.end_bytes, audit.damage) == (10, 10 * len(one), [])


def test_an_end_that_the_owner_set(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(batch(0) + batch(2) + b"\0" * 100)
    audit, data = examine(path, end_bytes=2 * len(batch(0)))
    assert (len(list(walk(data))), audit.damage) == (2, [])


@pytest.mark.parametrize("room", [1, 12, 61, 5 * WINDOW])
def test_room_that_an_owner_left(tmp_path: Path, room: int) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(batch(0) + bytes(room))
    audit, data = examine(path, zeros_end=True)
    assert (data, audit.damage, audit.reserved_bytes, audit.end_bytes) == (batch(0), [], room, len(data))
    path.write_bytes(batch(0) + bytes(room) + b"\1")
    audit, data = examine(path, zeros_end=True)
    assert [damaged[:2] for damaged in audit.damage] == [(len(data), len(data) + room + 1)]
    path.write_bytes(batch(0) + bytes(room) + batch(2))
    assert examine(path, zeros_end=True)[1] == batch(0) + batch(2)


def test_arguments(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    with pytest.raises(StorageError):
        SegmentAudit(path, 0)
    path.touch()
    with pytest.raises(InvalidArgumentError):
        SegmentAudit(path, -1)
    with pytest.raises(InvalidArgumentError):
        SegmentAudit(path, 0, window_bytes=1)
    audit = SegmentAudit(path, 0)
    assert not audit.step()
    audit.close()
    audit.close()


def test_a_stretch_ends_before_the_batch_that_reaches_an_offset(tmp_path: Path) -> None:
    """This also holds for a batch larger than the window; the walk continues where it stopped."""
    path = tmp_path / "0.log"
    whole = [batch(0), batch(2), batch(4, 3 * WINDOW), batch(6)]
    path.write_bytes(b"".join(whole))
    with SegmentAudit(path, 0, window_bytes=WINDOW) as audit:
        for until, expected in ((1, b""), (3, whole[0]), (4, whole[1]), (5, b""), (6, whole[2]), (100, whole[3])):
            data = b""
            while audit.step(until):
                data += audit.stretch()
            assert data == expected, until
            assert audit.held_back == (until < 100)
        assert (audit.batch_count, audit.damage) == (4, [])


def test_a_walk_begins_where_an_index_says_if_a_batch_is_there(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    whole = [batch(2 * number) for number in range(10)]
    path.write_bytes(b"".join(whole))
    place = len(whole[0])
    for position, offset, found in ((3 * place, 7, True), (3 * place, 5, False), (3 * place + 1, 7, False),
                                    (0, 7, False), (100 * place, 7, False)):
        with SegmentAudit(path, 0, window_bytes=WINDOW) as audit:
            assert audit.seek(position, offset) is found
            while audit.step():
                pass
            assert (audit.batch_count, audit.damage) == (7 if found else 10, [])
