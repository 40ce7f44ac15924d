"""`kraft why topic/partition`: the transaction that holds the last stable offset."""

from typing import cast

import pytest

from kraft.cli import transaction_why
from kraft.cli.transaction_why import transaction_answers
from kraft.client import Cluster, ConnectionFailedError
from kraft.client.transaction_admin import NO_EXPIRY_MS, OpenTransaction, Transaction
from kraft.recorder.why import Answer
from tests.client.operated_cluster import OperatedCluster

NOW_MS = 1_700_000_000_000
HOLDER = OpenTransaction(("t", 0), 7, 3, 0, 120, NOW_MS - 2_000)
LATER = OpenTransaction(("t", 0), 8, 0, 0, 130, NOW_MS - 9_000)
BILLING = Transaction("billing", 7, 3, "Ongoing", 60_000, NOW_MS - 12_300, (("t", 0),), 2)
PRODUCER = "offset 120, where an open transaction of producer 7 in epoch 3 begins. Its last record is 2.0 s old."


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_why, "now_ms", lambda: NOW_MS)


def answers(cluster: OperatedCluster) -> list[Answer]:
    return transaction_answers(cast("Cluster", cluster), [("t", 0), ("t", 1)])


def test_partitions_without_open_transactions_have_no_answer() -> None:
    assert answers(OperatedCluster([BILLING])) == []


def test_the_first_open_transaction_is_the_holder() -> None:
    (answer,) = answers(OperatedCluster([BILLING], [LATER, HOLDER]))
    assert (answer.about, answer.node_id, answer.is_well) == ("transaction", 2, True)
    assert PRODUCER in answer.text
    assert answer.text.endswith("Its transactional id is 'billing', in state Ongoing at broker 2, open for 12.3 s, "
                                "with a time-out of 60.0 s.")


def test_a_transaction_past_its_time_out_is_a_problem() -> None:
    overdue = BILLING._replace(started_ms=NOW_MS - 71_000)
    (answer,) = answers(OperatedCluster([overdue], [HOLDER]))
    assert not answer.is_well


@pytest.mark.parametrize(("known", "text"), [
    ([], "No coordinator knows this producer, so the transaction hangs; "),
    ([BILLING._replace(partitions=(("t", 1),))], "without this partition, so the transaction hangs; ")])
def test_a_hanging_transaction(known: list[Transaction], text: str) -> None:
    (answer,) = answers(OperatedCluster(known, [HOLDER]))
    assert not answer.is_well
    assert f"{text}`kraft transactions abort t/0 --start-offset 120` ends it." in answer.text


def test_a_transaction_that_ends_meanwhile_holds_nothing() -> None:
    assert answers(OperatedCluster([], [HOLDER], ending=(HOLDER.producer_id,))) == []


def test_two_phase_commit_does_not_expire() -> None:
    (answer,) = answers(OperatedCluster([BILLING._replace(timeout_ms=NO_EXPIRY_MS)], [HOLDER]))
    assert answer.is_well
    assert "`kraft transactions abort --transactional-id billing`" in answer.text


def test_a_leader_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object) -> None:
        raise ConnectionFailedError("one:9092: closed")

    monkeypatch.setattr(transaction_why, "open_transactions", fail)
    (answer,) = answers(OperatedCluster())
    assert answer.is_well, "what is unknown is no proof of a problem"
    assert "one:9092: closed" in answer.text
