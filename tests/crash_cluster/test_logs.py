"""Faults of the log that the campaign attributes to its clients."""

from kraft.testing.history import code_of
from kraft_native.batch.records import BatchBuilder
from tests.crash_cluster.clients import VALUE
from tests.crash_cluster.logs import sent_again

PARTITION = 2


def batch(offset: int, sequence: int, *, producer_id: int = 5, epoch: int) -> bytes:
    builder = BatchBuilder()
    builder.append(VALUE.pack(1, PARTITION, sequence), None, 0)
    return builder.build(offset, producer_id=producer_id, producer_epoch=epoch, base_sequence=0)


def test_a_later_epoch_is_the_clients_and_no_other() -> None:
    first, again = batch(0, 7, epoch=0), batch(1, 7, epoch=1)
    assert sent_again(first + again, PARTITION) == {code_of(1, 7)}
    assert sent_again(first + again + batch(2, 7, epoch=2), PARTITION) == {code_of(1, 7)}
    for other in (batch(2, 7, epoch=1), batch(2, 7, epoch=0)):
        assert sent_again(first + again + other, PARTITION) == set(), "the cluster's, whatever else there is"
    assert sent_again(first + batch(1, 7, producer_id=6, epoch=1), PARTITION) == set(), "another producer"
    assert sent_again(first + batch(1, 8, epoch=1), PARTITION) == set()
