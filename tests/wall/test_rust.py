"""rdkafka, the Rust client over librdkafka, built from its lock file."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from kraft.local.cluster import LocalCluster
from tests.wall.copying import Program, check_copy

pytestmark = [pytest.mark.long, pytest.mark.kraft_cluster(brokers=3, controllers=0)]

HERE: Final = Path(__file__).parent / "rust"
BUILT: Final = Path(__file__).parents[2] / "build" / "wall" / "rust"
BUILD_SECONDS: Final = 900


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """Nothing of the engine runs in this process, and librdkafka closes its sockets at a time of its own."""


def test_a_program_in_rust_copies_a_topic(kraft_cluster: LocalCluster, tmp_path: Path) -> None:
    if shutil.which("cargo") is None:
        pytest.skip("needs rdkafka for Rust: cargo is not installed")
    command = ["cargo", "build", "--release", "--locked", "--target-dir", str(BUILT)]
    done = subprocess.run(command, cwd=HERE, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=BUILD_SECONDS)
    if done.returncode:
        pytest.skip(f"needs rdkafka for Rust: {done.stdout[-500:]}")
    check_copy(kraft_cluster, Program([str(BUILT / "release" / "copy")]), tmp_path)
