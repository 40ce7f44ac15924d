"""The data directories of a node: formatted, locked, and their logs ready to be opened."""

import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from kraft.config.node_config import NodeConfig
from kraft.config.quorum_config import check_quorum, is_sole_controller, static_voters
from kraft.log_dir import new_cluster_id
from kraft.metadata.image import Endpoint
from kraft.runtime.net.requests import now_ms
from kraft.runtime.storage.formatting import (
    FormatRequest,
    check_directories,
    describe,
    ensure_directory_ids,
    format_storage,
    formatted_identity,
    settle_cluster_id,
    unusable,
    write_cluster_id,
)
from kraft.runtime.storage.log_manager import LogManager
from kraft_native.log.flusher import Flusher


class Storage:
    """New directories are formatted, those of another node refused, the rest locked. A directory that cannot be read is
    offline, except that of the metadata log, without which the node does not start."""

    def __init__(self, config: NodeConfig) -> None:
        named = tuple(dict.fromkeys((config.metadata_log_dir, *config.log_dirs)))
        failed = unusable(named, config.metadata_log_dir)
        self._paths = tuple(path for path in named if path not in failed)
        if is_sole_controller(config):
            self.cluster_id = _format(config, self._paths)
        else:
            check_quorum(config)
            self.cluster_id, _ = formatted_identity(config.node_id, self._paths)
        with ExitStack() as opened:
            self.flusher = Flusher(bytes_trigger=config.integer("kraft.flush.bytes"),
                                   linger_us=config.integer("kraft.flush.interval.us"))
            opened.callback(self.flusher.close)
            self.logs = LogManager(config.log_dirs, node_id=config.node_id, cluster_id=self.cluster_id,
                                   flusher=self.flusher, needed=config.metadata_log_dir)
            self._opened = opened.pop_all()

    def write_cluster_id(self, cluster_id: str) -> None:
        """Make the id that the first leader of the cluster created durable."""
        write_cluster_id(self._paths, cluster_id)

    def close(self, *, clean: bool, broker_epoch: int) -> None:
        """Close all logs; `clean` leaves the mark of a clean stop, with that epoch."""
        with self._opened:
            self.logs.close(clean=clean, broker_epoch=broker_epoch)


def _format(config: NodeConfig, paths: Sequence[Path]) -> str:
    """Format what is new, for a node that is a cluster of its own. Return the cluster's id."""
    check_directories(config.metadata_log_dir, paths)
    ensure_directory_ids(paths, uuid.uuid4)
    own = [info for info in map(describe, paths) if info.formatted and info.node_id == config.node_id]
    cluster_id = settle_cluster_id(own) if own else new_cluster_id()
    reachable = map(config.advertised, config.controller_listeners)
    endpoints = tuple(Endpoint(each.listener, each.host, each.port, config.protocol_id(each.listener))
                      for each in reachable)
    format_storage(FormatRequest(
        config.node_id, cluster_id, tuple(path for path in config.log_dirs if path in paths), endpoints,
        config.metadata_log_dir, standalone=not static_voters(config)), now_ms(), uuid.uuid4)
    return cluster_id
