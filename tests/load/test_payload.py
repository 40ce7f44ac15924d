"""Keys and values of batches: their distribution, their partition, their files."""

from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from kraft.load.errors import InvalidWorkloadError
from kraft.load.payload import FILE_BYTES_MAX, Batch, keys_of, parse_keys, values_of
from kraft.load.workload import Place, Workload
from kraft_native.batch.batch import first_batch
from kraft_native.batch.records import Record, records


def murmur2(data: bytes) -> int:
    """Hash of Kafka's default partitioner, from its description."""
    mixer, mask = 0x5BD1E995, 0xFFFFFFFF
    hashed = (0x9747B28C ^ len(data)) & mask
    for place in range(0, len(data) // 4 * 4, 4):
        word = int.from_bytes(data[place:place + 4], "little") * mixer & mask
        hashed = (hashed * mixer & mask) ^ ((word ^ word >> 24) * mixer & mask)
    rest = data[len(data) // 4 * 4:]
    if rest:
        hashed = (hashed ^ int.from_bytes(rest, "little")) * mixer & mask
    hashed = (hashed ^ hashed >> 13) * mixer & mask
    return hashed ^ hashed >> 15


def drawn(text: str, partition: int = 0, partitions: int = 1, count: int = 20_000) -> list[bytes]:
    return [key for key in islice(keys_of(text, partition, partitions, 1), count) if key is not None]


def test_random_keys_are_equally_frequent() -> None:
    counts = Counter(drawn("random:100"))
    assert len(counts) == 100
    assert max(counts.values()) < 2 * min(counts.values())


def test_the_first_keys_of_a_zipf_distribution_are_the_most_frequent() -> None:
    """Key i of 100 has the share 1 / (i * 5.187) where the exponent is 1."""
    counts = Counter(drawn("zipf:100:1"))
    for number in (1, 2, 4):
        assert counts[b"key-%08d" % (number - 1)] == pytest.approx(20_000 / number / 5.187, rel=0.1)


@pytest.mark.parametrize("keys", ["random:500", "zipf:500", "fixed"])
def test_keys_belong_to_their_partition(keys: str) -> None:
    for partition in range(7):
        found = set(drawn(keys, partition, 7, 2_000))
        assert {(murmur2(key) & 0x7FFFFFFF) % 7 for key in found} == {partition}
        assert (len(found) == 1) == (keys == "fixed")


def test_a_cycle_draws_all_keys_in_turn() -> None:
    assert drawn("cycle:3", count=7) == [b"key-%08d" % number for number in (0, 1, 2, 0, 1, 2, 0)]


def test_a_whole_file_is_one_value(tmp_path: Path) -> None:
    file = tmp_path / "value"
    file.write_bytes(b"two\nlines\n")
    [batch] = Workload("produce", payload_file=str(file), whole_file=True).batches(Place("t", 0, 1))
    assert [record.value for record in contents(batch)] == [b"two\nlines\n"]


def test_no_keys() -> None:
    assert drawn("none") == []


@pytest.mark.parametrize("text", ["", "zipf", "random", "random:0", "random:1000001", "zipf:5:-1", "zipf:5:nan",
                                  "zipf:5:1:2", "fixed:1", "random:x", "none:1", "cycle", "cycle:1:2"])
def test_an_unknown_distribution_is_refused(text: str) -> None:
    with pytest.raises(InvalidWorkloadError, match=f"^keys: '{text}'"):
        parse_keys(text)


def test_a_partition_without_a_key_is_named() -> None:
    with pytest.raises(InvalidWorkloadError, match=r"^keys: none of random:2 belongs to partition \d of 9"):
        for partition in range(9):
            keys_of("random:2", partition, 9, 1)


def test_lines_of_a_file_are_the_values(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"one\n\nthree \xff\n")
    workload = Workload("produce", payload_file=str(file), pool=4)
    assert [record.value for batch in workload.batches(Place("t", 0, 1)) for record in contents(batch)] == [
        b"one", b"", b"three \xff", b"one"]


def test_values_have_the_lengths_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "lengths"
    file.write_text("5\n 0\n1000")
    workload = Workload("produce", payload_lengths=str(file), batch_bytes=1500, pool=3)
    pool = workload.batches(Place("t", 0, 1))
    lengths = [len(record.value or b"") for batch in pool for record in contents(batch)]
    assert lengths[:6] == [5, 0, 1000, 5, 0, 1000]
    assert all(len(batch.data) <= 1500 + 1000 for batch in pool)
    assert [batch.records for batch in pool] == [len(contents(batch)) for batch in pool]


@pytest.mark.parametrize(("text", "says"), [
    ("", "is empty"), ("5\n-1", "line 2 .* is '-1'"), ("5\nfive", "line 2"), ("5\n\n", "line 2"),
    ("99999999999", "line 1")])
def test_a_file_that_holds_no_lengths_is_refused(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "lengths"
    file.write_text(text)
    with pytest.raises(InvalidWorkloadError, match=f"^payload_lengths: .*{says}"):
        Workload("produce", payload_lengths=str(file)).batches(Place("t", 0, 1))


def test_a_file_that_cannot_be_read_or_is_too_large_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidWorkloadError, match=r"^payload_file: .* cannot be read: Is a directory"):
        values_of(1, 1.0, str(tmp_path), "", 1)
    file = tmp_path / "large"
    with file.open("wb") as sparse:
        sparse.truncate(FILE_BYTES_MAX + 1)
    with pytest.raises(InvalidWorkloadError, match=r"^payload_file: .* is larger than"):
        values_of(1, 1.0, str(file), "", 1)


def test_a_part_of_a_value_is_random() -> None:
    value = next(values_of(1000, 0.3, "", "", 1))
    assert len(value) == 1000
    assert value[300:] == bytes(700)
    assert value[:300].count(0) < 20


@pytest.mark.parametrize("keys", ["none", "random:50"])
def test_the_first_value_of_each_batch_has_room_for_a_stamp(tmp_path: Path, keys: str) -> None:
    file = tmp_path / "lines"
    file.write_text("short\na much longer line than that\n\n")
    workload = Workload("end-to-end", payload_file=str(file), batch_bytes=200, keys=keys, pool=5)
    for batch in workload.batches(Place("t", 0, 1), stamped=True):
        value = contents(batch)[0].value
        assert value is not None and len(value) >= 8
        assert batch.data[batch.stamp:].startswith(value)


def test_a_pool_is_bounded_over_all_connections(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"x" * 1_000_000)
    assert len(Workload("produce", payload_file=str(file)).batches(Place("t", 0, 1))) == 68
    assert len(Workload("produce", connections=100, keys="random:9").batches(Place("t", 0, 1))) == 100
    assert len(Workload("produce", connections=10_000, keys="fixed").batches(Place("t", 0, 1))) == 1
    assert len(Workload("produce").batches(Place("t", 0, 1))) == 1


def contents(batch: Batch) -> list[Record]:
    return list(records(first_batch(batch.data)))
