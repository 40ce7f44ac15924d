"""`kraft storage`: preparation and inspection of data directories."""

import secrets
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kraft.cli.command import kraft
from kraft.cli.options import JSON, Fields, print_fields, print_json, server_config_options
from kraft.cli.server_config import parse_assignments, server_config
from kraft.cli.storage_strays import strays_group
from kraft.config.errors import InvalidConfigError
from kraft.config.node_config import NodeConfig, parse_socket
from kraft.config.quorum_config import static_voters

if TYPE_CHECKING:
    from kraft.raft.voters import Voter

SALT_BYTES: Final = 20


@kraft.group("storage")
def storage() -> None:
    """Format data directories, and show their state."""


storage.add_command(strays_group)


@storage.command("format")
@server_config_options
@click.option("-t", "--cluster-id", help="Id of the cluster: 22 characters of base64url [default: a new one, where "
                                         "this node may be its first; with --initial-controllers the first leader "
                                         "makes it].")
@click.option("-r", "--release-version", "--metadata-version", "release", metavar="VERSION",
              help="The metadata.version, and other features as a cluster of that release begins with them: a release, "
                   "the version's name or its level [default: the newest].")
@click.option("-f", "--feature", "features", multiple=True, metavar="NAME=LEVEL",
              help="Level of another feature; may be given again.")
@click.option("-s", "--standalone", "first", flag_value="standalone",
              help="This node is the first and only voter of a quorum that may grow.")
@click.option("-I", "--initial-controllers", metavar="ID@HOST:PORT:DIRECTORY-ID,...",
              help="The first voters of the quorum; the same for all of them.")
@click.option("-N", "--no-initial-controllers", "first", flag_value="none",
              help="This node finds the quorum by its configuration, and may become a voter later.")
@click.option("-S", "--add-scram", "scram", multiple=True, metavar="MECHANISM=[name=NAME,password=PASSWORD]",
              help="SCRAM credential that the cluster begins with; may be given again. Also iterations, salt and "
                   "saltedpassword (the last two in base64). The same for all first controllers.")
@click.option("--keep-data", is_flag=True,
              help="Format a directory that holds partitions without meta.properties too. They stay; the node serves "
                   "those that the metadata has, and sets the others aside.")
@click.option("-g", "--ignore-formatted", is_flag=True,
              help="As in Kafka's tool. Directories that are formatted stay as they are, with it or without.")
