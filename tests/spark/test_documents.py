"""The examples of docs/spark.md run in one session, and the export of docs/pipeline.md that needs another package."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kraft.cli.command import run as command
from kraft.pipeline import lakes
from tests.documents.check import commands
from tests.pipeline.replicas import batches, write
from tools.documents import blocks
from tools.tree import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.topics import Topics


def test_the_page_of_spark(spark: SparkSession, topics: Topics, topic: str, tmp_path: Path,
                           monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    topics.create(topic)
    topics.send(topic, ["tea", "coffee"], 0)
    page = ROOT / "docs" / "spark.md"
    code = "".join(block.code for block in blocks(page.read_text()) if block.language == "python")
    for before, after in {"127.0.0.1:9092": topics.address, '"subscribe", "orders"': f'"subscribe", "{topic}"',
                          "/data/": f"{tmp_path}/"}.items():
        assert before in code
        code = code.replace(before, after)
    own = spark.newSession()    # the listener of the page ends with it
    monkeypatch.setattr("kraft.spark.session", lambda: own)
    exec(compile(code, str(page), "exec"), {"__name__": "page"})
    assert "|        0|       2|" in capsys.readouterr().out
    assert spark.read.parquet(str(tmp_path / "orders")).count() == 2


@pytest.mark.long
def test_the_export_of_pipeline_md(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(lakes.PACKAGES["delta"])
    [code] = [block.code for block in blocks((ROOT / "docs" / "pipeline.md").read_text())
              if block.mark == f"run by tests/spark/{Path(__file__).name}"]
    write(tmp_path / "node1", 1, batches(10))
    monkeypatch.chdir(tmp_path)
    for _, *arguments in commands(code.replace("/srv/", f"{tmp_path}/")):
        assert command(arguments) == 0
    assert (tmp_path / "lake" / "_delta_log").is_dir()
