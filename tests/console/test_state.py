"""View models: pages of topics, what-if, time lines, moments, digests' blocks, decoders, sessions, the cache."""

import json
import sys
from dataclasses import replace
from uuid import UUID

import pytest

from kraft.client.security import PLAINTEXT, Security
from kraft.console.clock import duration_text, moment_text, parse_time, time_text
from kraft.console.decoders import SHOWN_BYTES_MAX, show
from kraft.console.pages.login import local_path, refusal
from kraft.console.recent import Recent
from kraft.console.search import Cursor
from kraft.console.sessions import IDLE_SECONDS, SESSIONS_MAX, Sessions
from kraft.console.sources import Difference, Moment
from kraft.console.state.overview import totals_of
from kraft.console.state.past import Changes, parse_moment, summarized
from kraft.console.state.timeline import Elections, Event, merged
from kraft.console.state.topics import TopicRow, TopicTable, page_of
from kraft.console.state.what_if import Placed, needing_minimum, what_if
from kraft.console.why.history import FENCED, RETURNED, STOPPED, History
from kraft.metadata.image import MetadataImage, PartitionRegistration, TopicImage
from kraft.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from kraft.protocol.messages.fence_broker_record import FenceBrokerRecord
from kraft.protocol.messages.partition_change_record import PartitionChangeRecord
from kraft.protocol.messages.partition_record import PartitionRecord
from kraft.protocol.messages.topic_record import TopicRecord
from kraft.recorder.entry import STATE, Entry
from kraft_native.base.errors import InvalidArgumentError

TOPIC = UUID(int=7)
ROWS = TopicTable(TopicRow(f"orders-{each:05}", each % 7 + 1, 3, int(each == 17), int(each % 1000 == 17), each == 3)
                  for each in range(10_000))


def test_pages_of_topics() -> None:
    first = page_of(ROWS)
    assert (len(first.rows), first.pages, first.matching, first.total) == (100, 100, 9_999, 10_000)
    assert page_of(ROWS, number=1_000).number == 100
    assert [row.name for row in page_of(ROWS, words="ORDERS 00003", internal=True).rows] == ["orders-00003"]
    assert page_of(ROWS, words="00003").rows == ()
    red = page_of(ROWS, only_problems=True, order="problems")
    assert (red.matching, red.rows[0].name, red.rows[0].problems) == (10, "orders-00017", 2)
    assert {row.partitions for row in page_of(ROWS, order="partitions").rows} == {7}
    assert totals_of(ROWS) == (10_000, sum(each % 7 + 1 for each in range(10_000)), 1, 10)


def test_a_table_of_topics_keeps_its_rows_in_little_memory() -> None:
    rows = list(ROWS)
    assert rows[3] == TopicRow("orders-00003", 4, 3, 0, 0, is_internal=True)
    assert list(TopicTable(reversed(rows))) == rows
    assert (len(TopicTable()), list(TopicTable()), page_of(TopicTable()).rows) == (0, [], ())
    assert sum(map(sys.getsizeof, (ROWS._names, ROWS._numbers))) < 400_000


def test_whole_things_are_one_difference() -> None:
    def image(**topics: int) -> MetadataImage:
        one = PartitionRegistration((1, 2), (TOPIC, TOPIC), (1,), 1)
        found = [TopicImage(name, UUID(int=number), dict.fromkeys(range(count), one))
                 for number, (name, count) in enumerate(topics.items())]
        return MetadataImage(topics={each.topic_id: each for each in found})

    before, after = image(kept=1), image(kept=2, other=1)
    found = summarized([Difference("/topics/kept/1/leader", None, 1), Difference("/topics/kept/1/isr", None, [1]),
                        Difference("/topics/kept/0/leader", 1, 2), Difference("/topics/new/0/leader", None, 1),
                        Difference("/configs/topic/kept/retention.ms", None, "1")], before, after)
    assert [each.path for each in found] == ["/topics/kept/1", "/topics/kept/0/leader", "/topics/new/0/leader",
                                             "/configs/topic/kept/retention.ms"]
    assert found[0].before is None and found[0].after == "leader 1, replicas 1, 2, in sync 1"


