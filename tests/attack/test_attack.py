"""Short form of the attacks, with bounds that hold on a busy machine: they bound the processor time of one step, not
the latency of a client. The long form is `make attack`."""

from pathlib import Path

import pytest

from tests.attack.acl_changes import Changes, wrong_in
from tests.attack.pauses import joined
from tests.attack.permissions import SETTINGS as WITH_ACLS
from tests.attack.permissions import allow
from tests.attack.records import SETTINGS, refused
from tests.attack.requests import CONTROLLER, TOPIC, attacks
from tests.attack.run import Row, attack, attacked_node, judge, longest_steps, send
from tests.attack.traffic import Measured, Traffic

ELEMENTS = 10_000
STEP_SECONDS_MAX = 0.5
"""Bound well above the time of a step on a busy machine; requests that were not split into steps took 5 to 40."""
CLOSED = {"BrokerHeartbeat", "BrokerRegistration", "ControllerRegistration", "JoinGroup", "ListGroups",
          "ListTransactions", "ShareFetch", "SyncGroup", "UpdateFeatures", "Vote"}
"""APIs that are served in one step: the node closes the connection at so many elements."""


def test_no_request_holds_the_loop_for_long(tmp_path: Path) -> None:
    wrong = []
    with attacked_node(tmp_path / "data", SETTINGS) as (node, metrics_port):
        for hostile in attacks(ELEMENTS, 200):
            if hostile.controller and hostile.api in CONTROLLER:
                continue               # served as on the broker's listener
            ends = {each.end for each in send(node, hostile, hostile.frame(), 4 if hostile.copies > 1 else 1)}
            if ends != {"closed" if hostile.api in CLOSED else "answered"}:
                wrong.append((hostile.name, ends))
        for hostile in refused(2_000_000, ELEMENTS):
            ends = {each.end for each in send(node, hostile, hostile.frame())}
            if ends != {"closed" if "no acks" in hostile.name else "answered"}:
                wrong.append((hostile.name, ends))
        second = attack(node, next(each for each in attacks(1, 500) if each.name == "Metadata: all, pipelined"), 10,
                        seconds=0)
        steps = longest_steps(node, metrics_port)
        assert node.alarms() == []
    assert wrong == []
    assert len(second.latencies_ms) >= 100
    # The slice of a connection is measured by wall-clock time, which a busy machine stretches.
    assert {name: seconds for name, seconds in steps.items() if name and seconds > STEP_SECONDS_MAX} == {}


@pytest.mark.parametrize(("row", "wrong"), [
    (Row("slow", own_ms=[1.0] * 99 + [30.0]), "p99.9 30.0 ms is above 25"),
    (Row("large", request_bytes=1 << 20, own_ms=[1.0], memory_bytes=4 << 20), "4 MiB are above 3"),
    (Row("fat", own_ms=[1.0], kept_bytes=70 << 20), "70 MiB are kept, more than 64"),
    (Row("mute", own_ms=[1.0], end="no answer"), "no answer")])
def test_broken_bounds_are_seen(row: Row, wrong: str) -> None:
    judge(row, 25.0, 1 << 20)
    assert row.wrong == [wrong]


def test_pauses_of_the_machine_are_not_the_nodes() -> None:
    pauses = joined([(1.020, 1.030), (1.000, 1.012), (1.010, 1.018), (2.0, 3.0)])
    assert pauses == [(1.000, 1.018), (1.020, 1.030), (2.0, 3.0)]
    row = Row("paused")
    row.set_latencies([(0.990, 1.001), (1.005, 1.025), (1.5, 1.6), (2.1, 2.2)], pauses)
    assert row.latencies_ms == pytest.approx([11.0, 20.0, 100.0, 100.0])
    assert row.own_ms == pytest.approx([0.0, 2.0, 10.0, 100.0])


def test_changes_of_acls_beside_a_producer_and_a_consumer(tmp_path: Path) -> None:
    with attacked_node(tmp_path / "data", {}, WITH_ACLS) as (node, _metrics_port):
        allow(node.address, 100)
        allow(node.address, 100)       # those that exist stay
        traffic = Traffic(node.port, TOPIC)
        changes = Changes(node.address, 1_000.0)
        changes.start()
        while changes.count < 20 and changes.failure is None:
            changes.ended.wait(0.01)
        measured = traffic.measured()
        changes.ended.set()
        changes.join()
        traffic.end()
        assert node.alarms() == []
    assert changes.failure is None and changes.count >= 20
    assert measured.produce_ms and measured.fetch_ms and measured.errors == []


@pytest.mark.parametrize(("measured", "rate", "wrong"), [
    (Measured([1.0], [1.0], []), 170.0, []),
    (Measured([1.0], [1.0], [29, 1, 29]), 170.0, ["3 answers with errors: [1, 29]"]),
    (Measured([1.0], [1.0], []), 100.0, ["100 changes in a second, fewer than 167"]),
    (Measured([1.0, 30.0], [1.0], []), 170.0, ["p99.9 of Produce 30.0 ms is above 25"]),
    (Measured([1.0], [1.0, 30.0], []), 170.0, ["p99.9 of Fetch 30.0 ms is above 25"])])
def test_broken_bounds_of_changes_are_seen(measured: Measured, rate: float, wrong: list[str]) -> None:
    assert wrong_in(measured, rate, 25.0) == wrong
