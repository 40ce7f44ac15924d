"""Stream processors and frameworks in Python, each in an environment of its own from the package index."""

import functools
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from kraft.local.cluster import LocalCluster
from tests.peer.kafka import classpath, require_kafka
from tests.wall.copying import Program, check_copy

pytestmark = [pytest.mark.long, pytest.mark.kraft_cluster(brokers=3, controllers=0)]

HERE: Final = Path(__file__).parent / "python"
SPARK_JARS: Final = Path(__file__).parents[2] / "bench" / "spark"
"""Directory of the `pom.xml` of Spark's own connector."""
BUILT: Final = Path(__file__).parents[2] / "build" / "wall"
INSTALL_SECONDS: Final = 600


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """Nothing of the engine runs in this process, and librdkafka closes its sockets at a time of its own."""


@functools.cache
def environment(product: str) -> Path:
    """Make the virtual environment of a product from its requirements; skip the test, visibly, when that fails."""
    home = BUILT / product
    requirements = HERE / f"{product}.txt"
    stamp = home / "installed.txt"
    if not stamp.exists() or stamp.read_text() != requirements.read_text():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
        done = subprocess.run([str(home / "bin" / "pip"), "install", "-q", "-r", str(requirements)], check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=INSTALL_SECONDS)
        if done.returncode:
            pytest.skip(f"needs {product}: {done.stdout[-500:]}")
        stamp.write_text(requirements.read_text())
    return home / "bin" / "python"


@pytest.mark.parametrize(("product", "is_exactly_once", "commits"), [
    ("faust", False, True), ("quix", True, True), ("faststream", False, True), ("bytewax", False, False)])
def test_a_stream_processor_copies_a_topic(product: str, is_exactly_once: bool, commits: bool,
                                           kraft_cluster: LocalCluster, tmp_path: Path) -> None:
    command = [str(environment(product)), str(HERE / f"with_{product}.py")]
    check_copy(kraft_cluster, Program(command, is_exactly_once, commits), tmp_path)


def test_the_connector_of_spark_copies_a_topic(kraft_cluster: LocalCluster, tmp_path: Path) -> None:
    require_kafka(SPARK_JARS)
    command = [str(environment("spark")), str(HERE / "with_spark.py")]
    jars = {"WALL_JARS": classpath(SPARK_JARS).replace(":", ",")}
    check_copy(kraft_cluster, Program(command, commits=False, environment=jars), tmp_path)
