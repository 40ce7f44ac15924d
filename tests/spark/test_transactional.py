"""The sink in transactions on a node of ours, and the choice between transactions and sequence numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraft.spark import publishing
from kraft_native.base.errors import InvalidArgumentError, UnsupportedVersionError
from tests.spark import sink_scenarios
from tests.spark.sink_scenarios import STEPS, Target
from tests.spark.test_sink import staging, stop, written  # noqa: F401 - a fixture
from tests.spark.topics import UNFINISHED, Topics, settle


@pytest.fixture
def target(topics: Topics, topic: str, tmp_path: Path) -> Target:
    topics.create(topic, 2)
    return Target(topics.address, topics.settle, topic, tmp_path)


def test_a_batch_becomes_visible_at_once(target: Target, stop: pytest.MonkeyPatch) -> None:  # noqa: F811
    sink_scenarios.a_batch_becomes_visible_at_once(target, stop)


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("step", STEPS)
def test_a_driver_that_dies_while_it_publishes(target: Target, stop: pytest.MonkeyPatch,  # noqa: F811
                                               step: tuple[type, str, int], done: bool) -> None:
    sink_scenarios.a_driver_dies_while_it_publishes(target, stop, step, done=done)


def test_a_driver_that_comes_back_is_fenced(target: Target, stop: pytest.MonkeyPatch) -> None:  # noqa: F811
    sink_scenarios.a_driver_that_comes_back_is_fenced(target, stop)


def test_a_transaction_that_expires(target: Target, stop: pytest.MonkeyPatch) -> None:  # noqa: F811
    sink_scenarios.a_transaction_expires(target, stop, lambda: settle(target.bootstrap, UNFINISHED))


def test_the_cluster_decides_unless_the_options_do(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    def identity(query: str, transactions: str) -> set[str]:
        writer = target.writer(transactions=transactions)
        writer.commit(written(writer, range(5), query=query), 0)
        return set(staging(writer, query).identity() or ())

    assert identity("automatic", "auto") == identity("required", "true") == {"transactional_id"}
    assert identity("excluded", "false") == {"producer_id", "producer_epoch"}
    monkeypatch.setattr(publishing, "has_transactions", lambda _: False)
    assert identity("without", "auto") == {"producer_id", "producer_epoch"}
    with pytest.raises(UnsupportedVersionError, match="option transactions: true is not possible, because 127"):
        identity("required without", "true")
    assert target.values() == sorted([*range(5)] * 4)


def test_a_query_keeps_its_choice(target: Target) -> None:
    for number, (began, other, way) in enumerate([("true", "false", "in transactions"),
                                                  ("false", "true", "by sequence numbers")]):
        writer = target.writer(transactions=began)
        writer.commit(written(writer, range(5), query=began), 0)
        writer = target.writer()
        writer.commit(written(writer, range(5, 10), query=began), 1)
        writer = target.writer(transactions=other)
        with pytest.raises(InvalidArgumentError, match=f"{other} is not possible, because the query began .*{way}"):
            writer.commit(written(writer, range(10, 15), query=began), 2)
        assert target.values() == sorted([*range(10)] * (number + 1))
