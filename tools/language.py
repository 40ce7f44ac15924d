"""Plain technical English, as far as it can be counted: words, first words of docstrings, length of sentences.

    python -m tools.language [--summary] [PATH...]

prints every breach as `path:line: what` and ends with 1 when one exists. `--summary` prints numbers instead: breaches
by kind and the lengths of sentences. The rules are in `docs/style.md`, the words in `language.toml`. Identifiers and
messages that are not rewritten yet are `pending` there, by path; they are checked when a path is named.
"""

import fnmatch
import re
import statistics
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tools.prose import (
    C_SUFFIXES,
    CYTHON_SUFFIXES,
    PYTHON_SUFFIXES,
    Prose,
    identifier_words,
    prose,
    sentences,
    words,
)
from tools.tree import ROOT, files

PENDING_KINDS: Final = ("identifier", "message")
SENTENCE_WORDS_MAX: Final = 30
LONG_SENTENCE: Final = "a long sentence"
"""Stands for the length of sentences in `allowed`."""
ALLOWED_MAX: Final = 30
FIRST_WORDS: Final = frozenset((
    "who", "whom", "whose", "what", "which", "whether", "whoever", "whatever", "where", "when", "how", "why", "that",
    "than", "so", "as", "if", "of", "for", "from", "by", "in", "on", "to", "at", "with", "without", "within", "until",
    "after", "before", "since", "under", "over", "between", "beside", "behind", "above", "below", "against", "into",
    "onto", "upon",
))
"""A docstring begins with none of them: it begins with a verb or with the thing."""
SUFFIXES: Final = (".md", *PYTHON_SUFFIXES, *CYTHON_SUFFIXES, *C_SUFFIXES)
RULES = tomllib.loads((ROOT / "tools/language.toml").read_text())


def patterns(table: dict[str, str]) -> tuple[re.Pattern[str], dict[str, str]]:
    """One expression for all words, and what to write for each alternative."""
    return re.compile(rf"\b(?:{'|'.join(table)})\b", re.IGNORECASE), table


WORDS, WRITE = patterns(RULES["words"])
NAME_WORDS, WRITE_NAMES = patterns(RULES["identifiers"])


class Breach(NamedTuple):
    """A rule that a piece of prose breaks."""

    line: int
    kind: str
    text: str


def write(found: str, table: dict[str, str]) -> str:
    return next(wanted for pattern, wanted in table.items() if re.fullmatch(pattern, found, re.IGNORECASE))


def is_allowed(path: Path, word: str) -> bool:
    return any(re.fullmatch(entry["word"], word, re.IGNORECASE)
               and fnmatch.fnmatch(str(path.relative_to(ROOT)), entry["path"]) for entry in RULES["allowed"])


def breaches(path: Path, pieces: list[Prose]) -> Iterator[Breach]:
    """Every breach in the prose of one file."""
    for piece in pieces:
        if piece.kind == "identifier":
            for word in identifier_words(piece.text):
                if NAME_WORDS.fullmatch(word) and not is_allowed(path, word):
                    yield Breach(piece.line, "identifier", f"{piece.text}: {word!r}; write {write(word, WRITE_NAMES)}")
            continue
        for match in WORDS.finditer(piece.text):
            if not is_allowed(path, match[0]):
                yield Breach(piece.line, "message" if piece.kind == "message" else "word",
                             f"{match[0]!r} in a {piece.kind}; write {write(match[0], WRITE)}")
        if piece.kind != "message" and not is_allowed(path, LONG_SENTENCE):
            yield from sentence_breaches(piece)
        if piece.opens and (first := re.match(r"[A-Za-z]+", piece.text)) and first[0].lower() in FIRST_WORDS:
            yield Breach(piece.line, "first word", f"a docstring that begins with {first[0]!r}")


def sentence_breaches(piece: Prose) -> Iterator[Breach]:
    for sentence in sentences(piece.text):
        if (length := words(sentence)) > SENTENCE_WORDS_MAX:
            yield Breach(piece.line, "sentence",
                         f"a sentence of {length} words, {SENTENCE_WORDS_MAX} allowed: {sentence[:60]}...")


def summary(found: Counter[str], lengths: dict[str, list[int]]) -> None:
    print(", ".join(f"{kind}: {count}" for kind, count in sorted(found.items())) or "no breaches")
    for kind, counts in sorted(lengths.items()):
        if len(counts) > 1:
            print(f"{kind}: {len(counts)} sentences, mean {statistics.mean(counts):.1f} words, "
                  f"p90 {statistics.quantiles(counts, n=10)[-1]:.0f}, longest {max(counts)}")


def pending_entry(path: Path) -> str | None:
    """Return the entry by which identifiers and messages of this file wait."""
    name = str(path.relative_to(ROOT))
    return next((entry for entry in RULES["pending"] if name.startswith(entry)), None)


def main() -> int:
    """Check everything that is not pending, or all of the named paths."""
    named = [Path(each).resolve() for each in sys.argv[1:] if not each.startswith("-")]
    found: Counter[str] = Counter()
    waiting: Counter[str] = Counter()
    lengths: dict[str, list[int]] = {}
    for path in (each for top in named or [ROOT] for each in ([top] if top.is_file() else files(top))):
        if path.suffix not in SUFFIXES:
            continue
        pieces = list(prose(path, path.read_text()))
        wrong = sorted(set(breaches(path, pieces)))
        for piece in pieces:
            if piece.kind not in ("identifier", "message"):
                lengths.setdefault(piece.kind, []).extend(n for each in sentences(piece.text) if (n := words(each)) > 3)
        if (entry := pending_entry(path)) and not named:
            waiting[entry] += sum(breach.kind in PENDING_KINDS for breach in wrong)
            wrong = [breach for breach in wrong if breach.kind not in PENDING_KINDS]
        found.update(breach.kind for breach in wrong)
        if "--summary" not in sys.argv:
            print("".join(f"{path.relative_to(ROOT)}:{each.line}: {each.text}\n" for each in wrong), end="")
    for entry in (each for each in RULES["pending"] if not named and not waiting[each]):
        found["entry of `pending` without a breach"] += 1
        print(f"tools/language.toml: nothing is pending in {entry}")
    if "--summary" in sys.argv:
        summary(found, lengths)
    print(f"language: {found.total()} breaches, {waiting.total()} pending")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
