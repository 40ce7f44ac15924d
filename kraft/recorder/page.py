"""Time line as one self-contained HTML file. It shows the roles of each node as bands, and every entry in a table with
one column for each node, coloured by the role of the node."""

from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise
from math import log2
from typing import Final

from kraft.recorder.entry import Entry
from kraft.recorder.state import NodeState
from kraft.recorder.timeline import clock_text, sentence

COLOURS: Final = {
    "Leader": "#7fbf7f", "Follower": "#cfe3f5", "Candidate": "#f4a582", "Prospective": "#fddbc7",
    "Unattached": "#e6e6e6", "Resigned": "#c2a5cf", "unknown": "#ffffff",
}
BAND_WIDTH: Final = 1200
BAND_HEIGHT: Final = 22
LABEL_WIDTH: Final = 70
TICKS: Final = 8
CLASS_OF: Final = {"becomes": "role", "started": "role", "votes": "vote", "answers vote": "vote",
                   "answers pre-vote": "vote", "commits": "commit", "voters": "voters", "changes voters": "voters"}
KINDS: Final = {"role": "roles", "vote": "votes", "commit": "commits", "voters": "voters", "other": "others"}

STYLE: Final = """
body { font: 14px/1.4 system-ui, sans-serif; margin: 1.5em; color: #222 }
table { border-collapse: collapse; width: 100% }
th { position: sticky; top: 0; background: #fff; text-align: left; border-bottom: 2px solid #888 }
td, th { padding: 1px 6px; vertical-align: top }
td.t { white-space: nowrap; font-family: monospace; color: #555 }
td.lane { border-left: 1px solid #fff; min-width: 6em }
label { margin-right: 1em } .k { display: inline-block; width: 1em; height: 1em; vertical-align: -2px }
svg text { font: 11px monospace }
"""
SCRIPT: Final = """
document.querySelectorAll('input').forEach(box => box.onchange = () =>
  document.querySelectorAll('tr.' + box.name).forEach(row => row.hidden = !box.checked));
"""


def page(entries: Sequence[Entry], title: str) -> Iterator[str]:
    """Yield the page in pieces; `entries` must be in the order of time."""
    nodes = sorted(dict.fromkeys(entry.node_id for entry in entries))
    yield (f"<!doctype html>\n<html lang=en><meta charset=utf-8><title>{escape(title)}</title>\n"
           f"<style>{STYLE}</style>\n<h1>{escape(title)}</h1>\n<p>")
    for role, colour in COLOURS.items():
        yield f'<span class=k style="background:{colour}"></span> {role} &nbsp; '
    yield "</p>\n"
    if entries:
        yield from _bands(entries, nodes)
    yield "<p>"
    for name, text in KINDS.items():
        yield f"<label><input type=checkbox name={name} checked> {text}</label>"
    yield "</p>\n<table><tr><th>time</th>"
    for node_id in nodes:
        yield f"<th>node {node_id}</th>"
    yield "</tr>\n"
    yield from _rows(entries, nodes)
    yield f"</table>\n<script>{SCRIPT}</script>\n</html>\n"


def _rows(entries: Sequence[Entry], nodes: Sequence[int]) -> Iterator[str]:
    states = {node_id: NodeState(node_id) for node_id in nodes}
    for entry in entries:
        states[entry.node_id].take(entry)
        yield f'<tr class={CLASS_OF.get(entry.what, "other")}><td class=t>{clock_text(entry.time_ms)}</td>'
        for node_id in nodes:
            text = escape(sentence(entry)) if node_id == entry.node_id else ""
            yield f'<td class=lane style="background:{_colour(states[node_id])}">{text}</td>'
        yield "</tr>\n"


def _colour(state: NodeState) -> str:
    return COLOURS.get(state.role, COLOURS["unknown"])


def _places(entries: Sequence[Entry]) -> dict[float, float]:
    """Return the horizontal position of each time. Gaps have the width of their logarithm, so that a burst is visible
    beside an hour without one."""
    times = sorted(dict.fromkeys(entry.time_ms for entry in entries))
    places, total = {times[0]: 0.0}, 0.0
    for before, after in pairwise(times):
        total += log2(1 + after - before)
        places[after] = total
    scale = BAND_WIDTH / total if total else 1.0
    return {time_ms: LABEL_WIDTH + place * scale for time_ms, place in places.items()}


def _bands(entries: Sequence[Entry], nodes: Sequence[int]) -> Iterator[str]:
    places = _places(entries)
    width, height = LABEL_WIDTH + BAND_WIDTH + 10, len(nodes) * (BAND_HEIGHT + 6) + 20
    yield f'<svg viewBox="0 0 {width} {height}" width="100%" role="img">\n'
    for row, node_id in enumerate(nodes):
        top = row * (BAND_HEIGHT + 6)
        yield f'<text x="0" y="{top + 15}">node {node_id}</text>\n'
        yield from _band([entry for entry in entries if entry.node_id == node_id], places, top)
    times = sorted(places)
    for number in range(TICKS):
        time_ms = times[number * (len(times) - 1) // (TICKS - 1)]
        anchor = "end" if number == TICKS - 1 else "start"
        yield (f'<text x="{places[time_ms]:.1f}" y="{height - 4}" text-anchor="{anchor}">'
               f"{clock_text(time_ms).split()[-1]}</text>\n")
    yield "</svg>\n"


def _band(entries: Sequence[Entry], places: dict[float, float], top: int) -> Iterator[str]:
    """Yield the band of one node: a piece for each role and epoch."""
    state = NodeState(entries[0].node_id)
    right = max(places.values())
    start, shown = places[entries[0].time_ms], ("", -1)
    for entry in entries:
        before = _colour(state)
        state.take(entry)
        if (state.role, state.epoch) != shown:
            place = places[entry.time_ms]
            if shown[0]:
                yield _piece(start, place, top, before, shown)
            start, shown = place, (state.role, state.epoch)
    if shown[0]:
        yield _piece(start, right, top, _colour(state), shown)


def _piece(left: float, right: float, top: int, colour: str, shown: tuple[str, int]) -> str:
    label = f'<text x="{left + 2:.1f}" y="{top + 15}">{shown[1]}</text>' if right - left > 24 else ""
    return (f'<rect x="{left:.1f}" y="{top}" width="{max(right - left, 0.5):.1f}" height="{BAND_HEIGHT}" '
            f'fill="{colour}" stroke="#888" stroke-width="0.3"><title>{shown[0]} in epoch {shown[1]}</title></rect>'
            f"{label}\n")