def placed(*isr: int, leader: int = 1, replicas: tuple[int, ...] = (1, 2, 3), index: int = 0) -> Placed:
    return Placed(("t", index), leader, replicas, isr)


def test_what_happens_when_a_broker_fails() -> None:
    layout = [placed(1, 2, 3), placed(1, 3, index=1), placed(1, index=2), placed(2, 3, leader=2, index=3),
              placed(1, 2, replicas=(1, 2), index=4)]
    found = what_if(1, layout, (1, 2, 3), {"t": 2}, (1, 2, 3))
    assert found.was_leading == 4
    assert found.moved == {2: 2, 3: 1}
    assert found.without_leader == (("t", 2),)
    assert found.below_minimum == (("t", 1), ("t", 4))
    assert found.last_copy == (("t", 1), ("t", 4))
    assert found.leaders_after == {2: 3, 3: 1}
    assert (found.voters, found.voters_needed, found.is_harmless) == (2, 2, False)
    assert what_if(3, layout[:1], (1, 2, 3), {"t": 2}).is_harmless
    assert not what_if(3, [], (1, 3), {}, (1, 3)).is_harmless
    assert needing_minimum(1, layout) == ["t"]


def test_a_second_failure_counts_the_first() -> None:
    """Broker 2 is in the ISR of the metadata and down already."""
    found = what_if(1, [placed(1, 2, replicas=(1, 2))], (1, 3), {})
    assert found.without_leader == (("t", 0),)


def events(*records: object) -> list[Event]:
    elections = Elections()
    for offset, record in enumerate(records):
        elections.apply(1_000 + offset, record, offset)
    return list(elections.events)


def test_elections_from_the_metadata_log() -> None:
    found = events(
        TopicRecord(name="t", topic_id=TOPIC),
        PartitionRecord(partition_id=0, topic_id=TOPIC, replicas=[1, 2], isr=[1, 2], leader=1),
        FenceBrokerRecord(id=1, epoch=4),
        PartitionChangeRecord(partition_id=0, topic_id=TOPIC, isr=[2], leader=2),
        PartitionChangeRecord(partition_id=0, topic_id=TOPIC, leader=1, isr=[1], leader_recovery_state=1))
    assert [each.text for each in found] == [
        "is created, leader 1, in sync 1, 2", "broker 1 is fenced", "leader 1 to 2; in sync 2",
        "leader 2 to 1, by an unclean election; in sync 1"]
    assert (found[-1].topic, found[-1].partition, found[-1].source) == ("t", 0, "metadata log 4")


def test_one_time_line() -> None:
    entries = [Entry(1_500, 1, 1, "becomes", {"role": "Leader", "epoch": 3, "leader": 1, "because": "won"}),
               Entry(2_500, 2, 1, "isr decided", {"topic": "t", "partition": 0, "epoch": 1, "isr": [1]}),
               Entry(9_000, 2, 2, STATE, {})]
    logged = [Event(2_000, "metadata log 4", "leader 1 to 2", "t", 0), Event(1_000, "metadata log 3", "x", "t", 1)]
    assert [each.time_ms for each in merged(entries, logged)] == [2_500, 2_000, 1_500, 1_000]
    assert [each.time_ms for each in merged(entries, logged, topic="t/0")] == [2_500, 2_000]
    assert [each.time_ms for each in merged(entries, logged, source="metadata log")] == [2_000, 1_000]
    assert [each.time_ms for each in merged(entries, logged, source="node 1")] == [1_500]
    assert len(merged(entries, logged, count=2)) == 2
    same = [Event(1_000, "node 1", text) for text in ("first", "second")]
    assert [each.text for each in merged([], same)] == ["second", "first"]


def test_events_of_brokers() -> None:
    history = History()
    change = BrokerRegistrationChangeRecord
    for time_ms, record in enumerate((
            change(broker_id=1, broker_epoch=1, in_controlled_shutdown=1), FenceBrokerRecord(id=1, epoch=1),
            FenceBrokerRecord(id=2, epoch=1), change(broker_id=3, broker_epoch=1, fenced=-1))):
        history.apply(time_ms, record, time_ms)
    assert {each: event.what for each, event in history.brokers.items()} == {1: STOPPED, 2: FENCED, 3: RETURNED}


