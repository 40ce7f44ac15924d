"""kcat, where it is installed."""

import shutil
import subprocess

import pytest

from tests.integration.admin import create
from tests.integration.process import NodeProcess

KCAT = shutil.which("kcat") or shutil.which("kafkacat")


@pytest.mark.skipif(KCAT is None, reason="kcat is not installed")
def test_produce_and_consume(node: NodeProcess, name: str) -> None:
    create(node, name)
    common = [str(KCAT), "-b", node.address, "-t", name, "-p", "0"]
    lines = [f"k{i}:value {i}" for i in range(100)]
    subprocess.run([*common, "-P", "-K", ":", "-z", "snappy"], input="\n".join(lines), text=True, check=True,
                   timeout=20)
    read = subprocess.run([*common, "-C", "-q", "-e", "-o", "beginning", "-f", "%o %k:%s\n"], capture_output=True,
                          text=True, check=True, timeout=20)
    assert read.stdout.splitlines() == [f"{i} {line}" for i, line in enumerate(lines)]
