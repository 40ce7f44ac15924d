"""Rules of causes: the sentence of every incident from its facts, and nothing of a cluster that is well."""

import re
import tomllib
from pathlib import Path

import pytest

from kraft.client.reassignments import Ongoing
from kraft.console.sources import Recordings
from kraft.console.state.what_if import Placed
from kraft.console.why.facts import Facts
from kraft.console.why.finding import RED, named
from kraft.console.why.history import FENCED, REGISTERED
from kraft.console.why.rules import findings
from kraft.recorder.entry import Entry
from kraft.recorder.why import Answer
from tests.console.situations import NOW, REFUSED, SITUATIONS, TIMED_OUT, UP, WITHOUT_2, down, explained, facts, history

FIRST = 3
INCIDENTS = {each["name"]: each for each in tomllib.loads(
    Path(__file__).with_name("incidents.toml").read_text())["incident"]}


def test_the_list_of_incidents() -> None:
    assert len(INCIDENTS) == 40
    assert set(INCIDENTS) == set(SITUATIONS)
    assert all({"name", "inject", "cause", "finds"} == set(each) for each in INCIDENTS.values())


@pytest.mark.parametrize("name", INCIDENTS)
def test_the_cause_of_an_incident_is_among_the_first_findings(name: str) -> None:
    """Brokers that are down come first, and after them what nobody can use without them."""
    found = findings(SITUATIONS[name]())
    assert any(re.search(INCIDENTS[name]["finds"], each.sentence) for each in found[:FIRST]), found


@pytest.mark.parametrize("name", INCIDENTS)
def test_no_finding_without_the_incident(name: str) -> None:
    """Facts of a cluster that is well have no sentence that any incident would accept."""
    assert [each for each in findings(facts()) if re.search(INCIDENTS[name]["finds"], each.sentence)] == []


def test_a_cluster_that_is_well() -> None:
    assert findings(facts()) == []
    assert findings(Facts()) == []


def test_what_a_broker_takes_along_is_evidence_and_no_finding() -> None:
    [found] = findings(facts(brokers=down(), probes={2: REFUSED}, placed=WITHOUT_2))
    assert (found.severity, found.about) == (RED, "broker 2")
    assert found.evidence == ("1 partition lacks it among the in-sync replicas: t/0",)


def test_a_broker_that_is_slow_to_answer_hides_no_replica() -> None:
    about = SITUATIONS["slow-follower"]().about_partitions
    slow = facts(brokers=down(TIMED_OUT, fenced=False), placed=WITHOUT_2, about_partitions=about)
    assert [each.about for each in findings(slow)] == ["broker 2", "t/0"]
    dead = facts(brokers=down(REFUSED, fenced=False), placed=WITHOUT_2, about_partitions=about)
    assert [each.about for each in findings(dead)] == ["broker 2"]


def test_a_broker_that_answers_and_is_fenced() -> None:
    [found] = findings(facts(brokers=down(), probes={2: None}, history=history(REGISTERED)))
    assert "is fenced since it registered" in found.sentence
    [found] = findings(facts(brokers=down(), probes={2: None}))
    assert "it reaches no controller" in found.sentence


def test_partitions_without_an_explanation_are_one_finding() -> None:
    placed = tuple(Placed(("t", each), -1, (1, 2), ()) for each in range(20))
    [found] = findings(facts(placed=placed))
    assert "20 partitions have no leader" in found.sentence and "and 12 more" in found.sentence
    placed = tuple(Placed(("t", each), 1, (1, 2), (1,)) for each in range(20))
    [found] = findings(facts(placed=placed, about_partitions=[]))
    assert "20 replicas of running brokers out of sync" in found.sentence


def test_red_comes_first_and_causes_before_effects() -> None:
    found = findings(facts(brokers=down(), probes={2: REFUSED}, placed=WITHOUT_2, about_partitions=explained(
        "isr", 1, "In sync: 1."), quorum=SITUATIONS["even-quorum"]().quorum))
    assert [each.about for each in found] == ["broker 2", "t/0", "quorum"]


def test_a_quorum_that_brokers_do_not_reach() -> None:
    unknown = Answer("leader", -1, False, "It is not known whether there is a leader: no controller answers.")
    [found] = findings(facts(quorum=None, about_quorum=[unknown]))
    assert found.sentence.startswith("The metadata quorum has no leader that the brokers reach.")


def test_old_unclean_elections_are_history() -> None:
    kept = facts(history=SITUATIONS["unclean-election"]().history)
    assert findings(kept)
    assert findings(facts(now_ms=NOW + 8 * 24 * 3_600_000, history=kept.history)) == []


def test_a_clock_of_this_machine() -> None:
    recordings = SITUATIONS["clock-skew"]().recordings
    [found] = findings(facts(now_ms=NOW - 3_600_000, recordings=recordings))
    assert "this machine" in found.sentence


def test_a_reassignment_that_copies() -> None:
    move = Ongoing(("t", 0), (1, 2, 3), (3,), ())
    [found] = findings(facts(moves={("t", 0): move}))
    assert "broker 3 copies its log" in found.sentence


def test_names() -> None:
    assert named(["a", "b"]) == "a, b"
    assert named([str(each) for each in range(1_009)]).endswith("7 and 1,001 more")
    assert len(UP) == 3


def test_a_fence_without_a_recorded_cause_was_requested() -> None:
    """The broker requested it, where the active controller's recorder reaches back; else nobody knows."""
    recorded = Recordings([Entry(NOW - 90_000, 3001, 1, "becomes", {"role": "Leader"})])
    given = {"brokers": down(), "probes": {2: REFUSED}, "placed": WITHOUT_2, "history": history(FENCED)}
    [found] = findings(facts(**given, recordings=recorded))
    assert "was stopped cleanly" in found.sentence
    [found] = findings(facts(**given))
    assert "the controller fenced it at" in found.sentence
