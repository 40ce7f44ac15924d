"""What executors get, and the shell."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from kraft import Log
from kraft.spark.bundle import bundle_settings, write_bundle
from tests.golden import REPOSITORY

# Of the whole program; the executors run in processes of their own and get the packages from the archive only.
ON_A_CLUSTER = """
import os, sys
from pathlib import Path
from kraft.spark import session
from kraft.spark.bundle import bundle_settings, write_bundle

archive = Path(sys.argv[1])
write_bundle(archive)
spark = session("bundle", master="local-cluster[2,1,1024]", quick=True, settings=bundle_settings(archive))
frame = spark.read.format("kraft").option("minPartitions", "4").load(sys.argv[2])

def origin(rows):
    import pyarrow as pa
    for _ in rows:
        pass
    import kraft_native.columns
    yield pa.RecordBatch.from_pydict({"place": [kraft_native.columns.__file__], "process": [os.getppid()]})

places = frame.mapInArrow(origin, "place string, process long").collect()
assert frame.count() == 1000, frame.count()
assert len(places) >= 4 and all("kraftenv" in row.place for row in places), places
assert len({row.process for row in places}) == 2, places
spark.stop()
print("all well")
"""


def test_the_archive_is_whole_and_repeatable(tmp_path: Path) -> None:
    one, two = tmp_path / "one.zip", tmp_path / "two.zip"
    assert write_bundle(one) == write_bundle(two)
    assert one.read_bytes() == two.read_bytes()
    # What is in it works without the source tree.
    with zipfile.ZipFile(one) as archive:
        archive.extractall(tmp_path / "unpacked")
    script = "import pyspark_kraft as p; print(p.DefaultSource.name(), p.__file__)"
    done = subprocess.run([sys.executable, "-c", script],
                          cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path / "unpacked")}, check=True,
                          capture_output=True, text=True)
    name, file = done.stdout.split()
    assert name == "kraft" and Path(file).is_relative_to(tmp_path / "unpacked")
    assert bundle_settings(one)["spark.archives"] == f"{one}#kraftenv"


@pytest.mark.long
def test_executors_of_their_own(tmp_path: Path) -> None:
    with Log(tmp_path / "orders-0") as log:
        for number in range(1000):
            log.append_record(b"%d" % number)
    done = subprocess.run([sys.executable, "-c", ON_A_CLUSTER, str(tmp_path / "kraft.zip"), str(tmp_path / "orders-0")],
                          cwd=REPOSITORY, capture_output=True, text=True, timeout=280, check=False)
    assert done.stdout.splitlines()[-1:] == ["all well"], done.stderr[-3000:]


@pytest.mark.long
def test_the_shell(tmp_path: Path) -> None:
    with Log(tmp_path / "orders-0") as log:
        log.append_record(b"one")
    query = f'print(spark.read.format("kraft").load("{tmp_path / "orders-0"}").first().value.decode())'
    done = subprocess.run([sys.executable, "-m", "kraft", "spark", "shell", "--master", "local[1]", "-c", query],
                          cwd=REPOSITORY, capture_output=True, text=True, timeout=200, check=False)
    assert done.stdout.splitlines()[-1:] == ["one"], done.stderr[-3000:]
