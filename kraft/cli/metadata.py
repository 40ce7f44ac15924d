"""`kraft metadata`: a shell over the metadata log, of a running cluster or of files, ours or Apache Kafka's."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from kraft.cli.command import kraft
from kraft.cli.metadata_source import AsOf, load
from kraft.cli.metadata_tree import at, differences, tree_of
from kraft.cli.options import BOOTSTRAP, JSON, TIMEOUT, print_json

Command = Callable[..., None]
PATH: Final = click.argument("path", default="/")
DATA: Final = click.option(
    "--data", type=click.Path(path_type=Path, exists=True),
    help="Read files instead: a data directory, a metadata log's directory, or a snapshot (*.checkpoint).")
AS_OF: Final = click.option("--as-of", metavar="OFFSET|TIME",
                            help="As it was after this offset, or at this time (2026-01-31T09:00:00, UTC).")


def source_options(command: Command) -> Command:
    """Add `--data`, `--bootstrap` and `--timeout`, which select the source, and `--json`."""
    for option in (JSON, TIMEOUT, BOOTSTRAP, DATA):
        command = option(command)
    return command


@kraft.group("metadata")
def metadata_group() -> None:
    """Inspect the metadata log: the cluster's metadata, now or earlier.

    \b
    /image /features /brokers /controllers /topics /configs /quotas /producer_ids /acls /scram /delegation_tokens

    From a running cluster it shows committed metadata, from files everything in the log. Reads only.
    """


@metadata_group.command("ls")
@PATH
@AS_OF
@source_options
def ls_command(path: str, as_of: str | None, data: Path | None, bootstrap: str, timeout: float, as_json: bool) -> None:
    """List the names at PATH, with a slash behind those that contain further names."""
    found = at(tree_of(load(data, bootstrap, timeout, AsOf.parse(as_of))), path)
    names = list(found) if isinstance(found, dict) else [path.rstrip("/").rpartition("/")[2]]
    children = found if isinstance(found, dict) else {}
    if as_json:
        print_json([{"name": name, "names": len(children[name]) if isinstance(children.get(name), dict) else None}
                    for name in names])
    for name in () if as_json else names:
        click.echo(f"{name}/" if isinstance(children.get(name), dict) else name)


@metadata_group.command("cat")
@PATH
@AS_OF
@source_options
def cat_command(path: str, as_of: str | None, data: Path | None, bootstrap: str, timeout: float,
                as_json: bool) -> None:
    """Show everything at PATH, as JSON; with --json in one line."""
    found = at(tree_of(load(data, bootstrap, timeout, AsOf.parse(as_of))), path)
    click.echo(json.dumps(found, ensure_ascii=False, indent=None if as_json else 2))


@metadata_group.command("diff")
@PATH
@click.option("--as-of", metavar="OFFSET|TIME", help="The older side [default: the beginning, or with --with the end].")
@click.option("--to", metavar="OFFSET|TIME", help="The newer side [default: the end].")
@click.option("--with", "other", type=click.Path(path_type=Path, exists=True),
              help="Compare with these files, as in --data: the newer side is read there.")
@source_options
def diff_command(path: str, as_of: str | None, to: str | None, other: Path | None, data: Path | None, bootstrap: str,
                 timeout: float, as_json: bool) -> None:
    """Show the differences between two times, or between two places. Exit code 1 when there are any."""
    before = tree_of(load(data, bootstrap, timeout, AsOf.parse(as_of))) if as_of or other else {}
    after = tree_of(load(other or data, bootstrap, timeout, AsOf.parse(to, "--to")))
    if not _part(before, path):
        at(after, path)     # raises for a path that neither side has
    found = differences(_part(before, path), _part(after, path))
    for each in found:
        full = path.rstrip("/") + each.path
        if as_json:
            print_json([{"path": full, "before": each.before, "after": each.after}])
        elif each.before is None:
            click.echo(f"+ {full} = {_text(each.after)}")
        elif each.after is None:
            click.echo(f"- {full} = {_text(each.before)}")
        else:
            click.echo(f"~ {full} = {_text(each.before)} -> {_text(each.after)}")
    if found:
        raise click.exceptions.Exit(1)


def _part(tree: dict[str, Any], path: str) -> Any:
    """Return the value at the path; empty on a side that lacks it."""
    found: Any = tree
    for name in filter(None, path.split("/")):
        found = found.get(name, {}) if isinstance(found, dict) else {}
    return found


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
