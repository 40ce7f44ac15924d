"""The language checks find the breaches that they are for, and pass plain prose."""

from pathlib import Path

import pytest

from tools import language
from tools.prose import identifier_words, prose, sentences, words
from tools.tree import ROOT

LONG = "The log " + "and the log " * 10 + "is cut."


def breaches(name: str, text: str) -> list[str]:
    path = ROOT / name
    return [each.kind for each in language.breaches(path, list(prose(path, text)))]


@pytest.mark.parametrize(("name", "text"), [
    ("new.md", "# Title\n\nThe leader goes on.\n"),
    ("new.md", "# Title\n\n| a | b |\n|---|---|\n| one | The leader tells all. |\n"),
    ("new.md", "# Title\n\n- A broker is\n  told its epoch.\n"),
    ("new.py", '"""The leader\nis told."""\n'),
    ("new.py", "# It is\n# gone now.\n"),
        ("new.pyx", 'cdef int f():\n    """Answers are heard."""\n'),
    ("new.pyx", "# The twin of this.\n"),
    ("new.h", "/* The reader\n * goes on here. */\n"),
])
def test_words(name: str, text: str) -> None:
    assert breaches(name, text) == ["word"]


def test_messages() -> None:
    assert breaches("new.py", "raise ValueError('the stranger is refused')\n") == ["message"]
    assert breaches("new.pyx", "raise ValueError('the stranger is refused')\n") == ["message"]


@pytest.mark.parametrize(("name", "text"), [
    ("new.md", f"# Title\n\n{LONG}\n"),
    ("new.md", f"# Title\n\n1. {LONG}\n"),
    ("new.py", f'"""A log.\n\n{LONG}\n"""\n'),
    ("new.py", f"x = 1  # {LONG}\n"),
    ("new.pxd", f"# {LONG}\n"),
])
def test_sentences(name: str, text: str) -> None:
    assert breaches(name, text) == ["sentence"]


@pytest.mark.parametrize("text", ["What is kept.", "Of the log.", "Whether it is open.", "As `x`."])
def test_first_words(text: str) -> None:
    assert breaches("new.py", f'def f():\n    """{text}"""\n') == ["first word"]
    assert breaches("new.pyx", f'def f():\n    """{text}"""\n') == ["first word"]


def test_only_the_first_word_of_a_docstring_counts() -> None:
    assert breaches("new.py", '"""A log.\n\nOf its records some are dropped.\n"""\n') == []


@pytest.mark.parametrize(("text", "found"), [
    ("is_told = 1\n", ["identifier"]), ("class UntoldError: ...\n", ["identifier"]), ("task = folder\n", [])])
def test_identifiers(text: str, found: list[str]) -> None:
    assert breaches("new.py", text) == found
    assert breaches("new.pyx", text) == found


@pytest.mark.parametrize(("name", "text"), [
    ("new.md", "# Title\n\n```\nask who is gone\n```\n\nThe node runs `ask --who`.\n"),
    ("new.md", "# Title\n\n[The list](told/who.md) is short.\n"),
    ("new.py", 'KEY = "told"\n\n\ndef f():\n    """Return `told`, or 1."""\n'),
    ("new.c", "int f(void) { return 1; }  /* The high watermark of a log. */\n"),
])
def test_code_is_not_prose(name: str, text: str) -> None:
    assert breaches(name, text) == []


def test_comments_behind_code_are_pieces_of_their_own() -> None:
    text = "".join(f"x{index} = 1  # bytes that this log has, and that no other log has, of the segment\n"
                   for index in range(3))
    assert breaches("new.py", text) == []
    assert breaches("new.pxd", text) == []


def test_parts_of_prose() -> None:
    assert sentences("One. Two, e.g. this one! Three?") == ["One.", "Two, e.g. this one!", "Three?"]
    assert words("A log - or two - is open.") == 6
    assert identifier_words("isToldOff") == ["is", "told", "off"]
    assert identifier_words("HTTPServer_v2") == ["http", "server", "v", "2"]


def test_exceptions_are_few_and_have_reasons() -> None:
    allowed = language.RULES["allowed"]
    assert len(allowed) <= language.ALLOWED_MAX
    assert all(set(entry) == {"word", "path", "reason"} and entry["reason"] for entry in allowed)


def test_an_exception_is_of_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(language.RULES, "allowed", [{"word": "ask", "path": "docs/*", "reason": "a quote"}])
    assert language.is_allowed(ROOT / "docs/a.md", "Ask")
    assert not language.is_allowed(ROOT / "docs/a.md", "told")
    assert not language.is_allowed(ROOT / "kraft/a.md", "ask")


def test_pending_names_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                    capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(language, "ROOT", tmp_path)
    (tmp_path / "a.py").write_text("is_told = 'it goes on'\n")
    monkeypatch.setitem(language.RULES, "pending", ["a.py"])
    monkeypatch.setattr("sys.argv", ["language"])
    assert language.main() == 0
    monkeypatch.setattr("sys.argv", ["language", str(tmp_path / "a.py")])
    assert language.main() == 1
    monkeypatch.setattr("sys.argv", ["language"])
    (tmp_path / "a.py").write_text("is_told = 'it goes on'  # as he was told\n")
    assert language.main() == 1
    (tmp_path / "a.py").write_text("is_known = 'it continues'\n")
    assert language.main() == 1
    assert "nothing is pending in a.py" in capsys.readouterr().out
