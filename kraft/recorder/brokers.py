"""What the flight recorders of controllers tell of brokers: why they were fenced, and what is heard of them."""

from collections.abc import Iterable, Mapping
from typing import Any

from kraft.recorder.entry import Entry
from kraft.recorder.why import Situation


def fencings(entries: Iterable[Entry]) -> dict[tuple[int, int], str]:
    """Why brokers were fenced without having asked for it, by broker and the time of the record that fenced them."""
    return {(int(entry.values["broker"]), int(entry.time_ms)): str(entry.values["because"]) for entry in entries
            if entry.what == "fences"}


def heard(situation: Situation) -> dict[int, Mapping[str, Any]]:
    """What the active controller has heard of the brokers that spoke to it, by their ids: `heard_ms`, how long ago, and
    `replayed`, the metadata log to there. Nothing where no active controller answers."""
    leader = situation.leader
    return {} if leader is None else {int(each["broker"]): each for each in leader.values.get("brokers", ())}
