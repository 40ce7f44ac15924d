"""Lines that a node writes about itself: causes in one line, tracebacks only for its own faults."""

import json
import logging

import pytest

from kraft.runtime.base.log_output import JsonLines, TextLines, set_up
from kraft_native.base.errors import InvalidArgumentError


def record(error: BaseException | None) -> logging.LogRecord:
    made = logging.LogRecord("kraft.x", logging.ERROR, "x.py", 1, "%s failed", ("it",),
                             None if error is None else (type(error), error, error.__traceback__))
    made.created = 86_400.25
    return made


def raised(outer: Exception, cause: Exception) -> Exception:
    with pytest.raises(type(outer)) as caught:
        raise outer from cause
    return caught.value


def test_a_line() -> None:
    assert TextLines().format(record(None)) == "1970-01-02T00:00:00.250Z ERROR    kraft.x: it failed"
    assert json.loads(JsonLines().format(record(None))) == {
        "time": "1970-01-02T00:00:00.250Z", "level": "error", "logger": "kraft.x", "message": "it failed"}


def test_causes_of_what_was_expected() -> None:
    error = raised(InvalidArgumentError("a is wrong"), OSError(2, "No such file", "f"))
    assert TextLines().format(record(error)).endswith(": it failed: a is wrong: [Errno 2] No such file: 'f'")
    assert json.loads(JsonLines().format(record(error)))["causes"] == [
        {"type": "InvalidArgumentError", "message": "a is wrong"},
        {"type": "FileNotFoundError", "message": "[Errno 2] No such file: 'f'"}]


def test_a_fault_of_ours_has_its_traceback() -> None:
    error = raised(ZeroDivisionError("no"), InvalidArgumentError("b"))
    first, *rest = TextLines().format(record(error)).splitlines()
    assert first.endswith("it failed: ZeroDivisionError: no: b")
    assert any("test_log_output.py" in line for line in rest)
    assert "Traceback" in json.loads(JsonLines().format(record(error)))["traceback"]


def test_a_circle_of_causes_ends() -> None:
    one, two = OSError("one"), OSError("two")
    one.__cause__, two.__cause__ = two, one
    assert TextLines().format(record(one)).endswith("it failed: one: two")


def test_set_up(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    before = (root.level, root.handlers[:])
    try:
        set_up("warning", "json")
        logging.getLogger("kraft.y").info("unseen")
        logging.getLogger("kraft.y").warning("seen")
    finally:
        root.level, root.handlers[:] = before
    [line] = capsys.readouterr().err.splitlines()
    assert json.loads(line)["message"] == "seen"
