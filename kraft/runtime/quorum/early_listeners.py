"""Listeners that serve before all committed entries of the authorizer are known (`early.start.listeners`), and the wait
of the others (Kafka's EndpointReadyFutures)."""

import asyncio
import logging
from collections.abc import Iterable

from kraft.config.node_config import EARLY, NodeConfig
from kraft.runtime.quorum.cluster_id import StoppedAtStartError, first_of
from kraft.security.authorizer import Authorizer

log = logging.getLogger(__name__)


def early_listeners(config: NodeConfig, authorizer: Authorizer | None, names: Iterable[str]) -> list[str]:
    """Return those of a node's listeners that need not wait. Without an authorizer none waits."""
    return [name for name in names if authorizer is None or name in config.early_listeners]


async def entries_known(authorizer: Authorizer | None, names: Iterable[str], ended: asyncio.Event) -> None:
    """Wait until all committed entries are known, which the listeners `names` need. Raises `StoppedAtStartError` when
    `ended` is set before."""
    names = list(names)
    if authorizer is None or authorizer.is_loaded or not names:
        return
    known = asyncio.Event()
    authorizer.on_loaded = known.set
    log.info("%s opens when all ACLs are known; %s may name listeners that need not wait", ", ".join(names), EARLY)
    await first_of(known, ended)
    if not authorizer.is_loaded:
        raise StoppedAtStartError(f"the node ended before {', '.join(names)} knew all ACLs: no controller was active")
