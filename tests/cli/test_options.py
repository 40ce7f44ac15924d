"""Paths that a command writes are checked before its work."""

from pathlib import Path

import pytest

from kraft.cli.command import PARTS, kraft, run
from kraft.cli.options import OUTPUT_DIRECTORY, OUTPUT_FILE


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


def test_no_command_has_a_path_that_nothing_checks() -> None:
    """A path that is written is an `OutputFile` or an `OutputDirectory`; one that is read has to exist, but for
    data directories."""
    data = ("data", "storage")
    loose: list[str] = []
    context = kraft.make_context("kraft", ["completion", "bash"], resilient_parsing=True)

    def visit(command: object, name: str) -> None:
        for child in getattr(command, "list_commands", lambda _: ())(context):
            visit(command.get_command(context, child), f"{name} {child}")     # type: ignore[attr-defined]
        for parameter in getattr(command, "params", ()):
            if type(parameter.type).__name__ == "Path" and not parameter.type.exists and parameter.name not in data:
                loose.append(f"{name} {parameter.name}")

    for part in PARTS:
        visit(kraft.get_command(context, part), part)
    assert loose == []
