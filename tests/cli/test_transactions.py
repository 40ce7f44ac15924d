"""`kraft transactions`, on a cluster in memory."""

import json
from typing import Any

import pytest

from kraft.cli import transactions
from kraft.cli.command import run
from kraft.client.connection import ConnectionFailedError
from kraft.client.transaction_admin import NO_EXPIRY_MS, OpenTransaction, Transaction
from kraft.protocol.messages.list_transactions_request import ListTransactionsRequest
from kraft.recorder.entry import Entry
from tests.client.operated_cluster import OperatedCluster

NOW_MS = 1_700_000_000_000
BILLING = Transaction("billing", 7, 3, "Ongoing", 60_000, NOW_MS - 12_300, (("t", 0), ("t", 1)), 2)
LEDGER = Transaction("ledger", 8, 0, "Ongoing", NO_EXPIRY_MS, NOW_MS - 100_000, (("t", 2),), 1)
IDLE = Transaction("idle", 9, 0, "CompleteCommit", 60_000, -1, (), 1)
KNOWN = OpenTransaction(("t", 0), 7, 3, 0, 120, NOW_MS - 2_000_000)
LOST = OpenTransaction(("t", 1), 55, 2, 4, 30, NOW_MS - 2_000_000)
YOUNG = OpenTransaction(("t", 1), 56, 2, 4, 40, NOW_MS - 1_000)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> OperatedCluster:
    found = OperatedCluster([BILLING, LEDGER, IDLE], [KNOWN, LOST, YOUNG], NOW_MS)
    monkeypatch.setattr(transactions, "Cluster", lambda *_arguments, **_options: found)
    monkeypatch.setattr(transactions, "now_ms", lambda: NOW_MS)
    return found


