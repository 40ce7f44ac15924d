"""Facts about brokers from the flight recorders of controllers: why brokers were fenced, and their last heartbeats."""

from collections.abc import Iterable, Mapping
from typing import Any

from kraft.recorder.entry import Entry
from kraft.recorder.why import Situation
from kraft.recorder.words import FENCES


def fencings(entries: Iterable[Entry]) -> dict[tuple[int, int], str]:
    """Return why brokers were fenced without a request of theirs, by broker and the time of the record that fenced
    them."""
    return {(int(entry.values["broker"]), int(entry.time_ms)): str(entry.values["because"]) for entry in entries
            if entry.what == FENCES}


def speaking_brokers(situation: Situation) -> dict[int, Mapping[str, Any]]:
    """Return what the active controller knows of each broker that contacted it, by id. `contact_ms` is the age of the
    last contact, `replayed` the offset up to which the broker has replayed the metadata log. Empty where no active
    controller answers."""
    leader = situation.leader
    return {} if leader is None else {int(each["broker"]): each for each in leader.values.get("brokers", ())}
