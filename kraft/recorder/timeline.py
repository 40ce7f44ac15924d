"""Entries of all nodes in one sequence, in the order of time, and in words.

Clocks of machines differ: events of two nodes may be listed in the wrong order if they are closer than that difference.
The epochs show the true order.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from kraft.raft.types import NOBODY
from kraft.recorder.entry import STATE, Entry

DAY_MS: Final = 86_400_000
"""Times below are relative to the start of a simulation."""


def merged(entries: Iterable[Entry]) -> list[Entry]:
    """Return each entry once, in its last form, in the order of time; entries of one node in the order in which it
    recorded them."""
    last: dict[tuple[float, int, int, str], Entry] = {}
    for entry in entries:
        key = entry.time_ms, entry.node_id, entry.number, entry.what
        if key not in last or entry.times >= last[key].times:
            last[key] = entry
    return sorted(last.values(), key=lambda each: (each.time_ms, each.node_id, each.number))


def text_lines(entries: Sequence[Entry]) -> Iterable[str]:
    """Yield one line for each entry: time, node, event."""
    width = max((len(str(entry.node_id)) for entry in entries), default=1)
    for entry in entries:
        yield f"{clock_text(entry.time_ms)}  {entry.node_id:>{width}}  {sentence(entry)}"


def clock_text(time_ms: float) -> str:
    """Return a time of the day in UTC with its date, or seconds since the start of a simulation."""
    if time_ms < DAY_MS:
        return f"{time_ms / 1000:12.6f}"
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def sentence(entry: Entry) -> str:
    """Return the event in words."""
    make = _SENTENCES.get(entry.what)
    text = _plain(entry.what, entry.values) if make is None else make(entry.values)
    if entry.times > 1:
        text += f" ({entry.times} times, until {clock_text(entry.until_ms).split()[-1]})"
    return text


def _plain(what: str, values: Mapping[str, Any]) -> str:
    rest = " ".join(f"{name}={_listed(value)}" for name, value in values.items() if name != "because")
    return " ".join(filter(None, [what, rest])) + _because(values)


def _listed(value: object) -> str:
    return "{" + " ".join(map(str, value)) + "}" if isinstance(value, list) else str(value)


def _because(values: Mapping[str, Any]) -> str:
    if "because" not in values:
        return ""
    source = values.get("source", NOBODY)
    named = source if source > NOBODY else "a bootstrap server"
    return f": {values['because']}" + ("" if source == NOBODY else f", as {named} says")


def _commits(values: Mapping[str, Any]) -> str:
    why = ""
    if "leader" in values:
        why = f": the leader {values['leader']} says so"
    elif "by" in values:
        by = values["by"]
        why = ": the voters are others" if by == NOBODY else f": with {by} a majority has what is before it"
    return f"high watermark {values.get('hw')}{why}"


def _voters(values: Mapping[str, Any]) -> str:
    targets = values.get("targets")
    return _listed(values.get("voters", [])) + ("" if targets is None else f", to become {_listed(targets)}")


def _started(values: Mapping[str, Any]) -> str:
    return (f"starts as {values.get('role')} in epoch {values.get('epoch')}, its log ends at {values.get('end')}, "
            f"voters {_voters(values)}")


def _becomes(values: Mapping[str, Any]) -> str:
    leader = values.get("leader")
    followed = f" of {leader}" if values.get("role") == "Follower" else ""
    return f"becomes {values.get('role')}{followed} in epoch {values.get('epoch')}{_because(values)}"


def _answers(kind: str, values: Mapping[str, Any]) -> str:
    does = "grants" if values.get("granted") is True else "refuses"
    return (f"{does} the {kind} to {values.get('candidate')} in epoch {values.get('epoch')}, whose log ends at "
            f"{values.get('end')}{_because(values)}")


def _state(values: Mapping[str, Any]) -> str:
    return (f"is {values.get('role')} in epoch {values.get('epoch')}, leader {values.get('leader')}, log to "
            f"{values.get('end')}, committed to {values.get('hw')}, voters {_voters(values)}")


def _new_voters(values: Mapping[str, Any]) -> str:
    if "reverted" in values:
        return f"takes the voters back, to {_voters(values)}: their record was truncated"
    whose = f" of the leader {values['leader']}" if "leader" in values else ""
    return f"counts with the voters {_voters(values)}, by the record at {values.get('offset')}{whose}"


_SENTENCES: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    "started": _started,
    "becomes": _becomes,
    STATE: _state,
    "voters": _new_voters,
    "votes": lambda values: f"votes for {values.get('candidate')} in epoch {values.get('epoch')}{_because(values)}",
    "answers vote": lambda values: _answers("vote", values),
    "answers pre-vote": lambda values: _answers("pre-vote", values),
    "commits": _commits,
    "truncates": lambda values: f"truncates its log from {values.get('end')} to {values.get('to')}",
    "changes voters": lambda values: f"changes the voters{_because(values)}",
    "refuses leader": lambda values: (f"refuses {values.get('leader')} as leader of epoch {values.get('epoch')}, which "
                                      f"{values.get('known')} leads"),
    "loses its connection": lambda values: f"loses its connection to the leader {values.get('leader')}",
    "installed": lambda values: f"replaces its log by snapshot {values.get('snapshot')}, voters {_voters(values)}",
    "loses majority": lambda values: f"gives up epoch {values.get('epoch')}: no majority has fetched for too long",
}
"""Wording by the `what` of an entry; other entries are shown as they are."""
