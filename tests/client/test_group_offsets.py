"""Offsets that a client sets for a group, with coordinators that are not ready."""

from types import SimpleNamespace
from typing import Any

import pytest

from kraft.client import RefusedError, retries
from kraft.client.groups import commit_offsets
from kraft.client.retries import COORDINATOR_NOT_YET
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.offset_commit_request import OffsetCommitRequest
from kraft.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

TIMEOUT = 0.5


class Cluster:
    """A cluster whose coordinators answer with `codes`, one after the other; the last one is repeated. `now` is moved
    by pauses only."""

    def __init__(self, *codes: ErrorCode, monkeypatch: pytest.MonkeyPatch) -> None:
        self.codes = list(codes)
        self.timeout = TIMEOUT
        self.now = 0.0
        self.searches = 0
        self.committed: list[dict[tuple[str, int], int]] = []
        monkeypatch.setattr(retries, "time", SimpleNamespace(monotonic=lambda: self.now, sleep=self.pause))

    def pause(self, seconds: float) -> None:
        self.now += seconds

    def coordinator(self, group: str) -> Any:
        assert group == "g"
        self.searches += 1
        return SimpleNamespace(version=lambda _key, highest: highest, send=self.answer)

    def answer(self, request: OffsetCommitRequest, _response: type, *, version: int) -> OffsetCommitResponse:
        assert request.encode(version)
        code = self.codes.pop(0) if len(self.codes) > 1 else self.codes[0]
        self.committed.append({(topic.name, each.partition_index): each.committed_offset
                               for topic in request.topics for each in topic.partitions})
        return OffsetCommitResponse(topics=[
            OffsetCommitResponseTopic(name=topic.name, partitions=[
                OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
                for each in topic.partitions])
            for topic in request.topics])


@pytest.mark.parametrize("code", COORDINATOR_NOT_YET)
def test_a_coordinator_that_has_just_begun_gets_the_request_again(
        code: ErrorCode, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster: Any = Cluster(code, code, ErrorCode.NONE, monkeypatch=monkeypatch)
    commit_offsets(cluster, "g", {("t", 1): 7, ("s", 0): 5})
    assert cluster.searches == 3
    assert cluster.committed == [{("s", 0): 5, ("t", 1): 7}] * 3
    assert cluster.now > 0


def test_a_coordinator_that_stays_away_is_reported_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster: Any = Cluster(ErrorCode.NOT_COORDINATOR, monkeypatch=monkeypatch)
    with pytest.raises(RefusedError, match="group g, partition t-0") as caught:
        commit_offsets(cluster, "g", {("t", 0): 1})
    assert caught.value.code == ErrorCode.NOT_COORDINATOR
    assert 0 < cluster.now <= TIMEOUT


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_MEMBER_ID])
def test_another_refusal_is_reported_at_once(code: ErrorCode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka marks the first of them as temporary; here it says that the partition does not exist."""
    cluster: Any = Cluster(code, monkeypatch=monkeypatch)
    with pytest.raises(RefusedError) as caught:
        commit_offsets(cluster, "g", {("t", 0): 1})
    assert (caught.value.code, cluster.searches, cluster.now) == (code, 1, 0)
