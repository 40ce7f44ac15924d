"""Sessions: what they find and what they are set to."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from kraft.spark import SparkUnavailableError, session

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


def test_an_old_pyspark_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.__version__", "4.0.1")
    with pytest.raises(SparkUnavailableError, match=r"PySpark 4\.0\.1 is too old.*4\.3 or newer"):
        session()
