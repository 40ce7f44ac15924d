"""Options that many commands have, and the output of their results."""

import json
import os
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from pathlib import Path
from typing import IO, Any, Final

import click

from kraft.cli.client_config import bootstrap_options
from kraft.cli.number_types import FloatRange
from kraft.cli.server_config import DATA_DEFAULT

Command = Callable[..., None]
Fields = dict[str, Any]

ADDRESS_DEFAULT: Final = "127.0.0.1:9092"
BOOTSTRAP_VARIABLE: Final = "KRAFT_BOOTSTRAP"
TIMEOUT_SECONDS_DEFAULT: Final = 30.0
SECONDS_MAX: Final = 2_000_000.0


class OutputFile(click.Path):
    """A file to write. Before any work it is checked that its directory exists and that it is writable."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, dir_okay=False, writable=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        directory = path.parent
        if not directory.is_dir():
            self.fail(f"{str(path)!r}: there is no directory {str(directory)!r}.", param, ctx)
        if not path.exists() and not os.access(directory, os.W_OK | os.X_OK):
            self.fail(f"{str(path)!r}: the directory {str(directory)!r} is not writable.", param, ctx)
        return path


OUTPUT_FILE: Final = OutputFile()


class OutputDirectory(click.Path):
    """A directory to write into, created when it is missing; checked as `OutputFile`."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, file_okay=False, writable=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        above = next(each for each in (path, *path.absolute().parents) if each.exists())
        if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
            self.fail(f"{str(path)!r} cannot be made: {str(above)!r} is no directory that is writable.", param, ctx)
        return path


OUTPUT_DIRECTORY: Final = OutputDirectory()


class Seconds(FloatRange):
    """Finite waiting time of a command, whose milliseconds fit the 32 bits that requests have for them."""

    name = "seconds"

    def __init__(self, *, zero: bool = False) -> None:
        super().__init__(0, SECONDS_MAX, min_open=not zero)


JSON: Final = click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
BOOTSTRAP: Final = bootstrap_options(
    default=ADDRESS_DEFAULT, show_default=True, envvar=BOOTSTRAP_VARIABLE,
    help=f"Nodes of the cluster to contact first; also {BOOTSTRAP_VARIABLE}.")
TIMEOUT: Final = click.option(
    "--timeout", default=TIMEOUT_SECONDS_DEFAULT, show_default=True, type=Seconds(),
    help="Seconds that one request may take.")


def server_config_options(command: Command) -> Command:
    """Add `--config`, `--data` and `--set`, the sources of a node's settings."""
    for option in (
        click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE",
                     help="A setting over those of the file; may be given again."),
        click.option("--data", type=click.Path(path_type=Path, file_okay=False),
                     help=f"Data directory [default: log.dirs of the file, else ./{DATA_DEFAULT}]."),
        click.option("-c", "--config", "file", type=click.Path(path_type=Path, exists=True, dir_okay=False),
                     help="Properties with Kafka's keys, such as its server.properties."),
    ):
        command = option(command)
    return command


def secret_file_option(name: str, what: str) -> Callable[[Command], Command]:
    """Return an option for a file with a secret, which `read_secret` reads."""
    return click.option(name, type=click.File("r", encoding="utf-8"),
                        help=f"File whose first line is the {what}; - is standard input. Without it the command "
                        "prompts.")


def read_secret(file: IO[str] | None, prompt: str, *, is_new: bool = False) -> str:
    """Return the first line of a file, or without one the answer to the prompt. A new secret is typed twice."""
    if file is None:
        return str(click.prompt(prompt, hide_input=True, confirmation_prompt=is_new, err=True))
    return file.readline().rstrip("\r\n")


def cluster_options(command: Command) -> Command:
    """Add `--bootstrap`, `--timeout` and `--json`, for commands that query a cluster."""
    for option in (JSON, TIMEOUT, BOOTSTRAP):
        command = option(command)
    return command


def on_cluster(command: Command) -> Command:
    """Add the same options, and pass the cluster that they name as `cluster`."""
    @cluster_options
    @wraps(command)
    def with_cluster(bootstrap: str, timeout: float, **options: Any) -> None:
        from kraft.client import Cluster

        with Cluster(bootstrap, timeout=timeout) as cluster:
            command(cluster, **options)

    return with_cluster


def print_json(rows: Iterable[Fields]) -> None:
    """Print one object per line."""
    for row in rows:
        click.echo(json.dumps(row, ensure_ascii=False, default=str))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None) -> None:
    """Print columns as wide as their widest cell, numbers to the right. Wide tables are not folded, for pipes."""
    cells = [[_cell(value) for value in row] for row in rows]
    numeric = [all(_is_number(row[at]) for row in cells) and bool(cells) for at in range(len(columns))]
    widths = [max(len(line[at]) for line in [list(columns), *cells]) for at in range(len(columns))]
    if title:
        click.secho(title, bold=True)
    click.secho(_line([name.upper() for name in columns], widths, numeric), dim=True)
    for row in cells:
        click.echo(_line(row, widths, numeric))


def print_rows(as_json: bool, rows: Iterable[Fields], columns: Sequence[str],
               cells: Iterable[Sequence[object]]) -> None:
    """Print rows: as JSON, or as a table of these cells."""
    if as_json:
        print_json(rows)
    else:
        print_table(columns, cells)


def print_fields(rows: Iterable[tuple[str, object]]) -> None:
    """Print names and values, one pair per line."""
    shown = [(name, _cell(value)) for name, value in rows]
    width = max((len(name) for name, _ in shown), default=0) + 2
    for name, value in shown:
        click.echo(f"{name:<{width}}{value}".rstrip())


def _line(cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    parts = [cell.rjust(width) if right else cell.ljust(width)
             for cell, width, right in zip(cells, widths, numeric, strict=True)]
    return "  ".join(parts).rstrip()


def _cell(value: object) -> str:
    match value:
        case None | "":
            return "-"
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return visible(",".join(map(str, value))) or "-"
        case _:
            return visible(str(value))


def visible(text: str) -> str:
    """Return the text with escapes in place of characters that control a terminal. Clients choose their names."""
    return text if text.isprintable() else "".join(
        each if each.isprintable() or each in "\n\t" else each.encode("unicode_escape", "replace").decode()
        for each in text)


def _is_number(text: str) -> bool:
    return text == "-" or text.lstrip("-").isdecimal()


def count_of(count: int, what: str) -> str:
    """Return `1 topic`, `2 topics`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"
