"""Short form of `make hostile-tls`, and tests that it sees what it looks for."""

import random
from pathlib import Path

import pytest

from tests.hostile_tls import fuzz as fuzz_module
from tests.hostile_tls.__main__ import NO_DELAY
from tests.hostile_tls.fuzz import SaslCases, TlsCases, fuzz, mutated
from tests.hostile_tls.hellos import hello, old_hello
from tests.hostile_tls.run import Report, attack, compare, on_node

CONNECTIONS = 200
CASES = 300


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """Replace the check for leaks: nothing of the engine runs in this process."""


def test_others_are_served_beside_hostile_handshakes(tmp_path: Path) -> None:
    report = on_node(tmp_path / "data", {}, lambda node: attack(node, CONNECTIONS, 1.0))
    assert [each for each in report.wrong if "waits" not in each] == [], report
    assert len(report.lines) == 10


def test_broken_records_and_frames_do_no_harm(tmp_path: Path) -> None:
    report = on_node(tmp_path / "data", NO_DELAY, lambda node: fuzz(node, CASES, 1))
    assert not report.wrong, report
    assert [line.split()[:4] for line in report.lines] == [[str(CASES), "cases", "of", "TLS"],
                                                           [str(CASES), "cases", "of", "SASL"]]


def test_a_client_that_is_served_without_a_login_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The right token is one."""
    monkeypatch.setattr(fuzz_module, "mutated", lambda _source, data: data)
    report = on_node(tmp_path / "data", NO_DELAY, lambda node: fuzz(node, CASES, 1))
    assert any("a client without a login is served" in each for each in report.wrong)


def test_a_client_that_waits_is_seen() -> None:
    def measured(p99: float, count: int = 9, failure: str = "") -> dict[str, dict[str, object]]:
        one = {"p50": 1.0, "p99": p99, "max": p99, "count": count, "failure": failure}
        return {"plain": one, "tls": one, "new tls": one}

    for during, wrong in ((measured(5.9), 0), (measured(6.1), 3), (measured(1.0, count=0), 3),
                          (measured(1.0, failure="reset"), 3)):
        report = Report()
        compare(report, "half-open", measured(3.0), during)
        assert len(report.wrong) == wrong


def test_cases_depend_on_the_seed_alone() -> None:
    data = hello()
    assert [mutated(random.Random(7), data) for _ in range(2)] == [mutated(random.Random(7), data)] * 2
    assert mutated(random.Random(7), data) != data
    assert old_hello()[9:11] == b"\3\1"
    assert TlsCases.run is not SaslCases.run
