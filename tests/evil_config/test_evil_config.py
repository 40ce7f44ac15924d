"""Short form of `make evil-config`, and tests that it detects what it watches for."""

from pathlib import Path
from random import Random

import pytest

from kraft.config import tables
from kraft.testing.pytest_plugin import launcher_of
from tests.evil_config.run import attack
from tests.evil_config.values import cases, drawn, values_of


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """Replace the check for leaks: nothing of the engine runs in this process."""


@pytest.mark.parametrize("nodes", [1, 3])
def test_no_value_of_any_setting_stops_a_node(tmp_path: Path, request: pytest.FixtureRequest, nodes: int) -> None:
    report = attack(tmp_path / "cluster", 7, nodes=nodes, values=2, rounds=1, launcher=launcher_of(request.config))
    assert report.stopped == 0, report
    assert not report.wrong, report
    assert report.restarts == nodes
    assert report.answers["accepted"] > 100 < report.answers["INVALID_REQUEST"]


def test_every_dynamic_setting_is_used() -> None:
    found = cases([1, 2])
    for section, kind in (("topic", "topic"), ("group", "group"), ("client_metrics", "client-metrics")):
        assert {each.name for each in found if each.kind == kind} == {*tables.section(section), "no.such.setting"}
    dynamic = {name for name, setting in tables.broker_settings().items() if setting.update}
    for resource in ("1", ""):
        assert dynamic <= {each.name for each in found if (each.kind, each.resource) == ("broker", resource)}
    assert all(len(values_of(each)) > 30 for each in found)
    assert drawn(found[0], Random(3), 5) == drawn(found[0], Random(3), 5) != drawn(found[0], Random(4), 5)


def test_a_node_that_stops_is_seen(tmp_path: Path, request: pytest.FixtureRequest,
                                   monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.evil_config import run

    served = run.Attacker.served

    def stop_first(attacker: run.Attacker, after: str) -> None:
        if after == "all settings":
            attacker.cluster.nodes[1].request_stop()
            attacker.cluster.nodes[1].has_ended(20)
        served(attacker, after)

    monkeypatch.setattr(run.Attacker, "served", stop_first)
    monkeypatch.setattr(run, "cases", lambda _ids: [])
    monkeypatch.setattr(run, "quota_cases", list)
    report = attack(tmp_path / "cluster", 7, nodes=1, values=0, rounds=0, launcher=launcher_of(request.config))
    assert report.stopped == 1
    assert "stopped after all settings" in report.wrong[0]
