"""Progress of a stream: marks, limits, losses."""

import json

import pytest

from kraft.log_dir import TopicPartition
from kraft.spark.errors import DataLossError
from kraft.spark.progress import Mark, changes, limited, source_metrics, spans_between
from kraft_native.base.errors import InvalidArgumentError


def mark(*offsets: int, topic: str = "t", topic_id: str | None = "one") -> Mark:
    """A mark with the offsets of the partitions 0, 1, ...; -1 for a missing one."""
    return Mark({TopicPartition(topic, number): offset for number, offset in enumerate(offsets) if offset >= 0},
                {} if topic_id is None else {topic: topic_id})


def spans(start: Mark, end: Mark, earliest: Mark, latest: Mark, *, fail: bool = True) -> list[tuple[int, int, int]]:
    found = spans_between(start, end, earliest.offsets, latest.offsets, latest.topic_ids, fail)
    return [(each.partition, *span) for each, span in found.items()]


def test_deserialization_of_initial_offsets() -> None:
    written = Mark({TopicPartition("b", 10): 5, TopicPartition("b", 9): 6, TopicPartition("a", 0): 7}, {"b": "x"})
    text = json.dumps(written.to_json())
    assert text == '{"a": {"0": 7}, "b": {"9": 6, "10": 5}, "#kraft": {"version": 2, "topicIds": {"b": "x"}}}'
    assert Mark.from_json(json.loads(text)) == written
    assert Mark.from_json(json.loads(json.dumps(Mark().to_json()))) == Mark()


def test_offsets_of_other_writers() -> None:
    """Offsets of version 1, and those of Spark's Kafka connector; any name may be a topic's."""
    old = '{"version": 1, "offsets": {"a": {"0": 7}}, "topicIds": {"a": "x"}}'
    assert Mark.from_json(json.loads(old)) == Mark({TopicPartition("a", 0): 7}, {"a": "x"})
    theirs = '{"version": {"0": 7}, "offsets": {"1": 8}}'
    found = Mark.from_json(json.loads(theirs))
    assert found == Mark({TopicPartition("version", 0): 7, TopicPartition("offsets", 1): 8})
    assert json.dumps(found.to_json()) == '{"offsets": {"1": 8}, "version": {"0": 7}}'


def test_how_far_a_stream_is_behind() -> None:
    """The metrics have the names of Spark's Kafka connector; a partition without an offset counts from its front."""
    source = {"endOffset": json.dumps(mark(5, 9).to_json()), "latestOffset": json.dumps(mark(7, 9, 10).to_json())}
    assert source_metrics(source) == {
        "avgOffsetsBehindLatest": "4.0", "maxOffsetsBehindLatest": "10", "minOffsetsBehindLatest": "0"}
    assert source_metrics({"endOffset": None, "latestOffset": None}) == {}
    assert source_metrics({"endOffset": {}, "latestOffset": "{}"}) == {}


@pytest.mark.parametrize("text", [
    '{"version": 3, "offsets": {}}', '{"t": {"0": "x"}}', '{"t": 5}', '{"version": 1}',
    '{"t": {"0": 1}, "#kraft": {"version": 3}}', '{"#kraft": {}}',
])
def test_offset_log_version_checks(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"checkpoint: .*use a new checkpointLocation or a newer kraft"):
        Mark.from_json(json.loads(text))


def test_max_offsets_per_trigger_is_split_in_proportion() -> None:
    assert limited(mark(0, 0, 0), mark(1, 10, 100), 10) == mark(1, 1, 9)
    assert limited(mark(1, 1, 9), mark(1, 10, 100), 1000) == mark(1, 10, 100)
    assert limited(mark(0, 0), mark(2**62, 2**62), 2**63 - 1) == mark(2**62, 2**62)
    assert limited(mark(5, -1), mark(5, 40), 10) == mark(5, 10)


def test_a_limit_reads_all_in_the_end() -> None:
    start, end = mark(0, 0, 0), mark(3, 50, 7)
    for _ in range(60):
        start = limited(start, end, 5)
    assert start == end


def test_new_partitions_are_read_from_their_front() -> None:
    end = changes(mark(5), mark(7, 3), None, True)
    assert end == mark(7, 3)
    assert spans(mark(5), end, mark(0, 0), mark(9, 9)) == [(0, 5, 7), (1, 0, 3)]


def test_topic_recreation_fails_the_query() -> None:
    with pytest.raises(DataLossError, match=r"topic t was deleted and created again .*was one and is two"):
        changes(mark(5), mark(9, topic_id="two"), None, True)
    # Without ids the end decides.
    with pytest.raises(DataLossError, match="t-0: the log's end was changed from 2 to 1"):
        changes(mark(2, topic_id=None), mark(1, topic_id=None), None, True)
    end = changes(mark(5), mark(9, topic_id="two"), None, False)
    assert spans(mark(5), end, mark(0), mark(9, topic_id="two"), fail=False) == [(0, 0, 9)]
    assert changes(mark(2), mark(1), None, False) == mark(2)


def test_topic_recreation_between_planning_and_a_replay() -> None:
    with pytest.raises(DataLossError, match="created again"):
        spans(mark(2), mark(5), mark(0), mark(9, topic_id="two"))


def test_deleted_topics() -> None:
    with pytest.raises(DataLossError, match="t-1: these partitions are deleted"):
        changes(mark(5, 5), mark(7), None, True)
    assert changes(mark(5, 5), mark(7), None, False) == mark(7)
    assert spans(mark(0, 0), mark(5, 5), mark(0), mark(5), fail=False) == [(0, 0, 5)]


def test_lost_ranges_are_named() -> None:
    with pytest.raises(DataLossError, match=r"t-0 \[3, 8\), t-1 \[0, 2\): these offsets are not in the log"):
        spans(mark(3, -1), mark(20, 5), mark(8, 2), mark(20, 5))
    assert spans(mark(3, -1), mark(20, 5), mark(8, 2), mark(20, 5), fail=False) == [(0, 8, 20), (1, 2, 5)]
    with pytest.raises(DataLossError, match=r"t-0 \[15, 20\)"):
        spans(mark(3), mark(20), mark(0), mark(15))
    with pytest.raises(DataLossError, match=r"t-0 \[3, 20\)"):
        spans(mark(3), mark(20), mark(30), mark(40))


def test_available_now_ends_at_its_target() -> None:
    target = mark(10, 10)
    assert changes(mark(3, 3), mark(50, 50), target, True) == target
    assert changes(target, mark(50, 50), target, True) == target


def test_available_now_errors_when_planned_offsets_become_unavailable() -> None:
    with pytest.raises(DataLossError, match="t-1: these partitions are deleted"):
        changes(mark(3), mark(50), mark(10, 10), True)
    with pytest.raises(DataLossError, match="t-0: the log's end was changed from 10 to 7"):
        changes(mark(3), mark(7), mark(10), True)


def test_no_crash_loop_on_a_retry_in_available_now_after_partitions_were_added() -> None:
    """SPARK-53560: the retried batch knows a partition that the target does not."""
    start = mark(10, 4)
    assert changes(start, mark(12, 8), mark(10), True) == start
    assert changes(mark(10), mark(10, 4), mark(10), True) == mark(10)
