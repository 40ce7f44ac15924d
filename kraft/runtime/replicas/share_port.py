"""Queries of share groups to other brokers: the states of their partitions, and the ends of the partitions' logs."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kraft.broker.broker import Broker
from kraft.metadata.image import NO_LEADER
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kraft.protocol.messages.list_offsets_response import ListOffsetsResponse
from kraft.runtime.net.controller_channel import Line
from kraft.runtime.net.dialer import Dialer
from kraft.runtime.replicas.leader_queries import LATEST, VERSION, address_of
from kraft_native.base.errors import KraftError

CONSUMER: Final = -1
"""Replica id of a query for what consumers see."""

Place = tuple[str, int]


class BrokerSharePort:
    """See `SharePort`. Loop thread only. `clock` is the time of answers; `schedule` is called after each, because
    deadlines may have moved. `broker` is set once it exists: its coordinator is created with this port."""

    def __init__(self, node_id: int, dialer: Dialer, clock: Callable[[], int], schedule: Callable[[], None],
                 on_failure: Callable[[BaseException], object]) -> None:
        self.broker: Broker | None = None
        self._node_id = node_id
        self._dialer = dialer
        self._clock = clock
        self._schedule = schedule
        self._on_failure = on_failure
        self._tasks: dict[asyncio.Task[None], None] = {}

    @property
    def is_ready(self) -> bool:
        """See `SharePort`."""
        return self.broker is not None and self.broker.share_persister is not None

    def send(self, request: Message, answer: Callable[[Any, int], None]) -> None:
        """See `SharePort`."""
        assert self.broker is not None, "a group has no broker"
        persister = self.broker.share_persister
        assert persister is not None, "a broker has no way to the share coordinators"
        persister.send(request, lambda response: self._answer(answer, response))

    def ends(self, places: Sequence[Place], answer: Callable[[Mapping[Place, int], int], None]) -> None:
        """See `SharePort`. Leaders on other brokers are requested at the same time, on connections for this query."""
        task = asyncio.get_running_loop().create_task(self._find(places, answer))
        self._tasks[task] = None
        task.add_done_callback(lambda _: self._tasks.pop(task, None))

    def close(self) -> None:
        """Answer nothing further."""
        for task in list(self._tasks):
            task.cancel()

    async def _find(self, places: Sequence[Place], answer: Callable[[Mapping[Place, int], int], None]) -> None:
        assert self.broker is not None, "a group has no broker"
        found: dict[Place, int] = {}
        elsewhere: dict[int, dict[str, list[int]]] = {}
        for name, index in places:
            partition = self.broker.partition(name, index)
            registration = self.broker.image.partition(name, index)
            if partition is not None and partition.is_leader:
                found[name, index] = partition.high_watermark
            elif registration is not None and registration.leader not in (NO_LEADER, self._node_id):
                elsewhere.setdefault(registration.leader, {}).setdefault(name, []).append(index)
        for part in await asyncio.gather(*(self._query(leader, topics) for leader, topics in elsewhere.items())):
            found.update(part)
        self._answer(answer, found)

    async def _query(self, leader: int, topics: Mapping[str, Sequence[int]]) -> dict[Place, int]:
        """Return the ends of partitions that `leader` leads; none of those that it refuses, or while it cannot be
        reached."""
        assert self.broker is not None, "a group has no broker"
        address = address_of(self.broker, leader)
        if address is None:
            return {}
        line = Line(f"broker-{self._node_id}-share-groups", self._dialer)
        try:
            await line.open(address)
            body = await line.request(ListOffsetsRequest(replica_id=CONSUMER, topics=[
                ListOffsetsTopic(name=name, partitions=[
                    ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in indexes])
                for name, indexes in topics.items()]), VERSION, self.broker.integer("request.timeout.ms") / 1000)
            response = ListOffsetsResponse.decode(body, VERSION)
        except (OSError, TimeoutError, KraftError):
            return {}
        finally:
            line.close()
        return {(topic.name, part.partition_index): part.offset for topic in response.topics
                for part in topic.partitions if part.error_code == ErrorCode.NONE}

    def _answer(self, answer: Callable[[Any, int], None], response: Any) -> None:
        try:
            answer(response, self._clock())
        except Exception as error:  # noqa: BLE001 - whatever it is, the groups' state can no longer be trusted
            self._on_failure(error)
            return
        self._schedule()
