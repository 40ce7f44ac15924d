"""Linear-time patterns, compared with Python's."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.broker.coordinator.patterns import PATTERN_MAX, Pattern, PatternError

ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\d", r"\W", r"\.", "[a-c-]"])
PATTERNS = st.recursive(ATOMS, lambda inner: st.one_of(
    st.lists(inner, max_size=3).map("".join), st.lists(inner, min_size=1, max_size=3).map(
        lambda each: f"({'|'.join(each)})"), inner.map(lambda each: f"({each})*"),
    inner.map(lambda each: f"({each})+"), inner.map(lambda each: f"(?:{each})?"),
    inner.map(lambda each: f"({each}){{0,2}}"), inner.map(lambda each: f"({each}){{2}}"),
    inner.map(lambda each: f"({each}){{1,}}?"), inner.map(lambda each: f"^{each}$")), max_leaves=6)


@given(PATTERNS, st.text("ab.-1", max_size=6))
def test_it_matches_like_a_backtracking_matcher(pattern: str, text: str) -> None:
    expected = re.fullmatch(pattern, text, re.ASCII | re.DOTALL) is not None
    assert Pattern(pattern).matches(text) is expected


def test_a_pattern_that_backtracks_for_years_takes_no_time() -> None:
    assert not Pattern("(a*)*(a*)*(a|a)*b").matches("a" * 2_000)


@pytest.mark.parametrize("text", ["(", ")", "a)", "[", "[]", "*",
                                  "a{", "a{,2}", "a{3,2}", "a{1001}", "((a{99}){99}){9}", "{2}",
                                  "a{x}", "\\", r"\q", "[b-a]", "(?i)a",
                                  "(" * 60 + ")" * 60, "a" * (PATTERN_MAX + 1)])
def test_malformed_and_unsupported_patterns_are_refused(text: str) -> None:
    with pytest.raises(PatternError):
        Pattern(text)
