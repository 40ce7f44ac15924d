"""The hash of Kafka's default partitioner."""

import numpy as np
import pytest

from kraft_native.base.errors import InvalidArgumentError
from kraft_native.base.murmur import murmur2_partitions
from tests.golden import golden, load_json, needs_golden


def partitions(keys: list[bytes], count: int) -> list[int]:
    offsets = np.cumsum([0, *map(len, keys)], dtype=np.int32)
    out = np.empty(len(keys), np.int32)
    murmur2_partitions(offsets, b"".join(keys), count, out)
    return out.tolist()


@needs_golden
def test_partitions_are_those_of_kafka() -> None:
    vectors = load_json(golden("vectors.json"))["murmur2"]
    keys = [bytes.fromhex(each["key"]) for each in vectors]
    for count in vectors[0]["partition_of"]:
        assert partitions(keys, int(count)) == [each["partition_of"][count] for each in vectors]


def test_arguments_that_do_not_fit_are_refused() -> None:
    assert partitions([], 3) == [] and partitions([b""], 1) == [0]
    out = np.empty(1, np.int32)
    for offsets, data, count in (([0], b"", 1), ([0, 1], b"", 1), ([1, 0], b"ab", 1), ([-1, 1], b"ab", 1),
                                 ([0, 1], b"a", 0)):
        with pytest.raises(InvalidArgumentError):
            murmur2_partitions(np.array(offsets, np.int32), data, count, out)
