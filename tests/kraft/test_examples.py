"""The examples of the documents run, and the table of settings is the one that the engine has.

`python -m tests.kraft.test_examples` writes the table again.
"""

import builtins
import inspect
import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

import kraft
from kraft import (
    Appender,
    AsyncLog,
    Batch,
    BatchBuilder,
    Cursor,
    Log,
    LogConfig,
    LogDir,
    LogReader,
    Record,
    errors,
)
from kraft_native.file import buffer as native_buffer
from kraft_native.file.buffer import Slice
from kraft_native.log import append as native_append
from kraft_native.segment.config import FIELDS
from tools.tree import ROOT

PAGE = ROOT / "docs" / "engine.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TABLE = re.compile(r"(?<=<!-- settings: made from kraft_native\.segment\.config\.FIELDS -->\n)"
                   r".*(?=<!-- end of settings -->)", re.DOTALL)
LARGEST = 2**63 - 1


def number(value: object) -> str:
    """Format round powers of two as such, Kafka's largest number as a word."""
    if value == LARGEST:
        return "no limit"
    if isinstance(value, int) and value >= 1 << 20 and not value % (1 << 20):
        return f"{value >> 20:,} Mi"
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def settings_table() -> str:
    lines = ["| setting | unit | default | allowed | what it does |", "|---|---|---|---|---|"]
    for field in FIELDS:
        if isinstance(field.default, str):
            allowed = ", ".join(f"`{word}`" for word in field.allowed)
            default = f"`{field.default}`"
        else:
            allowed = f"{number(field.allowed[0])} to {number(field.allowed[1])}"
            default = number(field.default)
        own = "" if field.kafka_name else " (own)"
        lines.append(f"| `{field.name}`{own} | {field.unit} | {default} | {allowed} | {field.doc} |")
    return "\n".join(lines) + "\n"


def test_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples run as pasted: in the order of the page, in one empty namespace, in a new directory.

    A failure shows the page's own line. `tests/documents` runs those of all other pages; here the objects that an
    example leaves are counted.
    """
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text()
    names: dict[str, object] = {"__name__": "__main__"}
    blocks = list(BLOCK.finditer(text))
    assert blocks, f"{PAGE}: no examples"
    with redirect_stdout(io.StringIO()):
        for block in blocks:
            line = text[:block.start(1)].count("\n")
            exec(compile("\n" * line + block[1], str(PAGE), "exec"), names)
    names.clear()


# Kafka's setting `log.dirs`, the file `kraft.live`.
OTHERS = {"dirs", "live"}


def named(text: str, owner: str) -> set[str]:
    """The attributes of `owner` that the prose names, as in `log.append`."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return set(re.findall(rf"`{owner}\.(\w+)", prose))


@pytest.mark.parametrize(("owner", "kind"), [
    ("log", Log), ("reader", LogReader), ("cursor", Cursor), ("Log", Log), ("LogReader", LogReader), ("kraft", kraft),
    ("appender", Appender), ("directory", LogDir)])
def test_the_names_of_the_prose_exist(owner: str, kind: object) -> None:
    names = named(PAGE.read_text(), owner) - OTHERS
    assert [name for name in sorted(names) if not hasattr(kind, name)] == []


def test_names_are_read_out_of_the_prose() -> None:
    assert {"recovery", "read", "records", "backup", "get"} >= {"recovery", "get"} <= named(PAGE.read_text(), "log")
    assert named("`log.notes` and\n```python\nlog.hidden\n```\n`log.read(0)`", "log") == {"notes", "read"}


def test_the_methods_of_the_prose_exist() -> None:
    """Names with parentheses, of any owner."""
    prose = re.sub(r"^```.*?^```$", "", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)
    kinds = (Log, LogReader, LogDir, LogConfig, Cursor, Appender, AsyncLog, BatchBuilder)
    called = set(re.findall(r"`(\w+)\([^`]*\)`", prose)) - {kind.__name__ for kind in kinds}
    assert len(called) > 15
    assert [name for name in sorted(called) if not any(hasattr(kind, name) for kind in (*kinds, builtins))] == []


def test_the_classes_and_attributes_of_the_prose_exist() -> None:
    """Names of classes, and names of several words: attributes, settings and parameters."""
    prose = re.sub(r"^```.*?^```$", "", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)
    classes = set(re.findall(r"`([A-Z]\w+)`", prose))
    homes = (kraft, errors, builtins, native_append, native_buffer)
    values = {"CreateTime", "LogAppendTime"}
    assert sorted(name for name in classes - values if not any(hasattr(each, name) for each in homes)) == []
    words = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", prose))
    known = {field.name for field in FIELDS} | {
        name for kind in (Log, LogReader, LogDir, Batch, Record, Slice) for name in dir(kind)} | {
        name for function in (Log.compact, Appender.__init__, Log.append_columns)
        for name in inspect.signature(function).parameters}
    assert len(words) > 20
    assert sorted(words - known) == []


def test_every_task_has_an_example() -> None:
    """Each section of the page but the last shows code."""
    sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]
    assert [section.split("\n")[0] for section in sections if not BLOCK.search(section)] == ["Settings"]


def test_the_settings_table_is_current() -> None:
    assert TABLE.search(PAGE.read_text())[0] == settings_table()


if __name__ == "__main__":
    PAGE.write_text(TABLE.sub(lambda _: settings_table(), PAGE.read_text()))
