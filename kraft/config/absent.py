"""Settings that are accepted and have no effect, because what they tune is not here: by how their names begin.

Those of other reasons say so in `documentation.txt`, each with its own.
"""

from typing import Final

from kraft.config.unsupported import REFUSED

KEPT: Final = "Kept for compatibility"
"""Stands in the documentation of a setting that is accepted and has no effect."""

_TIERED: Final = "tiered storage"
_CONSUMER: Final = "groups of the consumer protocol"
_STREAMS: Final = "groups of the streams protocol"
_SHARE: Final = "share groups"
_TRANSACTIONS: Final = "transaction coordinator"

# By section and prefix.
_ABSENT: Final = {
    "topic": {"remote.": _TIERED, "local.retention.": _TIERED},
    "broker": {
        "add.partitions.to.txn.": _TRANSACTIONS, "transaction.": _TRANSACTIONS, "transactional.": _TRANSACTIONS,
        "delegation.token.": "delegation tokens", "follower.fetch.last.tiered.": _TIERED,
        "group.consumer.": _CONSUMER, "group.share.": _SHARE, "group.streams.": _STREAMS,
        "log.local.retention.": _TIERED, "remote.": _TIERED, "share.": _SHARE,
    },
    "group": {"consumer.": _CONSUMER, "share.": _SHARE, "streams.": _STREAMS},
}

_PRESENT: Final = ("transaction.max.timeout.ms",)
"""Has its effect all the same: producers with a transactional id are refused by it."""


def absence(section: str, name: str) -> str:
    """What is added to the documentation of a setting of something that this version has not; "" for others."""
    if name in REFUSED or name in _PRESENT:
        return ""
    for prefix, what in _ABSENT.get(section, {}).items():
        if name.startswith(prefix):
            return f" {KEPT}: this version has no {what}."
    return ""
