"""The table of the connector's tests is true: each test that it names exists, everything else has a reason."""

import re
from collections import Counter

from tools.tree import ROOT

TABLE = ROOT / "docs" / "internals" / "connector-tests.md"
SUITE = re.compile(r"^## (\w+)$", re.MULTILINE)
ROW = re.compile(r"^\| (?P<test>[^|]+) \| (?P<answer>[^|]+) \|$", re.MULTILINE)
MET = re.compile(r"`(?P<peer>peer/)?(?P<module>test_\w+)::(?P<name>test_\w+)`")
NOT_POSSIBLE = re.compile(r"not possible: \S.{20,}")


def rows() -> list[tuple[str, str, str]]:
    """Return (suite, test of the connector, our test or reason)."""
    _, *parts = SUITE.split(TABLE.read_text())
    return [(suite, row["test"], row["answer"]) for suite, text in zip(parts[::2], parts[1::2], strict=True)
            for row in ROW.finditer(text) if row["test"] not in ("test", "---")]


def test_there_is_no_third_kind() -> None:
    for suite, test, answer in rows():
        assert MET.fullmatch(answer) or NOT_POSSIBLE.fullmatch(answer), f"{suite}: {test}: {answer}"
    assert len({row[:2] for row in rows()}) == len(rows())


def test_names_in_the_document_exist() -> None:
    for _, test, answer in rows():
        if (named := MET.fullmatch(answer)) is not None:
            file = ROOT / "tests" / ("peer" if named["peer"] else "spark") / f"{named['module']}.py"
            assert f"\ndef {named['name']}(" in file.read_text(), f"{test}: {answer}"


def test_the_counts_are_right() -> None:
    text = TABLE.read_text()
    kinds = Counter(bool(MET.fullmatch(answer)) for _, _, answer in rows())
    assert f"{kinds[True] + kinds[False]} behaviours: {kinds[True]} are met, {kinds[False]} are not possible." in text
