"""The README's example runs, with a node and a directory that exist."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tools.tree import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.integration.process import NodeProcess
    from tests.spark.topics import Topics

BLOCK = re.compile(r"^```python\n(from kraft\.spark .*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_example_runs(spark: SparkSession, node: NodeProcess, topics: Topics,
                          capsys: pytest.CaptureFixture[str]) -> None:
    topics.create("orders")
    topics.send("orders", ["tea", "coffee"], 0)
    [block] = BLOCK.findall((ROOT / "README.md").read_text())
    lines = block.replace("127.0.0.1:9092", node.address).replace("/var/lib/kafka", node.data).splitlines()
    assert len(lines) == 5
    names = {"session": lambda: spark}      # as in the first line, without its settings
    exec("\n".join([lines[2], lines[4]]), names)        # of the cluster
    assert "|orders|        0|    2|" in capsys.readouterr().out
    exec("\n".join([lines[3], lines[4]]), names)        # of the directory, which has many topics
    assert "|partition|count|" in capsys.readouterr().out