@JSON
def format_command(file: Path | None, data: Path | None, assignments: tuple[str, ...], cluster_id: str | None,
                   release: str | None, features: tuple[str, ...], first: str | None,
                   initial_controllers: str | None, scram: tuple[str, ...], keep_data: bool, ignore_formatted: bool,
                   as_json: bool) -> None:
    """Prepare data directories for a node and its cluster.

    For a node that is broker and only controller, `kraft server start` does this by itself. Use this command before the
    start for a cluster id or features other than the defaults. Directories that are formatted for the same node and
    cluster stay unchanged.
    """
    from kraft.cli.features import metadata_level
    from kraft.log_dir import new_cluster_id
    from kraft.metadata.image import Endpoint
    from kraft.metadata.versions import LATEST
    from kraft.runtime.storage.formatting import FormatRequest, describe, format_storage
    from kraft.security.sasl.first_credentials import first_credential

    config = server_config(file, data, None, assignments)
    choice = first_voters(config, first, initial_controllers)
    paths = tuple(dict.fromkeys((config.metadata_log_dir, *config.log_dirs)))
    before = [info for info in map(describe, paths) if info.formatted]
    known = next((info.cluster_id for info in before if info.cluster_id), None)
    if cluster_id is not None and cluster_id != known:
        check_cluster_id(cluster_id)
    others = [voter.node_id for voter in static_voters(config) if voter.node_id != config.node_id]
    if not (cluster_id or known) and choice == "none" and (others or not static_voters(config)):
        raise InvalidConfigError("--cluster-id: is needed for a node that finds the quorum by its configuration; with "
                                 "an id of its own that quorum would refuse it (kraft storage info shows theirs)")
    # The first leader of voters that know each other creates the id.
    generated_id = "" if choice == "initial" else new_cluster_id()
    # The addresses that the node advertises.
    endpoints = tuple(Endpoint(each.listener, each.host, each.port, 0)
                      for each in map(config.advertised, config.controller_listeners))
    request = FormatRequest(
        config.node_id, cluster_id or known or generated_id, config.log_dirs, endpoints, config.metadata_log_dir,
        metadata_level=LATEST.level if release is None else metadata_level("--release-version", release),
        features=_levels(features), standalone=choice == "standalone",
        initial_voters=parse_voters(initial_controllers, config.controller_listener_names[0])
        if initial_controllers else (),
        credentials=tuple(first_credential(text, lambda: secrets.token_bytes(SALT_BYTES)) for text in scram),
        keep_data=keep_data)
    _print([_fields(info.path) for info in format_storage(request, time.time_ns() // 1_000_000, uuid.uuid4)], as_json)
    if before and not ignore_formatted:
        what = "every directory is" if len(before) == len(paths) else f"{len(before)} of {len(paths)} directories are"
        click.echo(f"{what} formatted already: nothing was done there", err=True)


def check_cluster_id(text: str) -> None:
    """Raise `InvalidConfigError` for an invalid cluster id."""
    from kraft.protocol.ids import id_of

    try:
        id_of(text)
    except ValueError:
        raise InvalidConfigError(f"--cluster-id: {text!r} is not 22 characters of base64url; kraft storage random-uuid "
                                 "prints one") from None


@storage.command("random-uuid")
def random_uuid_command() -> None:
    """Print a random id: for a cluster, or for the directory of an initial controller."""
    from kraft.protocol.ids import id_text
    from kraft.runtime.storage.formatting import random_id

    click.echo(id_text(random_id(uuid.uuid4)))


@storage.command("info")
@server_config_options
@JSON
def info_command(file: Path | None, data: Path | None, assignments: tuple[str, ...], as_json: bool) -> None:
    """Show the state of the data directories. Reads only; exit code 1 when one of them cannot be used."""
    config = server_config(file, data, None, assignments)
    rows = [_fields(path) for path in dict.fromkeys((config.metadata_log_dir, *config.log_dirs))]
    _print(rows, as_json)
    if any(not row["formatted"] for row in rows):
        raise click.exceptions.Exit(1)


def first_voters(config: NodeConfig, chosen: str | None, initial_controllers: str | None) -> str:
    """Return the first voters that the directories will record: `standalone`, `initial` (from the option) or `none`.

    Raises `InvalidConfigError` if the options contradict each other or the configuration, or if one is missing.
    """
    if chosen is not None and initial_controllers is not None:
        raise InvalidConfigError("--standalone, --initial-controllers, --no-initial-controllers: give one of them")
    given = "initial" if initial_controllers is not None else chosen
    if static_voters(config):
        if given in ("standalone", "initial"):
            raise InvalidConfigError("--standalone, --initial-controllers: controller.quorum.voters names the voters "
                                     "already; give one or the other")
        return "none"
    if not config.is_controller:
        if given == "standalone":
            raise InvalidConfigError("--standalone: process.roles has no controller")
        return given or "none"
    if given is None and not config.is_broker:
        raise InvalidConfigError("process.roles: a controller is formatted with one of --standalone, "
                                 "--initial-controllers, --no-initial-controllers")
    return given or "standalone"


def parse_voters(text: str, listener: str) -> tuple["Voter", ...]:
    """Parse `id@host:port:directory-id`, separated by commas. Raises `InvalidConfigError` for other forms."""
    from kraft.protocol.ids import id_of
    from kraft.raft.types import Endpoint, ReplicaKey
    from kraft.raft.voters import Voter

    found = []
    for part in text.split(","):
        node_id, _, rest = part.strip().partition("@")
        socket, _, directory = rest.rpartition(":")
        wrong = InvalidConfigError(f"--initial-controllers: {part.strip()!r} is not id@host:port:directory-id")
        if not (node_id.isascii() and node_id.isdigit()):
            raise wrong
        try:
            key = ReplicaKey(int(node_id), id_of(directory))
        except ValueError:
            raise wrong from None
        found.append(Voter(key, (Endpoint(listener, *parse_socket("--initial-controllers", socket)),)))
    return tuple(found)


def _levels(texts: tuple[str, ...]) -> dict[str, int]:
    found = {}
    for name, level in parse_assignments(texts, "--feature").items():
        if not (level.isascii() and level.isdigit()):
            raise InvalidConfigError(f"--feature: {name}={level} has no whole number as its level")
        found[name] = int(level)
    return found


def _fields(path: Path) -> Fields:
    from kraft.protocol.ids import id_text
    from kraft.runtime.storage.formatting import describe

    info = describe(path)
    return {
        "directory": str(path.absolute()), "formatted": info.formatted, "problem": info.problem,
        "node_id": info.node_id, "cluster_id": info.cluster_id or None,
        "directory_id": None if info.directory_id is None else id_text(info.directory_id),
        "holds_metadata_log": info.holds_metadata_log, "features": dict(info.features),
        "snapshots": [each.file_name for each in info.snapshots], "partitions": info.partitions,
        "strays": list(info.strays),
    }


def _print(rows: list[Fields], as_json: bool) -> None:
    if as_json:
        print_json(rows)
        return
    for row in rows:
        click.secho(row["directory"], bold=True)
        if not row["formatted"]:
            click.echo("  not formatted" + (f": {row['problem']}" if row["problem"] else ""))
            continue
        features = ", ".join(f"{name} {level}" for name, level in row["features"].items())
        print_fields([("  cluster", row["cluster_id"]), ("  node", row["node_id"]),
                      ("  directory id", row["directory_id"]), ("  metadata log", row["holds_metadata_log"]),
                      ("  features at format", features), ("  snapshots", row["snapshots"]),
                      ("  partitions", row["partitions"]), ("  strays", len(row["strays"]))])
