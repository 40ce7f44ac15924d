"""Counting the results of Kafka's own tests."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.kafka_suite.results import compare, named_cause, read_known, unexplained


def judge(_class_name: str, result: Mapping[str, Any]) -> tuple[str, str]:
    return result["status"], result.get("error", "")


def one_class(**methods: tuple[str, str]) -> dict[str, Any]:
    return {"org.X": {"module": "tools", "tests": {
        uid: {"name": f"{uid}()", "status": status, "error": error} for uid, (status, error) in methods.items()}}}


CONTROL = one_class(a=("pass", ""), b=("pass", ""), c=("fail", ""), d=("pass", ""), e=("pass", ""), f=("pass", ""))
OURS = one_class(a=("pass", ""), b=("fail", "other"), c=("fail", "other"), d=("not-applicable", ""),
                 e=("fail", "missing: share groups"))


def test_only_methods_that_kafka_passes_count() -> None:
    module = compare(CONTROL, OURS, judge)["tools"]
    assert (module.classes, module.applicable, module.passed) == (1, 4, 1)
    assert module.causes == {"other": 1, "missing: share groups": 1, "not reached": 1}
    assert compare(CONTROL, OURS, judge, "^[ab]")["tools"].applicable == 2


def test_a_feature_of_this_version_is_no_reason() -> None:
    ours = one_class(a=("fail", "missing: transactions"), b=("fail", "missing: share groups"),
                     d=("fail", "missing: KIP-848 group protocol"), e=("pass", ""), f=("pass", ""))
    failures = compare(CONTROL, ours, judge)["tools"].failures
    assert [each.method for each in unexplained(failures, {})] == ["a()", "d()"]


def test_the_error_of_a_method_names_the_group_protocol() -> None:
    newer = "timeout 15000. Consumer with protocol CONSUMER should consume 2 records"
    assert named_cause({"status": "fail", "error": newer}) == "missing: KIP-848 group protocol"
    assert named_cause({"status": "fail", "error": newer.replace("CONSUMER", "CLASSIC")}) is None
    assert named_cause({"status": "timeout"}) is None


def test_a_failure_needs_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "known.txt"
    path.write_text("# reasons\n\nX b: the machine is too slow\n")
    failures = compare(CONTROL, OURS, judge)["tools"].failures
    assert [each.method for each in unexplained(failures, read_known(path))] == ["f()"]
    path.write_text("X b\n")
    with pytest.raises(ValueError, match=r"known.txt:1"):
        read_known(path)
