"""One Spark session for all of these tests; they are skipped where Spark or a Java for it is missing."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from kraft.spark import SparkUnavailableError, session
from kraft_native.file import buffer, file_io
from tests.integration.process import NodeProcess
from tests.spark.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the session, and with it all the tests that use it, to one process of xdist; the others run the rest."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(autouse=True)
def no_leaks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Check that the engine's own objects are released; the session's connections to its Java are not checked."""
    before = held()
    yield
    request.node.funcargs.clear()  # the values of fixtures are closed by now, and not needed any more
    gc.collect()
    assert {kind: count for kind, count in held().items() if count > before[kind]} == {}


def held() -> dict[str, int]:
    return {**buffer.counters(), "engine descriptors": file_io.open_descriptors()}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    try:
        found = session("tests", master="local[2]", quick=True, settings={"spark.sql.shuffle.partitions": "2"})
    except SparkUnavailableError as error:
        pytest.skip(str(error))
    yield found
    found.stop()


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A running node that these tests share."""
    process = NodeProcess(tmp_path_factory.mktemp("node") / "data",
                          {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"})
    process.start()
    yield process
    process.stop()
    assert process.alarms() == []


@pytest.fixture(scope="session")
def topics(node: NodeProcess) -> Topics:
    return Topics(node)


_numbers = itertools.count(1)


@pytest.fixture
def topic() -> str:
    """A topic name of the test's own."""
    return f"topic-{next(_numbers)}"
