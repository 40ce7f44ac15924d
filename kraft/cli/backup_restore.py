"""`kraft backup restore`: the directories of a node that is down, from a backup."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kraft.cli.moments import time_ms, whole_number
from kraft.cli.options import JSON, count_of, print_json, server_config_options
from kraft.cli.server_config import server_config
from kraft.config.errors import InvalidConfigError
from kraft.config.node_config import NodeConfig
from kraft.config.quorum_config import static_voters

if TYPE_CHECKING:
    from kraft.backups.decisions import AsOf
    from kraft.backups.manifest import Manifest
    from kraft.backups.restore import Target
    from kraft.metadata.image import MetadataImage

AS_OF: Final = "--as-of"


@click.command("restore")
@click.argument("place", metavar="PLACE")
@click.argument("name", required=False)
@server_config_options
@click.option("--topic", "topics", multiple=True,
              help="Only this topic; may be given again. Group offsets are always included.")
@click.option(AS_OF, "as_of", metavar="OFFSET|TIME",
              help="The last offset, or the last time such as 2026-01-31T09:00:00Z, that is restored.")
@click.option("--nodes", metavar="ID,ID,...", help="All brokers of the new cluster [default: this node].")
@click.option("-t", "--cluster-id", help="Id of the new cluster [default: that of the source].")
@click.option("-I", "--initial-controllers", metavar="ID@HOST:PORT:DIRECTORY-ID,...",
              help="The first voters of the quorum, as for kraft storage format.")
@JSON
def restore_command(place: str, name: str | None, file: Path | None, data: Path | None, assignments: tuple[str, ...],
                    topics: tuple[str, ...], as_of: str | None, nodes: str | None, cluster_id: str | None,
                    initial_controllers: str | None, as_json: bool) -> None:
    """Write the directories of a node from a backup, by default the newest. Start the node afterwards.

    The directories must be empty. For a cluster of several nodes, run the command for each of them, with its own
    settings and the same other options. After an interruption, the same command continues.
    """
    from kraft.backups.manifest import load, load_newest
    from kraft.backups.restore import Selection, restore
    from kraft.backups.store import store_at
    from kraft.backups.verify import read_metadata

    config = server_config(file, data, None, assignments)
    store = store_at(place)
    manifest = load(store, name) if name else load_newest(store)
    target = _target(config, manifest, read_metadata(store, manifest), nodes, cluster_id, initial_controllers)
    began = time.monotonic()
    done = restore(store, manifest, target, Selection(topics or None, _as_of(as_of)), time.time_ns() // 1_000_000)
    seconds = time.monotonic() - began
    paths = [str(path) for path in target.paths]
    if as_json:
        print_json([{"name": manifest.name, "directories": paths, "partitions": len(done.logs),
                     "bytes": done.bytes_written, "seconds": round(seconds, 3), "was_done": done.was_done}])
    elif done.was_done:
        click.echo(f"{manifest.name}: it was restored to {', '.join(paths)} already")
    else:
        click.echo(f"{manifest.name}: {count_of(len(done.logs), 'partition')}, {done.bytes_written:,} bytes of batches "
                   f"restored to {', '.join(paths)}; {seconds:.1f} s")


def _as_of(text: str | None) -> "AsOf":
    from kraft.backups.decisions import AsOf

    if text is None:
        return AsOf()
    offset = whole_number(text)
    return AsOf(offset, None) if offset is not None else AsOf(None, time_ms(AS_OF, text))


def _target(config: NodeConfig, manifest: "Manifest", image: "MetadataImage", nodes: str | None,
            cluster_id: str | None, initial_controllers: str | None) -> "Target":
    from kraft.backups.restore import Target
    from kraft.cli.storage import check_cluster_id, first_voters, parse_voters
    from kraft.metadata.image import Endpoint
    from kraft.runtime.storage.formatting import FormatRequest

    if cluster_id is not None:
        check_cluster_id(cluster_id)
    choice = first_voters(config, None, initial_controllers)
    endpoints = tuple(Endpoint(each.listener, each.host, each.port, 0)
                      for each in map(config.advertised, config.controller_listeners))
    request = FormatRequest(
        config.node_id, cluster_id or manifest.cluster_id, config.log_dirs, endpoints, config.metadata_log_dir,
        metadata_level=image.metadata_version.level, standalone=choice == "standalone",
        initial_voters=parse_voters(initial_controllers, config.controller_listener_names[0])
        if initial_controllers else (),
        keep_data=True)
    brokers = _nodes(nodes, config)
    return Target(request, brokers, config.is_broker, config.is_controller,
                  tuple(voter.node_id for voter in static_voters(config)))


def _nodes(text: str | None, config: NodeConfig) -> tuple[int, ...]:
    if text is None:
        if not config.is_broker:
            raise InvalidConfigError("--nodes: this node is no broker; name the brokers of the new cluster")
        return (config.node_id,)
    found = [whole_number(part.strip()) for part in text.split(",")]
    if None in found:
        raise InvalidConfigError(f"--nodes: {text!r} is not a list of node ids such as 1,2,3")
    brokers = tuple(dict.fromkeys(each for each in found if each is not None))
    if config.is_broker and config.node_id not in brokers:
        raise InvalidConfigError(f"--nodes: {text!r} does not have this node, {config.node_id}")
    return brokers
