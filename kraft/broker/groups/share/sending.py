"""Requests to the share coordinators about many partitions: divided, and sent one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final, TypeAlias
from uuid import UUID

from kraft.broker.groups.ports import SharePort
from kraft.protocol.message import Message
from kraft.protocol.messages.delete_share_group_state_request import (
    DeleteShareGroupStateRequest,
    DeleteStateData,
    PartitionData,
)

AT_ONCE: Final = 512
"""Limit of the partitions of one request."""

Places: TypeAlias = list[tuple[UUID, Sequence[int]]]
"""Partitions by topic."""


def divided(topics: Iterable[tuple[UUID, Sequence[int]]]) -> Iterator[Places]:
    """Yield the partitions in parts."""
    part: Places = []
    room = AT_ONCE
    for topic_id, indexes in topics:
        start = 0
        while start < len(indexes):
            some = indexes[start:start + room]
            part.append((topic_id, some))
            start += len(some)
            room -= len(some)
            if not room:
                yield part
                part, room = [], AT_ONCE
    if part:
        yield part


def send_each(port: SharePort, requests: Iterator[Message], done: Callable[[list[Any], int], None]) -> None:
    """Send requests, at least one, each when the one before is answered. `done` gets the results of all, and the time
    of the last answer."""
    responses: list[Any] = []

    def send_next(at_ms: int) -> None:
        request = next(requests, None)
        if request is None:
            done(list(chain.from_iterable(each.results for each in responses)), at_ms)
        else:
            port.send(request, answered)

    def answered(response: Any, at_ms: int) -> None:
        responses.append(response)
        send_next(at_ms)

    send_next(0)


def deletions(group_id: str, topics: Iterable[tuple[UUID, Sequence[int]]]) -> Iterator[Message]:
    """Yield the requests that delete the states of a group's partitions."""
    for part in divided(topics):
        yield DeleteShareGroupStateRequest(group_id=group_id, topics=[
            DeleteStateData(topic_id=topic_id, partitions=[PartitionData(partition=index) for index in indexes])
            for topic_id, indexes in part])
