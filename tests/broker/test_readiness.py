"""Readiness as a function: each code, its condition and its limits; the documented codes are these."""

import re
from dataclasses import replace

import pytest

from kraft.broker.readiness import (
    BEHIND_MS_MAX,
    LEADERLESS_MS_MAX,
    NAMED_MAX,
    REASONS,
    SAMPLES_MAX,
    WARNINGS,
    BrokerSeen,
    CommitAges,
    NodeState,
    Phase,
    QuorumSeen,
    is_settled,
    readiness,
)
from tools.tree import ROOT

QUORUM = QuorumSeen(leader_id=3, is_answered=True, leads=False, may_vote=True, is_voter=True, committed_end=100,
                    applied_end=100)
BROKER = BrokerSeen(is_registered=True, is_fenced=False, lease_left_ms=5_000)
WELL = NodeState(Phase.SERVING, quorum=QUORUM, broker=BROKER)


def broker(**changes: object) -> NodeState:
    return replace(WELL, broker=replace(BROKER, **changes))


def quorum(**changes: object) -> NodeState:
    return replace(WELL, quorum=replace(QUORUM, **changes))


REFUSED = {
    "failed": replace(WELL, phase=Phase.STOPPING, failure="OSError: disk"),
    "stopping": replace(WELL, phase=Phase.STOPPING),
    "unresponsive": replace(WELL, unresponsive_ms=2_000),
    "starting": NodeState(Phase.STARTING),
    "other-cluster": quorum(leader_id=-1, is_answered=False, other_cluster="10.0.0.1:9093"),
    "no-active-controller": quorum(is_answered=False),
    "metadata-behind": replace(quorum(applied_end=90), behind_ms=BEHIND_MS_MAX + 1),
    "not-registered": broker(is_registered=False, refusal="DUPLICATE_BROKER_REGISTRATION, the id is taken"),
    "replaced": broker(is_replaced=True),
    "fenced": broker(is_fenced=True),
    "lease-ended": broker(lease_left_ms=-1_500),
    "recovering-logs": broker(logs=20, logs_open=3, was_clean=False),
    "opening-replicas": broker(replicas_waiting=2),
    "replicas-behind": broker(replicas_behind=1),
    "loading-coordinators": broker(coordinators_loading=4),
    "offline-directories": broker(offline_directories=("/d1",), directories=2),
}
WARNED = {
    "not-a-voter": quorum(is_voter=False),
    "replicas-not-served": broker(replicas_failed=2),
    "records-lost": broker(replicas_damaged=1),
    "metadata-not-applied": broker(apply_faults=1),
    "certificate-ended": replace(WELL, ended_certificates=("listener SSL",)),
}
TEXTS = {
    "failed": "the node stops because of a fault of its own: OSError: disk",
    "unresponsive": "the event loop has not answered for 2.0 s",
    "no-active-controller": "node 3, the last known leader of the metadata quorum, does not answer",
    "metadata-behind": "10 committed records of the metadata, the oldest for 5.0 s, are not applied",
    "not-registered": "no controller has registered the broker: DUPLICATE_BROKER_REGISTRATION, the id is taken",
    "lease-ended": "the broker's lease ended 1.5 s ago: no controller answers its heartbeats",
    "recovering-logs": "logs are recovered, as the last stop was not clean: 3 of 20 are open",
    "replicas-behind": "1 replica is not in sync yet",
    "loading-coordinators": "4 partitions of groups or transactions are being loaded",
    "offline-directories": "1 of 2 log directories is offline: /d1",
}


def codes(state: NodeState) -> list[str]:
    return [each.code for each in readiness(state).reasons]


def test_a_node_that_is_well_is_ready() -> None:
    verdict = readiness(WELL)
    assert (verdict.is_ready, verdict.reasons, verdict.warnings, verdict.text) == (True, (), (), "ready")
    assert readiness(replace(WELL, broker=None)).is_ready, "also one that is only a controller"


@pytest.mark.parametrize("code", REASONS)
def test_a_reason_makes_it_not_ready(code: str) -> None:
    verdict = readiness(REFUSED[code])
    found = {each.code: each.text for each in verdict.reasons}
    assert not verdict.is_ready
    assert code in found
    assert found[code] == TEXTS.get(code, found[code])
    assert found[code] in verdict.text
    assert found.keys() - {code} <= {"other-cluster": {"no-active-controller"}}.get(code, set())


