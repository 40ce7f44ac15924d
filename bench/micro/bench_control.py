"""Control batches: building a transaction's marker, and reading the records of a segment of them."""

from kraft_native.batch.control import control_records, marker

MARKERS = 1_000


def made(offset):
    return marker(commit=True, producer_id=offset, producer_epoch=0, coordinator_epoch=0,
                  timestamp_ms=1_700_000_000_000, base_offset=offset)


def test_marker(benchmark):
    assert len(benchmark(made, 7)) == 78


def test_read(benchmark):
    data = b"".join(map(made, range(MARKERS)))
    assert len(benchmark(control_records, data)) == MARKERS
