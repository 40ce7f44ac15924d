"""One entry of the flight recorder: something that happened to a replica, when, and its particulars.

An entry is one JSON object on one line, the same in a file, in an answer to DescribeRecorder and in what tools print:

    {"ms":1700000000000,"node":1,"n":7,"what":"becomes","values":{"role":"Leader","epoch":5,"because":"..."}}

`n` counts the entries of one life of a process. An entry that stands for several of the same kind has `times` and
`until`; of entries with the same `ms`, `node` and `n` the last one written counts.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from kraft.raft.ports import Event
from kraft.raft.voters import VoterSet
from kraft_native.errors import MalformedMessageError

STATE: Final = "state"
"""The `what` of an entry that tells everything that is known of a replica at a time; see `state.state_values`."""


class Entry(NamedTuple):
    """`time_ms`: since 1970 on the node's own clock, since the start in a simulation. `values` are plain JSON values.
    `until_ms`: when the last of `times` such things happened; -1 for one."""

    time_ms: float
    node_id: int
    number: int
    what: str
    values: Mapping[str, Any]
    times: int = 1
    until_ms: float = -1

    @property
    def line(self) -> str:
        """The entry as one line, without the line's end."""
        fields: dict[str, Any] = {"ms": self.time_ms, "node": self.node_id, "n": self.number, "what": self.what,
                                  "values": self.values}
        if self.times > 1:
            fields |= {"times": self.times, "until": self.until_ms}
        return json.dumps(fields, separators=(",", ":"), ensure_ascii=False)


def parse(line: str | bytes) -> Entry:
    """The entry of a line; `MalformedMessageError` for anything else."""
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


def values_of(event: Event) -> dict[str, Any]:
    """An event's particulars as plain values. Voters become two lists."""
    values: dict[str, Any] = {}
    for name, value in event.values:
        if isinstance(value, VoterSet):
            values |= voter_values(value)
        else:
            values[name] = plain(value)
    return values


def voter_values(voters: VoterSet) -> dict[str, Any]:
    """`voters` as `id:disk`, and `targets` when they are to be others."""
    values: dict[str, Any] = {"voters": list(map(str, voters.keys))}
    if voters.targets is not None:
        values["targets"] = list(map(str, voters.targets))
    return values


def plain(value: object) -> int | str | bool | None:
    """A value as JSON has it: numbers, truth and text; anything else as its text."""
    if value is None or type(value) in (int, bool, str):
        return value  # type: ignore[return-value]
    return str(value)


def ids_of(keys: Iterable[str]) -> list[int]:
    """The node ids of `id:disk` texts."""
    return [int(key.partition(":")[0]) for key in keys]
