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
    expected = re.fullmatch(pattern, text, re.ASCII) is not None
    assert Pattern(pattern).matches(text) is expected


def test_a_pattern_that_backtracks_for_years_takes_no_time() -> None:
    assert not Pattern("(a*)*(a*)*(a|a)*b").matches("a" * 2_000)


@pytest.mark.parametrize("text", [
    "(", ")", "a)", "[", "[]", "*", "(*)", "a|*", "{2}", "(?i)*", "a{3,2}", "a{1001}", "a{99999999999}", "{?", "\\",
    r"[\\", "a**", "a*+", "a{2}{2}", "a???", "[b-a]", r"[a-\d]", "[[:word]:]", "[[:letter:]]",
    r"\q", r"\1", r"\8", r"\C", r"\Z", r"\x", r"\x{}", r"\x4", r"\x{110000}", r"\p", r"\p{L", r"\p{Letter}",
    "(?", "(?i", "(?x)", "(?-)", "(?i-)", "(?i-s-m)", "(?=a)", "(?!a)", "(?<=a)", "(?<!a)", "(?>a)", "(?#a)", "(?P=a)",
    "(?P<>a)", "(?P<a.b>c)", "(?P<a>b)(?<a>c)"])
def test_malformed_patterns_are_refused(text: str) -> None:
    """RE2/J 1.8 refuses each of them."""
    with pytest.raises(PatternError):
        Pattern(text)


@pytest.mark.parametrize("text", ["((a{99}){99}){9}", "(a" * 160 + ")" * 160, "a" * (PATTERN_MAX + 1), r"\p{Greek}"])
def test_patterns_beyond_a_limit_are_refused(text: str) -> None:
    with pytest.raises(PatternError):
        Pattern(text)


@pytest.mark.parametrize(("pattern", "matching", "others"), [
    ("(?i)ab", ["ab", "AB", "aB"], ["a", "abc"]),
    ("a(?i)b", ["ab", "aB"], ["Ab"]),
    ("(a(?i)b|c)d", ["aBd", "Cd"], ["abD", "Abd"]),      # up to the end of the group, in other alternatives too
    ("(?i:a)b", ["ab", "Ab"], ["aB"]),
    ("(?i)a(?-i:b)c", ["abc", "AbC"], ["aBc"]),
    ("(?i)a(?-i)b", ["Ab"], ["AB"]),
    ("(?i)[a-c]+", ["aBc"], ["d"]),
    ("(?i)[^a]", ["b"], ["a", "A"]),
    ("(?i)k", ["k", "K", "\u212a"], ["l"]),
    (r"(?i)\W", ["."], ["\u212a", "k"]),
    (r"(?i)\p{Lu}", ["a", "A"], ["1"]),
    ("(?i)[[:upper:]]", ["a"], ["1"]),
    (r"(?i)\Qa.\E", ["A."], ["ab"]),
    ("a.b", ["a-b"], ["a\nb"]),
    ("(?s)a.b", ["a-b", "a\nb"], ["ab"]),
    ("(?is-i)A.", ["A\n"], ["a\n"]),
    ("(?U)a+", ["a", "aa"], [""]),
    ("(?U)a+?b*", ["aabb"], ["b"]),
    ("a\n^b$", [], ["a\nb"]),
    ("(?m)a$\n^b", ["a\nb"], ["ab"]),
    (r"(?m)a$\n\Ab", [], ["a\nb"]),
    ("()", [""], ["a"]),
    ("(?)", [""], ["a"]),
    ("a(?i)*", ["", "aa"], ["A"]),
    ("a*(?i)*", ["", "aa"], ["A"]),
    (r"\Qab\E*", ["a", "abb"], ["abab"]),
    ("a{", ["a{"], ["a"]),
    ("a{,2}", ["a{,2}"], ["aa"]),
    ("a{x}", ["a{x}"], []),
    ("a{02}", ["a{02}"], ["aa"]),
    ("a{0}", [""], ["a"]),
    ("(?P<one>a)(?<two>b)", ["ab"], ["a"]),
    ("(?P<one>a){2}", ["aa"], ["a"]),
    (r"a\b.*", ["a", "a-"], ["ab"]),
    (r"a\B.*", ["ab"], ["a", "a-"]),
    (r"\Aa\z", ["a"], ["a\n"]),
    ("[]a]", ["]", "a"], ["b"]),
    ("[a-c-e]", ["b", "-", "e"], ["d"]),
    (r"[\d-]", ["1", "-"], ["a"]),
    ("[[:alpha:]_]+", ["aZ_"], ["1"]),
    ("[[:^digit:]]", ["a"], ["1"]),
    (r"\x41\x{42}\103\0", ["ABC\0"], ["ABC"]),
    (r"\t\_\-", ["\t_-"], []),
    (r"\pL\PL\p{^Nd}", ["é1a"], ["1aa", "aa1"]),
    (r"\p{C}", ["\t"], ["a", "\u0378"]),
])
def test_it_matches_like_re2j(pattern: str, matching: list[str], others: list[str]) -> None:
    """RE2/J 1.8 gives the same results."""
    found = Pattern(pattern)
    assert [text for text in matching + others if found.matches(text)] == matching


def test_repetitions_in_repetitions_do_not_multiply_the_states() -> None:
    assert Pattern("(" * 40 + "a" + ")+" * 40).matches("aaa")
