"""Paths that a command writes, and times that it waits, are checked before its work."""

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from kraft.cli.command import PARTS, kraft, run
from kraft.cli.options import (
    OUTPUT_DIRECTORY,
    OUTPUT_FILE,
    OutputDirectory,
    OutputFile,
    print_fields,
    print_table,
)


def parameters() -> Iterator[tuple[str, click.Parameter]]:
    """Every parameter of every command, by their names."""
    context = kraft.make_context("kraft", ["completion", "bash"], resilient_parsing=True)

    def visit(command: click.Command | None, name: str) -> Iterator[tuple[str, click.Parameter]]:
        assert command is not None
        if isinstance(command, click.Group):
            for child in command.list_commands(context):
                yield from visit(command.get_command(context, child), f"{name} {child}")
        for parameter in command.params:
            yield f"{name} {parameter.opts[0]}", parameter

    for part in PARTS:
        yield from visit(kraft.get_command(context, part), part)


def test_a_file(tmp_path: Path) -> None:
    assert OUTPUT_FILE.convert(str(tmp_path / "new"), None, None) == tmp_path / "new"
    (tmp_path / "file").touch()
    assert OUTPUT_FILE.convert(str(tmp_path / "file"), None, None) == tmp_path / "file"
    for bad in (tmp_path, tmp_path / "file" / "x", tmp_path / "none" / "x", Path("/dev/null/x")):
        with pytest.raises(Exception, match=r"director|writable"):
            OUTPUT_FILE.convert(str(bad), None, None)


def test_a_directory(tmp_path: Path) -> None:
    assert OUTPUT_DIRECTORY.convert(str(tmp_path / "a" / "b"), None, None) == tmp_path / "a" / "b"
    (tmp_path / "file").touch()
    for bad in (tmp_path / "file", tmp_path / "file" / "x", Path("/dev/null/x")):
        with pytest.raises(Exception, match=r"director"):
            OUTPUT_DIRECTORY.convert(str(bad), None, None)


@pytest.mark.parametrize("words", [
    ("bench", "compare", "nobody:1", "nobody:1", "ping", "--html", "/nonexistent/x"),
    ("topics", "reassign", "plan", "t", "--out", "/nonexistent/x"),
    ("quorum", "timeline", "--out", "/nonexistent/x"), ("simulate", "--seed", "1", "--output", "/nonexistent/x"),
    ("pipeline", "metadata", "/", "--out", "/dev/null/x"), ("pipeline", "export", "/dev/null/x"),
    ("spark", "bundle", "--output", "/nonexistent/x"),
], ids=" ".join)
def test_every_command_checks_its_output(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(list(words)) == 2
    assert "Invalid value for" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("topics", "list"), ("consume", "t"), ("why",), ("quorum", "status")], ids=" ".join)
@pytest.mark.parametrize("seconds", ["nan", "inf", "1e300", "2147484", "0", "-1", "x"])
def test_times_to_wait_are_finite(words: tuple[str, ...], seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*words, "--timeout", seconds, "--bootstrap", "127.0.0.1:1"]) == 2
    assert "Invalid value for '--timeout'" in capsys.readouterr().err


def test_no_command_waits_without_a_bound() -> None:
    """An option accepts only finite floating-point numbers."""
    loose = [name for name, parameter in parameters()
             if isinstance(parameter.type, click.FloatRange) and parameter.type.max is None]
    assert loose == ["simulate --minutes"]


def test_no_command_has_a_path_that_nothing_checks() -> None:
    """A path that is written is an `OutputFile` or an `OutputDirectory`.

    A path that is read has to exist, except for data directories.
    """
    data = ("data", "storage")
    loose = [name for name, parameter in parameters() if isinstance(parameter.type, click.Path)
             and not isinstance(parameter.type, OutputFile | OutputDirectory)
             and not parameter.type.exists and parameter.name not in data]
    assert loose == []


def test_names_that_control_a_terminal_are_shown_as_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    """Clients and producers choose them."""
    print_table(("client", "many"), [("a\x1b]0;title\x07", ["b\x9b1m", "\u202e"]), ("caf\u00e9", 5)])
    print_fields([("name", "x\x1b[2J")])
    shown = capsys.readouterr().out
    assert all(each.isprintable() or each == "\n" for each in shown)
    assert all(text in shown for text in (r"a\x1b]0;title\x07", r"b\x9b1m,\u202e", "caf\u00e9", r"x\x1b[2J"))
