"""New producer ids for decisions. They may have to be fetched from the controller first."""

from __future__ import annotations


class ProducerIdNeededError(Exception):
    """Signal that a decision needs a new producer id. Nothing changed: decide again with one."""


def needed(new_producer_id: int | None) -> int:
    """Return the new id; raise ProducerIdNeededError without one."""
    if new_producer_id is None:
        raise ProducerIdNeededError("a new producer id is needed")
    return new_producer_id
