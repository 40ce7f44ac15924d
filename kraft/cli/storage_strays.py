"""`kraft storage strays`: partition directories that the node neither serves nor deletes."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kraft.cli.cluster import size_text
from kraft.cli.options import JSON, Fields, print_json, print_table, server_config_options
from kraft.cli.server_config import server_config
from kraft.config.errors import InvalidConfigError
from kraft.config.node_config import NodeConfig

if TYPE_CHECKING:
    from kraft.runtime.storage.strays import Stray

DRY_RUN = click.option("--dry-run", is_flag=True, help="Only print what would be done.")
NAMES = click.argument("names", nargs=-1, metavar="[NAME]...")
ALL = click.option("--all", "every", is_flag=True, help="Every stray for which it is possible.")


@click.group("strays")
def strays_group() -> None:
    """List, adopt and discard stray partition directories.

    A node renames the directory of a partition to NAME-stray when the metadata does not place it there, or when another
    directory has the replica too. The node neither serves nor deletes it.
    """


@strays_group.command("list")
@server_config_options
@JSON
def list_command(file: Path | None, data: Path | None, assignments: tuple[str, ...], as_json: bool) -> None:
    """Show every stray, and whether it can be adopted. Reads only; the node may run."""
    rows = [_fields(each) for each in _find(server_config(file, data, None, assignments))]
    if as_json:
        print_json(rows)
    elif rows:
        print_table(("name", "directory", "size", "adoptable"),
                    [(row["name"], row["directory"], size_text(row["bytes"]),
                      "yes" if row["adoptable"] else f"no: {row['reason']}") for row in rows])
    else:
        click.echo("no strays")


@strays_group.command("adopt")
@NAMES
@ALL
@click.option("--replace", is_flag=True, help="Where another directory has the partition, that one becomes a stray.")
@DRY_RUN
@server_config_options
def adopt_command(names: tuple[str, ...], every: bool, replace: bool, dry_run: bool, file: Path | None,
                  data: Path | None, assignments: tuple[str, ...]) -> None:
    """Make strays replicas again. The node must not run.

    A stray can be adopted only if the metadata has its topic id and partition on this node. Without --replace, no other
    directory may have the partition.
    """
    from kraft.runtime.storage.strays import adopt, locked

    config = server_config(file, data, None, assignments)
    with locked(_directories(config)):
        found = _find(config)
        chosen = ([each for each in found if each.target and (replace or not each.copies)] if every
                  else _named(found, names))
        for stray in chosen:
            if dry_run:
                click.echo(f"{stray.path} -> {stray.target.directory_name}" if stray.target and (
                    replace or not stray.copies) else f"{stray.path}: {_reason(stray)}")
            else:
                click.echo(f"{stray.path} -> {adopt(stray, replace=replace).name}")


@strays_group.command("discard")
@NAMES
@ALL
@click.option("--yes", is_flag=True, help="Delete without a question.")
@DRY_RUN
@server_config_options
def discard_command(names: tuple[str, ...], every: bool, yes: bool, dry_run: bool, file: Path | None,
                    data: Path | None, assignments: tuple[str, ...]) -> None:
    """Delete strays and the records in them. The node must not run."""
    from kraft.runtime.storage.removals import discard
    from kraft.runtime.storage.strays import locked

    config = server_config(file, data, None, assignments)
    with locked(_directories(config)):
        found = _find(config)
        chosen = found if every else _named(found, names)
        for stray in chosen:
            click.echo(f"{stray.path}  {size_text(stray.size_bytes)}")
        if dry_run or not chosen:
            return
        if not yes:
            click.confirm(f"Delete {len(chosen)} directories and the records in them?", abort=True)
        for stray in chosen:
            discard(stray.path)


def _directories(config: NodeConfig) -> tuple[Path, ...]:
    return tuple(dict.fromkeys((config.metadata_log_dir, *config.log_dirs)))


def _find(config: NodeConfig) -> list["Stray"]:
    from kraft.cli.metadata_source import AsOf, from_files
    from kraft.metadata.image import EMPTY
    from kraft.runtime.storage.metadata_directory import DIRECTORY_NAME
    from kraft.runtime.storage.strays import list_strays

    has_log = (config.metadata_log_dir / DIRECTORY_NAME).is_dir()
    image = from_files(config.metadata_log_dir, AsOf()) if has_log else EMPTY
    return list_strays(_directories(config), image, config.node_id)


def _named(found: list["Stray"], names: tuple[str, ...]) -> list["Stray"]:
    """Select strays by the name of the directory, or its path."""
    if not names:
        raise InvalidConfigError("NAME: give the names of strays, or --all")
    known = {str(each.path): each for each in found} | {each.path.name: each for each in found}
    missing = [name for name in names if name.rstrip("/") not in known]
    if missing:
        raise InvalidConfigError(f"NAME: {missing[0]!r} is no stray of this node; kraft storage strays list shows them")
    return list({each.path: each for name in names for each in [known[name.rstrip("/")]]}.values())


def _reason(stray: "Stray") -> str:
    return stray.why or f"{stray.copies[0]} exists; --replace makes that one a stray"


def _fields(stray: "Stray") -> Fields:
    from kraft.protocol.ids import id_text

    return {
        "name": stray.path.name, "directory": str(stray.path.parent), "partition": stray.name.directory_name,
        "topic_id": None if stray.topic_id is None else id_text(stray.topic_id), "bytes": stray.size_bytes,
        "adoptable": stray.target is not None and not stray.copies,
        "reason": None if stray.target is not None and not stray.copies else _reason(stray),
    }
