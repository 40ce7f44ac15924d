"""Sessions: the environment that they find, and their settings."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from kraft.spark import SparkUnavailableError, session
from kraft.spark.versions import SPARK_END, SPARK_MIN, default_source
from tools.tree import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_job_runs_with_our_settings(spark: SparkSession) -> None:
    assert spark.range(10).count() == 10
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"


def test_the_environment_is_as_it_was(spark: SparkSession) -> None:
    before = dict(os.environ)
    assert session() is spark
    assert dict(os.environ) == before


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "pandas" else object())
    with pytest.raises(SparkUnavailableError, match=r"pandas: not installed; `pip install kraft\[spark\]`"):
        session()


@pytest.mark.parametrize(("version", "what"), [("4.0.1", "old"), ("4.4.0", "new"), ("5.0.0.dev1", "new")])
def test_another_pyspark_is_refused(monkeypatch: pytest.MonkeyPatch, version: str, what: str) -> None:
    monkeypatch.setattr("pyspark.__version__", version)
    with pytest.raises(SparkUnavailableError, match=rf"PySpark {version} is too {what}: .*4\.3 or newer.* than 4\.4"):
        session()


def test_a_session_of_another_pyspark_finds_a_source_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.__version__", "4.0.1")
    source = default_source()
    assert source.name() == "kraft"
    with pytest.raises(SparkUnavailableError, match=r"PySpark 4\.0\.1 is too old"):
        source({})


def test_a_session_that_lacks_a_package_finds_a_source_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "kraft.spark.source", raising=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(SparkUnavailableError, match=r"pyarrow.*`pip install kraft\[spark\]`"):
        default_source()({})


def test_the_package_requires_the_same_pyspark() -> None:
    low, end = (".".join(map(str, version)) for version in (SPARK_MIN, SPARK_END))
    assert f'"pyspark>={low},<{end}"' in (ROOT / "pyproject.toml").read_text()
