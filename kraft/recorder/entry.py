"""Entry of the flight recorder: an event of a replica, its time and its particulars.

An entry is one JSON object on one line. It is the same in a file, in an answer to DescribeRecorder and in the output of
tools:

    {"ms":1700000000000,"node":1,"n":7,"what":"becomes","values":{"role":"Leader","epoch":5,"because":"..."}}

`n` counts the entries of one life of a process. An entry that stands for several events of the same kind has `times`
and `until`. Of entries with the same `ms`, `node` and `n` the last one written is valid.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from kraft.raft.voters import VoterSet
from kraft.recorder.words import Particulars
from kraft_native.base.errors import MalformedMessageError

STATE: Final = "state"
"""The `what` of an entry with the whole known state of a replica at one time; see `state.state_values`."""


class Entry(NamedTuple):
    """One event, or several of the same kind. `values` are plain JSON values.

    `time_ms`: since 1970 on the node's own clock, or since the start of a simulation. `until_ms`: time of the last of
    `times` such events; -1 for one event.
    """

    time_ms: float
    node_id: int
    number: int
    what: str
    values: Mapping[str, Any]
    times: int = 1
    until_ms: float = -1

    @property
    def line(self) -> str:
        """The entry as one line, without the line end."""
        fields: dict[str, Any] = {"ms": self.time_ms, "node": self.node_id, "n": self.number, "what": self.what,
                                  "values": self.values}
        if self.times > 1:
            fields |= {"times": self.times, "until": self.until_ms}
        return json.dumps(fields, separators=(",", ":"), ensure_ascii=False)


def parse(line: str | bytes) -> Entry:
    """Return the entry of a line; raise `MalformedMessageError` for anything else."""
    try:
        fields = json.loads(line)
        return Entry(_time(fields["ms"]), int(fields["node"]), int(fields["n"]), str(fields["what"]),
                     _object(fields["values"]), int(fields.get("times", 1)), _time(fields.get("until", -1)))
    except (ValueError, KeyError, TypeError) as error:
        raise MalformedMessageError(f"no entry of a flight recorder: {error!r}") from None


def _time(value: Any) -> float:
    if not isinstance(value, int | float):
        raise TypeError(f"{value!r} is no time")
    return value


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r} is no object")
    return value


def values_of(particulars: Particulars) -> dict[str, Any]:
    """Return an event's particulars as plain values. Voters become two lists."""
    values: dict[str, Any] = {}
    for name, value in particulars:
        if isinstance(value, VoterSet):
            values |= voter_values(value)
        else:
            values[name] = plain(value)
    return values


def voter_values(voters: VoterSet) -> dict[str, Any]:
    """Return `voters` as `id:disk`, and `targets` during a reassignment."""
    values: dict[str, Any] = {"voters": list(map(str, voters.keys))}
    if voters.targets is not None:
        values["targets"] = list(map(str, voters.targets))
    return values


def plain(value: object) -> int | str | bool | None:
    """Return a value as JSON has it: number, boolean, null or text; anything else as its text."""
    if value is None or type(value) in (int, bool, str):
        return value  # type: ignore[return-value]
    return str(value)


def ids_of(keys: Iterable[str]) -> list[int]:
    """Return the node ids of `id:disk` texts."""
    return [int(key.partition(":")[0]) for key in keys]