def rows(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> list[dict[str, Any]]:
    assert run(["transactions", *arguments, "--json"]) == code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.usefixtures("cluster")
def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    def names(*arguments: str) -> list[str]:
        return [row["transactional_id"] for row in rows(capsys, "list", *arguments)]

    assert names() == ["billing", "idle", "ledger"]
    assert names("--state", "ongoing") == ["billing", "ledger"]
    assert names("--producer-id", "7", "--producer-id", "9") == ["billing", "idle"]
    assert names("--longer-than", "60") == ["ledger"]
    assert run(["transactions", "list"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["billing", "7", "Ongoing", "2"]


def test_old_brokers_cannot_filter_by_duration(cluster: OperatedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.versions_max[ListTransactionsRequest.API_KEY] = 0
    assert len(rows(capsys, "list")) == 3
    assert run(["transactions", "list", "--longer-than", "60"]) == 1
    assert "UNSUPPORTED_VERSION" in capsys.readouterr().err


@pytest.mark.usefixtures("cluster")
def test_describe(capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = rows(capsys, "describe", "billing")
    assert row == {
        "transactional_id": "billing", "state": "Ongoing", "producer_id": 7, "producer_epoch": 3, "coordinator": 2,
        "timeout_seconds": 60.0, "two_phase": False, "started": "2023-11-14T22:13:07Z", "open_seconds": 12.3,
        "partitions": ["t/0", "t/1"]}
    assert run(["transactions", "describe", "ledger", "idle"]) == 0
    shown = capsys.readouterr().out
    assert "never, two-phase commit" in shown
    assert "100.0 s" in shown
    assert run(["transactions", "describe", "nothing"]) == 1
    assert "TRANSACTIONAL_ID_NOT_FOUND" in capsys.readouterr().err


@pytest.mark.usefixtures("cluster")
def test_prepared(capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = rows(capsys, "prepared")
    assert (row["transactional_id"], row["prepared"], row["partitions"]) == ("ledger", "8:0", ["t/2"])
    assert run(["transactions", "prepared"]) == 0
    assert "ledger" in capsys.readouterr().out


def test_find_hanging(cluster: OperatedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = rows(capsys, "find-hanging", code=1)
    assert (row["topic"], row["partition"], row["producer_id"], row["start_offset"]) == ("t", 1, 55, 30)
    assert len(rows(capsys, "find-hanging", "--older-than", "0", code=1)) == 2
    assert rows(capsys, "find-hanging", "t/0") == []
    cluster.known[0] = BILLING._replace(partitions=(("t", 1),))
    assert [each["partition"] for each in rows(capsys, "find-hanging", "t", code=1)] == [0, 1], \
        "its coordinator does not know that partition"
    assert run(["transactions", "find-hanging", "t/2"]) == 0
    assert capsys.readouterr().out == "no transaction hangs\n"
    assert run(["transactions", "find-hanging", "t/9"]) == 1
    assert "t/9" in capsys.readouterr().err


def test_a_transaction_that_ends_meanwhile_does_not_hang(cluster: OperatedCluster) -> None:
    cluster.ending = (LOST.producer_id,)
    assert run(["transactions", "find-hanging"]) == 0


def test_the_timeline_names_the_brokers_that_have_none(cluster: OperatedCluster, capsys: pytest.CaptureFixture[str],
                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    """It showed nothing, with exit code 0, on a cluster of Apache Kafka."""
    line = Entry(1000, 1, 1, "transaction begins", {"transactional_id": "x", "producer": 7, "producer_epoch": 0}).line

    def of_broker(_cluster: OperatedCluster, node_id: int, _count: int) -> list[str]:
        if node_id == 3:
            raise ConnectionFailedError("three:9092: refused")
        return [line] if node_id == 1 else []

    monkeypatch.setattr(transactions, "of_broker", of_broker)
    cluster.more_brokers = (3,)
    assert run(["transactions", "timeline"]) == 1
    shown = capsys.readouterr()
    assert "transaction begins" in shown.out
    assert shown.err.splitlines() == ["broker 2: has no flight recorder", "broker 3: three:9092: refused"]
    cluster.more_brokers = ()
    assert [each["what"] for each in rows(capsys, "timeline", code=1)] == ["transaction begins"]


def test_abort_in_a_partition(cluster: OperatedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = rows(capsys, "abort", "t/1", "--start-offset", "30")
    assert (row["producer_id"], row["result"]) == (55, "aborted")
    (marker,) = cluster.markers
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch, marker.transaction_result) == \
        (55, 2, 4, False)
    assert [(topic.name, topic.partition_indexes) for topic in marker.topics] == [("t", [1])]
    assert run(["transactions", "abort", "t/0", "--start-offset", "120"]) == 0
    assert capsys.readouterr().out == "t/0: aborted\n"
    assert cluster.markers[1].coordinator_epoch == 0, "no marker of that producer was written before"
    assert run(["transactions", "abort", "t/1", "--start-offset", "31"]) == 1
    assert "no open transaction of t/1 begins at 31" in capsys.readouterr().err
    assert len(cluster.markers) == 2


def test_abort_of_a_transactional_id(cluster: OperatedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert rows(capsys, "abort", "--transactional-id", "billing") == [
        {"transactional_id": "billing", "result": "aborted"}]
    assert rows(capsys, "abort", "--transactional-id", "ledger")
    assert cluster.terminated == [("billing", 60_000), ("ledger", 60_000)]
    assert run(["transactions", "abort", "--transactional-id", "nothing"]) == 1
    assert "TRANSACTIONAL_ID_NOT_FOUND" in capsys.readouterr().err
    assert len(cluster.terminated) == 2, "an unknown id is not created"


@pytest.mark.parametrize("arguments", [
    (), ("t/0",), ("--start-offset", "3"), ("t/0", "--start-offset", "3", "--transactional-id", "billing"),
    ("--start-offset", "3", "--transactional-id", "billing")])
def test_abort_needs_one_thing_to_abort(cluster: OperatedCluster, arguments: tuple[str, ...]) -> None:
    assert run(["transactions", "abort", *arguments]) == 2
    assert not cluster.markers
    assert not cluster.terminated
