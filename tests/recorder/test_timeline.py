"""Entries of several nodes on one time line: text, page, and the states that they show."""

import re
from html.parser import HTMLParser

from kraft.raft.transitions import Role
from kraft.raft.types import ReplicaKey
from kraft.recorder.entry import STATE, Entry
from kraft.recorder.page import page
from kraft.recorder.ring import Recorder
from kraft.recorder.state import state_values, states_of
from kraft.recorder.timeline import merged, text_lines
from tests.raft.world import World, key

START_MS = 1_700_000_000_000


def entry(time_ms: float, node_id: int, number: int, what: str, **values: object) -> Entry:
    return Entry(time_ms, node_id, number, what, values)


def election() -> tuple[World, list[Entry]]:
    """Record that node 1 is elected and dies, and that node 3 is next."""
    recorders = {node_id: Recorder(node_id) for node_id in (1, 2, 3, 4)}
    world = World((1, 2, 3), (4,), record=lambda node_id, now_ms, event: recorders[node_id].record(now_ms, event))
    world.elect(1)
    world.propose(1, "a")
    world.pass_time(1000)
    world.crash(1)
    world.pass_time(5000)
    assert world.role(3) is Role.LEADER
    return world, merged(each for recorder in recorders.values() for each in recorder.entries())


def test_the_last_form_of_an_entry_counts_and_time_orders() -> None:
    early = entry(START_MS, 2, 1, "commits", hw=1)
    late = early._replace(times=3, until_ms=START_MS + 9, values={"hw": 3})
    other = entry(START_MS - 1, 1, 7, "becomes", role="Leader", epoch=1)
    assert merged([late, early, other, early]) == [other, late]


def test_text_names_node_action_and_cause() -> None:
    _, entries = election()
    text = "\n".join(text_lines(entries))
    assert "1  becomes Leader in epoch 1: received a majority of votes" in text
    assert "2  becomes Follower of 1 in epoch 1: discovered a leader, as 1 says" in text
    assert "3  becomes Leader in epoch 2: received a majority of votes" in text
    assert "2  becomes Unattached in epoch 2: learned of a higher epoch without a leader, as 3 says" in text
    assert "2  votes for 3:d003 in epoch 2: its log does not end before 4@1, as the one here does" in text
    assert re.search(r"1  high watermark 4: with [23] a majority has what is before it", text)
    assert "3  high watermark 5: with 2 a majority has what is before it" in text
    assert "2  high watermark 5: the leader 3 says so" in text
    assert "4  counts with the voters {1:d001 2:d002 3:d003}, by the record at 2 of the leader 1" in text
    for each in entries:
        entry_values = each.values
        assert each.what != "commits" or "leader" in entry_values or entry_values["by"] in (1, 2, 3), each
        assert each.what != "becomes" or entry_values["because"].startswith(
            ("learned", "discovered")) is ("source" in entry_values), each


def test_a_bootstrap_server_has_no_id() -> None:
    entry_values, = text_lines([entry(0, 1, 1, "becomes", role="Follower", leader=2, epoch=3, because="found",
                                      source=-3)])
    assert entry_values.endswith("becomes Follower of 2 in epoch 3: found, as a bootstrap server says")


def test_times_are_of_the_day_or_since_the_start() -> None:
    day, start = text_lines([entry(START_MS + 7, 1, 1, "x"), entry(1500.25, 1, 2, "y", at=3)])
    assert day == "2023-11-14 22:13:20.007  1  x"
    assert start.split() == ["1.500250", "1", "y", "at=3"]


class Page(HTMLParser):
    """Counts rows, and finds whatever a page would have to load."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = 0
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.rows += tag == "tr"
        self.loads += [name for name, _ in attributes if name in ("src", "href")]
        self.loads += [tag] * (tag in ("link", "img", "iframe"))


def test_the_page_has_every_entry_and_loads_nothing() -> None:
    _, entries = election()
    entries.append(entry(entries[-1].time_ms + 1, 9, 1, "<script>", because="a & b"))
    text = "".join(page(entries, "A <title>"))
    parsed = Page()
    parsed.feed(text)
    assert parsed.rows == 1 + len(entries)
    assert parsed.loads == []
    assert "url(" not in text
    assert "&lt;script&gt;: a &amp; b" in text
    assert re.search(r"<title>Leader in epoch 2</title>", text)
    assert "".join(page([], "nothing")).endswith("</html>\n")


def test_entries_describe_a_node() -> None:
    world, entries = election()
    states = states_of(entries)
    assert (states[3].role, states[3].epoch, states[3].leader_id) == ("Leader", 2, 3)
    assert (states[2].role, states[2].leader_id, states[2].because) == ("Follower", 3, "discovered a leader")
    assert states[1].role == "Leader"          # neither the node nor the time line knows better
    for node_id in (2, 3):
        entry_values, true = states[node_id].values, state_values(world.raft(node_id))
        assert {name: entry_values[name] for name in ("role", "epoch", "leader", "hw", "voters")} == {
            name: true[name] for name in ("role", "epoch", "leader", "hw", "voters")}


def test_a_state_entry_replaces_what_was_known() -> None:
    world, entries = election()
    values = state_values(world.raft(3))
    entries.append(entry(entries[-1].time_ms, 3, 99, STATE, **values))
    state = states_of(entries)[3]
    assert state.values == values
    assert state.because == "received a majority of votes"
    assert [each["disk"] for each in values["progress"]] == [str(key(1)), str(key(2)), str(key(4))]
    assert values["progress"][0]["fetched_ms"] == -1
    assert values["disk"] == str(ReplicaKey(3, world.raft(3).replica.config.key.directory_id))
