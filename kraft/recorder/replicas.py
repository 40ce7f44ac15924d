"""Explanation, from brokers' flight recorders, why a replica is not in sync.

The replica's broker records its connection to the leader and its Fetches. The leader's broker records the in-sync
replicas that it proposed and the controller's answers.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from kraft.recorder.entry import STATE, Entry
from kraft.recorder.timeline import clock_text

CONTINUES_MS: Final = 5000
"""A problem whose last event is older than this, when the broker is queried, is over: a Fetch that fails is tried again
every second."""
SLOW_MS: Final = 500
"""An answer may take this much longer than the time for which the leader may hold it."""
CONNECTION: Final = ("connects", "cannot connect", "loses connection", "gets no answer")
PROPOSAL: Final = ("proposes isr", "isr decided", "isr refused", "isr unanswered")

Recordings = Mapping[int, Sequence[Entry]]
"""Entries by broker, oldest first; the last one is the broker's state."""


def blockers(recordings: Recordings, topic: str, index: int, replica: int, leader: int, leader_epoch: int) -> list[str]:
    """Return clauses about what keeps the replica out of sync, as far as that was recorded: first its removal, then its
    own problems, then its leader's."""
    own = recordings.get(replica, ())
    leaders = [each for each in _of_partition(recordings.get(leader, ()), topic, index)
               if each.values.get("epoch") == leader_epoch]
    found = [_left(leaders, replica), _connection(own, leader),
             _fetching(_of_partition(own, topic, index), own, leader), _proposal(leaders, replica),
             _held_back(leaders, recordings.get(leader, ()), replica)]
    return [clause for clause in found if clause]


def _of_partition(entries: Sequence[Entry], topic: str, index: int) -> list[Entry]:
    return [each for each in entries if each.values.get("topic") == topic and each.values.get("partition") == index]


def _last_ms(entry: Entry) -> float:
    return max(entry.time_ms, entry.until_ms)


def _newest(entries: Sequence[Entry], kinds: Sequence[str]) -> Entry | None:
    """Return the entry of these kinds whose event, or last repetition, is the latest."""
    return max((each for each in entries if each.what in kinds), key=lambda each: (_last_ms(each), each.number),
               default=None)


def _continuing(entries: Sequence[Entry], kind: str, of_broker: Sequence[Entry]) -> str:
    """Return since when the last event of this kind has been repeated, and why; empty when it is over. `of_broker`:
    all entries of its broker, the last one its state."""
    last = _newest(entries, (kind,))
    now_ms = of_broker[-1].time_ms if of_broker else 0
    if last is None or now_ms - _last_ms(last) > CONTINUES_MS:
        return ""
    return f"({_since(last)}): {last.values['because']}"


def _since(entry: Entry) -> str:
    """Return the time of a single event; for a repeated one its first time and its count."""
    if entry.times == 1:
        return f"at {clock_text(entry.time_ms)}"
    return f"since {clock_text(entry.time_ms)}, {entry.times} times"


def _left(leaders: Sequence[Entry], replica: int) -> str:
    """Return the clause about the removal from the in-sync replicas by the leader. Empty if the replica was in sync
    again afterwards: then the controller removed it."""
    last = _newest([each for each in leaders if replica in each.values.get("isr", ())], ("proposes isr", "isr decided"))
    if last is None or replica in last.values.get("proposed", last.values["isr"]):
        return ""
    return f"its leader took it out {_since(last)}: {last.values['because']}"


def _connection(own: Sequence[Entry], leader: int) -> str:
    last = _newest([each for each in own if each.values.get("leader") == leader], CONNECTION)
    if last is None or last.what == "connects":
        return _silence(own, leader)
    if last.what == "cannot connect":
        where = f" at {last.values['address']}" if "address" in last.values else ""
        return f"it cannot reach its leader, broker {leader}{where} ({_since(last)}): {last.values['because']}"
    if last.what == "gets no answer":
        return f"its leader, broker {leader}, does not answer its Fetch ({_since(last)}): {last.values['because']}"
    return f"it lost its connection to its leader, broker {leader}, {_since(last)}"


def _silence(own: Sequence[Entry], leader: int) -> str:
    state = own[-1].values if own and own[-1].what == STATE else {}
    silent_ms = next((each["silent_ms"] for each in state.get("leaders", ()) if each["leader"] == leader), None)
    if silent_ms is None or silent_ms <= state["wait_ms"] + SLOW_MS:
        return ""
    return f"its leader, broker {leader}, has not answered its Fetch for {silent_ms / 1000:.1f} s"


def _fetching(of_partition: Sequence[Entry], own: Sequence[Entry], leader: int) -> str:
    why = _continuing([each for each in of_partition if each.values.get("leader") == leader], "fetch fails", own)
    return f"its Fetch from its leader, broker {leader}, fails {why}" if why else ""


def _proposal(leaders: Sequence[Entry], replica: int) -> str:
    last = _newest(leaders, PROPOSAL)
    if last is None or last.what == "isr decided" or replica not in last.values["proposed"]:
        return ""
    if last.what == "proposes isr":
        return f"its leader proposed {_since(last)} to take it in, and has no answer from the controller"
    does = "refused that" if last.what == "isr refused" else "has not done it"
    return f"its leader proposes to take it in, and the controller {does} ({_since(last)}): {last.values['because']}"


def _held_back(leaders: Sequence[Entry], entries: Sequence[Entry], replica: int) -> str:
    why = _continuing([each for each in leaders if each.values.get("replica") == replica], "does not propose", entries)
    return f"it has everything, but its leader does not propose it {why}" if why else ""
