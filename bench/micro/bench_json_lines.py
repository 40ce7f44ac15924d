"""Check of lines of JSON objects, with the positions of two fields. `extra_info` has megabytes a second."""

import numpy as np

from kraft_native.columns.json_lines import gather, scan_lines

LINES = 50_000
LINE = b'{"id": %d, "name": "customer \\u00e9", "price": 12.50, "tags": ["a", "b"], "paid": true}\n'


def test_lines_and_fields(benchmark):
    data = b"".join(LINE % number for number in range(LINES))
    lines, fields = np.empty((LINES, 5), np.int64), np.empty((LINES, 2, 3), np.int64)
    assert benchmark(scan_lines, data, (b"id", b"name"), lines, fields) == (LINES, LINES)
    assert not lines[:, 3].any()
    if benchmark.stats:             # not with --benchmark-disable
        benchmark.extra_info["MB/s"] = round(len(data) / benchmark.stats.stats.median / 1e6)


def test_texts_of_a_field(benchmark):
    data = b"".join(LINE % number for number in range(LINES))
    lines, fields = np.empty((LINES, 5), np.int64), np.empty((LINES, 1, 3), np.int64)
    scan_lines(data, (b"name",), lines, fields)
    found = benchmark(gather, data, fields[:, 0, 0], fields[:, 0, 1], fields[:, 0, 2], np.empty(LINES + 1, np.int32))
    assert found[:11] == "customer é".encode()
