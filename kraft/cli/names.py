"""Names of topics and groups that a shell completes, from the cluster that the command line names."""

import os
from typing import Final

import click

from kraft.cli.options import ADDRESS_DEFAULT, BOOTSTRAP_VARIABLE
from kraft_native.base.errors import KraftError

# A shell that hangs is worse than one that completes nothing.
TIMEOUT_SECONDS: Final = 1.0


def complete_topic(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the topics with this prefix; none when the cluster does not answer."""
    from kraft.client import Cluster

    try:
        with Cluster(_bootstrap(context), timeout=TIMEOUT_SECONDS) as cluster:
            names = [topic.name or "" for topic in cluster.metadata().topics]
    except KraftError:
        return []
    return sorted(name for name in names if name.startswith(incomplete))


def complete_group(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the groups with this prefix; none when the cluster does not answer."""
    from kraft.client import Cluster
    from kraft.client.groups import list_groups

    try:
        with Cluster(_bootstrap(context), timeout=TIMEOUT_SECONDS) as cluster:
            names = [each.group for each in list_groups(cluster)]
    except KraftError:
        return []
    return sorted(name for name in names if name.startswith(incomplete))


def _bootstrap(context: click.Context) -> str:
    return context.params.get("bootstrap") or os.environ.get(BOOTSTRAP_VARIABLE) or ADDRESS_DEFAULT