def test_changes_in_words() -> None:
    changes = Changes()
    changes.apply(5, TopicRecord(name="t", topic_id=TOPIC), 10)
    changes.apply(6, PartitionChangeRecord(partition_id=0, topic_id=TOPIC, leader=2, isr=[2, 3]), 11)
    assert (changes.first, changes.first_ms) == (10, 5)
    assert [(each.kind, each.offset) for each in changes.shown] == [("Topic", 10), ("PartitionChange", 11)]
    assert "topic t" in changes.shown[1].text and "isr 2, 3" in changes.shown[1].text


def test_moments_and_times() -> None:
    assert parse_moment("") == Moment()
    assert parse_moment(" 12 ") == Moment(offset=12)
    assert parse_moment("2026-01-31T09:00:00") == Moment(time_ms=1_769_850_000_000)
    assert parse_time(time_text(1_769_850_000_000)) == 1_769_850_000_000
    with pytest.raises(InvalidArgumentError, match="at: 'yesterday'"):
        parse_moment("yesterday")
    assert [duration_text(each) for each in (-1, 1_500, 61_000, 3_600_000, 200_000_000)] == [
        "0.0 s", "1.5 s", "1 min 1 s", "1 h 0 min", "2 d 7 h"]
    assert moment_text(1_769_850_000_123) == "2026-01-31 09:00:00.123" and moment_text(-1) == "-"
    assert time_text(-1) == "-" and "since 1970" in time_text(1e18)


def test_decoders() -> None:
    assert show(None).text == "null"
    assert show("grün".encode()) == ("text", "grün", False, "")
    assert show(b'{"a":1}').kind == "json" and json.loads(show(b'{"a":1}').text) == {"a": 1}
    assert show(b"\0\0\0\0\x2aabc").note == "schema id 42 of a schema registry"
    assert show(b"\xff\xfe").kind == "hex" and "ff fe" in show(b"\xff\xfe").text
    assert (show((5).to_bytes(8, "big"), "number").text, show(b"abc", "number").note) == ("5", "not number")
    assert show(b"\x3f\xf0\0\0\0\0\0\0", "double").text == "1.0"
    long = show("é".encode() * SHOWN_BYTES_MAX)
    assert long.is_cut and long.kind == "text"
    assert show(b"[" * 100_000, "json").kind == "hex"


def test_sessions() -> None:
    time = [0.0]
    sessions = Sessions(lambda: time[0])
    session = sessions.begin(Security(username="a"), "a")
    assert sessions.find(session.session_id) is session and sessions.find("x") is None
    assert session.accepts(session.token) and not session.accepts("é")
    for _ in range(SESSIONS_MAX + 50):
        sessions.begin()
    assert sessions.find(session.session_id) is session
    time[0] += IDLE_SECONDS + 1
    assert sessions.find(session.session_id) is None
    session = sessions.begin()
    sessions.end(session)
    assert sessions.find(session.session_id) is None
    assert "secret" not in repr(Security(username="a", password="secret"))


def test_the_cache_computes_once_and_forgets() -> None:
    time, made = [0.0], []
    recent = Recent(lambda: time[0])

    def make() -> int:
        made.append(1)
        return len(made)

    assert [recent.get("a", 3, make), recent.get("a", 3, make), recent.get("b", 3, make)] == [1, 1, 2]
    time[0] = 4.0
    assert recent.get("a", 3, make) == 3
    recent.clear()
    assert recent.get("a", 3, make) == 4


def test_arguments_of_addresses() -> None:
    assert [local_path(each) for each in ("/topics", "//evil", "/\\evil", "https://evil", "/a\nb", "")] == [
        "/topics", "/", "/", "/", "/", "/"]
    assert str(Cursor.parse("3.12")) == "3.12"
    for wrong in ("", "3", "3.x", "-1.0", "1." + "9" * 50):
        with pytest.raises(InvalidArgumentError, match="cursor"):
            Cursor.parse(wrong)
    assert "certificate" in refusal(replace(PLAINTEXT, tls=True, certificate_file="x"))
    assert refusal(replace(PLAINTEXT, tls=True, certificate_file="x", mechanism="PLAIN")) == ""
