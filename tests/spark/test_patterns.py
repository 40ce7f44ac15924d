"""Patterns of Java's: a translated one means the same, any other is refused."""

from __future__ import annotations

import re

import pytest

from kraft.spark.options import read_options
from kraft.spark.patterns import java_pattern
from kraft_native.base.errors import InvalidArgumentError

TOPICS = ("orders", "orders-eu", "orders.1", "oo", "ordersorders", "a&b", "<a>", "[")


@pytest.mark.parametrize(("pattern", "matched"), [
    ("orders.*", ["orders", "orders-eu", "orders.1", "ordersorders"]),
    (r"orders\.\d", ["orders.1"]),
    (r"(?<name>orders)\k<name>", ["ordersorders"]),
    (r"(?<first>o)(?<second>\k<first>)", ["oo"]),
    (r"(?i)ORDERS", ["orders"]),
    (r"\w++-[a-z]{2}", ["orders-eu"]),
    (r"\w*+s", []),                          # possessive: nothing is given back
    (r"(?>o+)o", []),
    (r".*(?<=-)eu|.*(?<!s)\.1", ["orders-eu"]),
    (r"a[&]b|\[|[]\[]", ["a&b", "["]),
    (r"[\w&\&-]+", ["orders", "orders-eu", "oo", "ordersorders", "a&b"]),
    (r"\(?<a>", ["<a>"]),
])
def test_matches_of_a_pattern(pattern: str, matched: list[str]) -> None:
    assert [topic for topic in TOPICS if java_pattern(pattern).fullmatch(topic)] == matched


@pytest.mark.parametrize(("pattern", "what"), [
    (r"\p{L}+", "bad escape \\p"), (r"[\p{Alpha}]+", "bad escape \\p"), (r"\Qorders.1\E", "bad escape \\Q"),
    ("[a-z&&[^b]]+", "sets within a set, or &&, are not supported: [a-z&&[^b]"), ("[a-c&&b-d]", "or &&, are not"),
    ("[a-d[m-p]]", "not supported: [a-d[m-p]"), ("orders(?i)", "global flags not at the start"),
    ("(?<=a{1,3})b", "look-behind requires fixed-width"), ("(?<n>a)(?<n>b)", "redefinition of group name"),
])
def test_refusals(pattern: str, what: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"option subscribePattern: .*{re.escape(what)}"):
        read_options({"path": "/tmp", "subscribePattern": pattern}, streaming=False)
