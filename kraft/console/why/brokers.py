"""Rules about brokers: those that are offline, those without a controller, their disks, settings and clocks."""

from collections.abc import Iterator
from typing import Final

from kraft.client.state import BrokerState
from kraft.console.clock import duration_text, time_text
from kraft.console.state.what_if import Placed
from kraft.console.why.facts import Facts
from kraft.console.why.finding import AMBER, RED, Finding, count_of, does_not_answer, named
from kraft.console.why.history import FENCED, REGISTERED, STOPPED
from kraft.recorder.brokers import fencings
from kraft.recorder.entry import STATE

FULL_SHARE: Final = 0.1
"""A disk with less free space than this share of it is almost full."""
SKEW_MS: Final = 5_000


def offline_brokers(facts: Facts) -> Iterator[Finding]:
    """One finding for each broker that is fenced or does not answer, with what it holds up."""
    causes = fencings(facts.recordings.entries)
    for node_id, broker in facts.offline.items():
        event = facts.history.brokers.get(node_id)
        since = f" at {time_text(event.time_ms)}" if event is not None else ""
        because = causes.get((node_id, event.time_ms), "") if event is not None else ""
        met = facts.probes.get(node_id, broker.problem) if broker.fenced else broker.problem
        what = event.what if event is not None else None
        if event is not None and what == FENCED and not because and _recorded(facts, event.time_ms):
            what = STOPPED      # controllers record the cause of each fence that the broker did not request
        yield Finding(RED, f"broker {node_id}", _sentence(broker, met, what, since, because),
                      tuple(_effects(facts, node_id)), f"/brokers/{node_id}", 0)


def _recorded(facts: Facts, time_ms: int) -> bool:
    """Return whether the active controller's flight recorder reaches back to a time."""
    leader = -1 if facts.quorum is None else facts.quorum.leader
    return any(entry.node_id == leader and entry.time_ms < time_ms for entry in facts.recordings.entries)


def _sentence(broker: BrokerState, met: str | None, what: str | None, since: str, because: str) -> str:
    name = f"Broker {broker.node_id}"
    reason = f": {because}" if because else ""
    if what == STOPPED and met is not None:
        return f"{name} was stopped cleanly{since} and has not returned ({met})."
    fenced = f"the controller fenced it{since if what == FENCED else ''}{reason}"
    if does_not_answer(met):
        after = f"; {fenced}" if broker.fenced else ""
        return (f"{name} accepts connections and does not answer, so its process is paused or overloaded "
                f"({met}){after}.")
    if met is not None:
        after = f", and {fenced}" if broker.fenced else ", and the controller has not fenced it yet"
        return f"{name} does not answer ({met}){after}."
    if what == REGISTERED:
        return f"{name} answers, but is fenced since it registered{since}: it has not caught up with the metadata log."
    return f"{name} answers, but {fenced}, and it has not returned: it reaches no controller."


def _effects(facts: Facts, node_id: int) -> Iterator[str]:
    lacking = [each for each in facts.red if node_id in each.replicas and node_id not in each.isr]
    without = [each for each in facts.red if each.leader < 0 and node_id in each.replicas]
    if without:
        yield f"{count_of(len(without), 'partition')} without a leader: {_names(without)}"
    if lacking:
        verb = "lacks" if len(lacking) == 1 else "lack"
        yield f"{count_of(len(lacking), 'partition')} {verb} it among the in-sync replicas: {_names(lacking)}"


def _names(placed: list[Placed]) -> str:
    return named([f"{each.partition[0]}/{each.partition[1]}" for each in placed])


def without_controller(facts: Facts) -> Iterator[Finding]:
    """Brokers that answer clients while no controller has answered them."""
    for node_id, text in facts.leases.items():
        yield Finding(RED, f"broker {node_id}", f"Broker {node_id} answers clients but reaches no controller: {text}.",
                      tuple(_effects(facts, node_id)), f"/brokers/{node_id}", 0)


def failed_directories(facts: Facts) -> Iterator[Finding]:
    """Log directories that a broker cannot use."""
    for each in facts.directories:
        if each.problem is not None:
            yield Finding(RED, f"broker {each.node_id}", f"Log directory {each.path} of broker {each.node_id} has "
                          f"failed: {each.problem}.", (), f"/brokers/{each.node_id}", 0)


def full_disks(facts: Facts) -> Iterator[Finding]:
    """Disks with little space."""
    for each in facts.directories:
        if each.problem is None and 0 <= each.usable_bytes < each.total_bytes * FULL_SHARE:
            yield Finding(AMBER, f"broker {each.node_id}",
                          f"The disk of broker {each.node_id} at {each.path} is almost full: "
                          f"{size_text(each.usable_bytes)} of {size_text(each.total_bytes)} are free.",
                          (f"logs of the broker in this directory: {size_text(each.log_bytes)}",),
                          f"/brokers/{each.node_id}", 1)


def lost_records(facts: Facts) -> Iterator[Finding]:
    """Replicas that lack records which they had acknowledged."""
    for text in facts.storage.lost_records:
        yield Finding(RED, text.partition(":")[0], f"{text[0].upper()}{text[1:]}: records that it had acknowledged "
                      "are lost on its disk.", (), "/brokers", 1)


def stray_directories(facts: Facts) -> Iterator[Finding]:
    """Directories of partitions that do not exist."""
    for text in facts.storage.strays:
        yield Finding(AMBER, text.partition(":")[0], f"{text[0].upper()}{text[1:]}: the metadata has no such replica "
                      "there, so nobody reads them and they only take room.", (), "/brokers", 6)


def settings_not_applied(facts: Facts) -> Iterator[Finding]:
    """Committed metadata that a broker cannot apply."""
    for node_id, texts in facts.faults.items():
        for text in texts:
            yield Finding(RED, f"broker {node_id}", f"Broker {node_id} cannot apply committed metadata: {text}.", (),
                          f"/configs/broker/{node_id}", 2)


def clock_skew(facts: Facts) -> Iterator[Finding]:
    """Nodes whose clock differs from this machine's: times of records and retention follow it."""
    newest = {entry.node_id: entry.time_ms for entry in facts.recordings.entries if entry.what == STATE}
    ages = {node_id: facts.now_ms - time_ms for node_id, time_ms in newest.items()}
    ahead = {node_id: age for node_id, age in ages.items() if abs(age) > SKEW_MS}
    if len(ahead) == len(ages) > 1:
        yield Finding(AMBER, "clocks", "The clock of this machine differs from those of all nodes.", (), "/timeline", 6)
        return
    for node_id, age in ahead.items():
        direction = "behind" if age > 0 else "ahead"
        yield Finding(AMBER, f"node {node_id}", f"The clock of node {node_id} is {duration_text(abs(age))} "
                      f"{direction}: times of records, retention and time-outs follow it.", (), "/timeline", 3)


def size_text(size_bytes: float) -> str:
    """Format a size in the largest unit in which it is at least 1; `-` when it is not known."""
    if size_bytes < 0:
        return "-"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size_bytes < 1000:
            return f"{size_bytes:.0f} B" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1000
    return f"{size_bytes:.1f} PB"
