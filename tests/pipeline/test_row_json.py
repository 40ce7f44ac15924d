"""Rows as JSON: each value exactly, independent of the rows beside it."""

import json
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.pipeline.row_json import check_kinds, lines_of
from kraft_native.base.errors import InvalidArgumentError


def lines(column: pa.Array) -> list[str]:
    return [line.decode() for line in lines_of(pa.RecordBatch.from_arrays([column], ["v"]), ["v"]).to_pylist()]


@pytest.mark.parametrize(("values", "kind", "texts"), [
    ([2**63 - 1, None, -2**63], pa.int64(), ["9223372036854775807", "null", "-9223372036854775808"]),
    ([2**64 - 1], pa.uint64(), ["18446744073709551615"]),
    ([1e-12, 1.0, -0.0, 1e300, 0.1], pa.float64(), ["1e-12", "1.0", "-0.0", "1e+300", "0.1"]),
    ([math.nan, math.inf, -math.inf, None], pa.float64(), ['"NaN"', '"Infinity"', '"-Infinity"', "null"]),
    ([0.1, None], pa.float32(), ["0.1", "null"]),
    ([Decimal("123456789012345678.90"), None], pa.decimal128(20, 2), ["123456789012345678.90", "null"]),
    (["01234", 'a"\\\n\x00/é\u2028😀', None, ""], pa.string(),
     ['"01234"', '"a\\"\\\\\\n\\u0000/é\u2028😀"', "null", '""']),
    ([True, None, False], pa.bool_(), ["true", "null", "false"]),
    ([1, None, -1], pa.timestamp("us"), ['"1970-01-01T00:00:00.000001"', "null", '"1969-12-31T23:59:59.999999"']),
    ([1], pa.timestamp("ns", "Europe/Berlin"), ['"1970-01-01T00:00:00.000000001Z"']),
    ([1], pa.timestamp("s", "UTC"), ['"1970-01-01T00:00:01Z"']),
    ([1, None], pa.date32(), ['"1970-01-02"', "null"]),
    ([1], pa.time64("us"), ['"00:00:00.000001"']),
    ([90_061, None], pa.duration("us"), ["90061", "null"]),
    ([[1, None], None, []], pa.list_(pa.int64()), ["[1,null]", "null", "[]"]),
    ([[1, 2], None], pa.list_(pa.int8(), 2), ["[1,2]", "null"]),
    ([{"a": 1, "b": [{"c": "x"}]}, None],
     pa.struct([("a", pa.int8()), ("b", pa.list_(pa.struct([("c", pa.string())])))]),
     ['{"a":1,"b":[{"c":"x"}]}', "null"]),
    ([[("k\n", 1), ("l", None)], None, []], pa.map_(pa.string(), pa.int64()), ['{"k\\n":1,"l":null}', "null", "{}"]),
    ([None, None], pa.null(), ["null", "null"]),
    (["x", None], pa.dictionary(pa.int8(), pa.string()), ['"x"', "null"]),
])
def test_each_value_is_written_exactly(values: list[Any], kind: pa.DataType, texts: list[str]) -> None:
    """The values are in one column, alone, and in a slice of a column."""
    number = pa.int32() if kind == pa.date32() else pa.int64()
    column = pa.array(values, number).cast(kind) if pa.types.is_temporal(kind) else pa.array(values, kind)
    wanted = [f'{{"v":{text}}}' for text in texts]
    assert lines(column) == wanted
    assert [lines(column.slice(at, 1))[0] for at in range(len(column))] == wanted
    assert all(json.loads(line) for line in wanted)


@given(st.lists(st.floats(), min_size=1), st.lists(st.text(), min_size=1), st.lists(st.integers(-2**63, 2**63 - 1)))
def test_another_parser_reads_the_same_values(floats: list[float], texts: list[str], numbers: list[int]) -> None:
    for value, line in zip(floats, lines(pa.array(floats)), strict=True):
        found = json.loads(line)["v"]
        assert repr(float(found)) == repr(value)
        assert math.isfinite(value) == isinstance(found, float)
    sound = [text.encode(errors="replace").decode() for text in texts]
    assert [json.loads(line)["v"] for line in lines(pa.array(sound, pa.string()))] == sound
    assert [json.loads(line)["v"] for line in lines(pa.array([*numbers, None], pa.int64()))] == [*numbers, None]


def test_values_without_a_json_form_are_refused() -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.struct([("c", pa.binary())]))])
    check_kinds(schema, ["a"])
    with pytest.raises(InvalidArgumentError, match=r"column b\.c: JSON has no form for binary"):
        check_kinds(schema, ["a", "b"])
    for unit in ("s", "us"):
        late = pa.array([253_402_300_800 * {"s": 1, "us": 1_000_000}[unit]], pa.timestamp(unit))
        with pytest.raises(InvalidArgumentError, match="after 9999"):
            lines(late)


def test_a_row_without_columns_is_an_empty_object() -> None:
    rows = pa.RecordBatch.from_arrays([pa.array([1, 2])], ["p"])
    assert lines_of(rows, []).to_pylist() == [b"{}", b"{}"]
