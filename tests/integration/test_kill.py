"""kill -9 at random under load, with group-commit durability: nothing acknowledged is lost, moved or stored twice."""

from collections.abc import Callable

import pytest

from tests.integration.admin import create
from tests.integration.load import PARTITIONS, Verdict, run_load
from tests.integration.process import NodeProcess

# `flush.ms` of 1: a producer's answer waits until its records are on the device, together with those of other
# producers.
GROUP_COMMIT = {"flush.ms": "1"}


def check(node: NodeProcess, kills: int, seed: int) -> dict[str, Verdict]:
    create(node, "idempotent", PARTITIONS, GROUP_COMMIT)
    create(node, "plain", PARTITIONS, GROUP_COMMIT)
    verdicts = run_load(node, {"idempotent": True, "plain": False}, kills, seed)
    for topic, verdict in verdicts.items():
        summary = f"{topic}, seed {seed}, {kills} kills: {verdict}"
        assert verdict.problems == [], summary
        assert (verdict.lost, verdict.reordered, verdict.changed) == (0, 0, 0), summary
        assert verdict.acknowledged > 0, summary
    exact = verdicts["idempotent"]
    assert (exact.duplicated, exact.stored) == (0, exact.acknowledged), str(exact)
    return verdicts


def test_five_kills(new_node: Callable[..., NodeProcess]) -> None:
    check(new_node(), 5, seed=1)


@pytest.mark.long
@pytest.mark.timeout(7_200)
def test_many_kills(new_node: Callable[..., NodeProcess], request: pytest.FixtureRequest,
                    capsys: pytest.CaptureFixture[str]) -> None:
    kills = request.config.getoption("--kills")
    for topic, verdict in check(new_node(), kills, seed=2).items():
        with capsys.disabled():
            print(f"\n{topic}, {kills} kills: {verdict}")