@pytest.mark.parametrize("code", WARNINGS)
def test_a_warning_leaves_it_ready(code: str) -> None:
    verdict = readiness(WARNED[code])
    assert verdict.is_ready
    assert [each.code for each in verdict.warnings] == [code]


def test_all_that_is_wrong_is_named_at_once() -> None:
    state = NodeState(Phase.STARTING, quorum=replace(QUORUM, leader_id=-1, is_answered=False),
                      broker=BrokerSeen(logs=2), leaderless_ms=1)
    assert codes(state) == ["starting", "no-active-controller", "not-registered", "recovering-logs"]
    assert readiness(state).text.startswith("the node has not finished its start; no leader of the metadata quorum")


def test_a_node_that_stops_names_only_that() -> None:
    assert codes(replace(REFUSED["fenced"], phase=Phase.STOPPING)) == ["stopping"]
    assert codes(replace(REFUSED["stopping"], unresponsive_ms=1)) == ["stopping", "unresponsive"]


@pytest.mark.parametrize("code", ["opening-replicas", "replicas-behind", "loading-coordinators"])
def test_some_reasons_count_until_it_was_ready(code: str) -> None:
    assert codes(REFUSED[code]) == [code]
    assert codes(replace(REFUSED[code], was_ready=True)) == []


def test_a_node_that_was_ready_survives_an_election() -> None:
    silent = REFUSED["no-active-controller"]
    assert codes(silent) == ["no-active-controller"]
    for leaderless_ms, expected in ((0, []), (LEADERLESS_MS_MAX - 1, []),
                                    (LEADERLESS_MS_MAX, ["no-active-controller"])):
        assert codes(replace(silent, was_ready=True, leaderless_ms=leaderless_ms)) == expected
    assert codes(quorum(leads=True, leader_id=1, is_answered=False)) == ["no-active-controller"]


def test_metadata_may_wait_for_a_while() -> None:
    assert codes(replace(quorum(applied_end=90), behind_ms=BEHIND_MS_MAX)) == []


def test_a_lease_that_no_controller_announces_is_no_reason() -> None:
    assert codes(broker(lease_left_ms=None)) == []
    assert codes(broker(lease_left_ms=0)) == []


def test_a_broker_that_was_fenced_has_to_catch_up_again() -> None:
    assert is_settled(WELL, readiness(WELL))
    lagging = replace(REFUSED["offline-directories"], was_ready=True)
    assert is_settled(lagging, readiness(lagging)), "another reason does not reset it"
    fenced = replace(REFUSED["fenced"], was_ready=True)
    assert not is_settled(fenced, readiness(fenced))
    behind = REFUSED["replicas-behind"]
    assert not is_settled(behind, readiness(behind))


def test_a_text_names_a_bounded_number() -> None:
    paths = tuple(f"/d{number}" for number in range(NAMED_MAX + 5))
    text = readiness(broker(offline_directories=paths, directories=20)).text
    assert text.endswith(f"/d{NAMED_MAX - 1} and 5 more")
    assert text.startswith(f"{NAMED_MAX + 5} of 20 log directories are offline: /d0, /d1,")


def test_the_age_is_that_of_the_oldest_unapplied_record() -> None:
    ages = CommitAges()
    assert ages.note(100, 100, 0) == 0
    assert ages.note(110, 100, 1_000) == 0
    assert ages.note(120, 100, 2_000) == 1_000
    assert ages.note(130, 110, 3_000) == 1_000, "what was known at 1,000 is applied, what came at 2,000 is not"
    assert ages.note(130, 125, 4_000) == 1_000
    assert ages.note(130, 130, 5_000) == 0
    assert ages.note(140, 130, 6_000) == 0, "a new one"


def test_ages_survive_a_snapshot_and_are_bounded() -> None:
    ages = CommitAges()
    ages.note(110, 100, 0)
    assert ages.note(90, 50, 1_000) == 0, "the log begins again"
    assert ages.note(90, 90, 2_000) == 0
    for number in range(2 * SAMPLES_MAX):
        assert ages.note(100 + number, 90, 3_000 + number) == number
    assert len(ages._samples) == SAMPLES_MAX


def test_the_page_lists_exactly_these() -> None:
    page = (ROOT / "docs" / "operate" / "health.md").read_text()
    rows = re.findall(r"^\| `([a-z-]+)` \| (reason|warning) \| (.*) \|$", page, re.MULTILINE)
    assert rows == [(code, kind, text) for kind, table in (("reason", REASONS), ("warning", WARNINGS))
                    for code, text in table.items()]
