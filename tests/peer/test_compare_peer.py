"""The same requests to our node and to Kafka's, as far as a clock has no part in the answers.

`make compare` sends more, also about groups that rebalance.
"""

from pathlib import Path

import pytest

from tests.compare import access
from tests.compare.node import both_nodes
from tests.compare.run import Comparison, comparable
from tests.peer.kafka import require_kafka

pytestmark = pytest.mark.peer

ROWS = range(16)
QUESTIONS = 60
WITH_TIMES = {"JoinGroup", "SyncGroup"}
TRANSACTIONAL = {"AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "WriteTxnMarkers", "TxnOffsetCommit"}
APIS_MIN = 40


def test_both_answer_the_same(tmp_path: Path) -> None:
    require_kafka()
    with both_nodes(tmp_path) as (ours, theirs):
        apis = [name for name in comparable(ours, theirs) if name not in WITH_TIMES]
        assert len(apis) >= APIS_MIN
        comparison = Comparison(ours, theirs, [name for name in apis if name not in TRANSACTIONAL])
        found = [str(each) for seed in ROWS for each in comparison.row(seed, QUESTIONS)]
        transactions = Comparison(ours, theirs, [name for name in apis if name in TRANSACTIONAL | {"InitProducerId"}])
        found += [str(each) for seed in ROWS for each in transactions.row(1000 + seed, QUESTIONS)]
    assert not found, "\n".join(found)
    assert comparison.requested > len(ROWS) * QUESTIONS // 2, "rows end early when Kafka meets a fault of its own"


def test_both_refuse_the_same(tmp_path: Path) -> None:
    """Every API without an ACL, with those that it needs, denied, from another host, for another resource."""
    require_kafka()
    found = access.cases()
    assert len({case.sample.key for case in found}) > APIS_MIN
    with access.both_secured(tmp_path, found) as (ours, theirs):
        differences = list(access.compare(ours, theirs, found))
    assert not differences, "\n".join(differences)
