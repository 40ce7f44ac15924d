"""The cluster id on a node.

It comes from the node's directories or, where they were formatted without one, from the first leader of the quorum
(KIP-642).

A directory without an id has the line `cluster.id=` in its `meta.properties`. The id is part of the first Voters record
of the metadata log. A node writes it to its directories when that record is committed, never before: a leader that was
overtaken may have created another one. A crash before that write costs nothing, because the log still has the id.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kraft.raft.types import UNKNOWN_OFFSET
from kraft.raft.voters import Assignment
from kraft.runtime.storage.formatting import META_PROPERTIES
from kraft_native.base.errors import InvalidArgumentError, OperationError

log = logging.getLogger(__name__)

FIRST_LEADER: Final = "the first leader of the quorum makes the cluster's id"


class ForeignClusterError(OperationError):
    """The metadata log has the id of another cluster than this node's directory, or none."""


class StoppedAtStartError(OperationError):
    """The node was stopped before its cluster had what a start needs: an id, or a leader."""


class ClusterId:
    """Cluster id of one node. Loop thread only. `write` makes a new id durable; it is called once, before any other
    code sees that id."""

    def __init__(self, cluster_id: str, metadata_directory: Path, *, is_static: bool) -> None:
        """`cluster_id` is empty when the directory has none. Raises `InvalidArgumentError` where none can come: with
        `is_static` the voters are configured, and then the log has no Voters record."""
        self.value = cluster_id
        self.write: Callable[[str], None] = lambda _cluster_id: None
        self._file = metadata_directory / META_PROPERTIES
        self._known = asyncio.Event()
        if not cluster_id and is_static:
            raise InvalidArgumentError(
                f"{self._file}: cluster.id is empty, and with controller.quorum.voters no leader makes one; write the "
                "same id to the file of each node (kraft storage random-uuid prints one)")
        if not cluster_id:
            log.info("%s has no cluster id yet: %s", metadata_directory, FIRST_LEADER)

    def committed(self, assignment: Assignment) -> None:
        """Process the committed voters. Raises `ForeignClusterError` when their record is of another cluster."""
        found = assignment.voters.cluster_id
        if assignment.offset == UNKNOWN_OFFSET:
            return                     # the voters of the formatted directory
        if not self.value:
            if not found:
                raise ForeignClusterError(
                    f"{self._file}: cluster.id is empty, and the metadata log has no id either, since its cluster had "
                    "one from the start; write the id to the file that the other nodes have in theirs")
            self.write(found)
            self.value = found
            self._known.set()
            log.info("the cluster's id is %s", found)
        elif found and found != self.value:
            raise ForeignClusterError(
                f"{self._file}: cluster.id is {self.value}, but the metadata log is of cluster {found}; the directory, "
                "or the addresses of the quorum in the configuration, are of another cluster")

    async def known(self, ended: asyncio.Event) -> None:
        """Wait until an id exists. Raises `StoppedAtStartError` when `ended` is set before."""
        if self.value:
            return
        await first_of(self._known, ended)
        if not self.value:
            raise StoppedAtStartError(f"the node ended before its cluster had an id: {FIRST_LEADER}")


async def first_of(*events: asyncio.Event) -> None:
    """Wait until one of the events is set."""
    waiting = [asyncio.ensure_future(each.wait()) for each in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()
