"""The way to the states of share partitions: by the coordinator on this node, and over sockets to another broker."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import uvloop

from kraft.broker.broker import Broker
from kraft.broker.internal_topics import SHARE_STATE_TOPIC
from kraft.broker.share_state import persister
from kraft.broker.share_state.coordinator import ShareCoordinator
from kraft.broker.share_state.state import ShareKey
from kraft.client import Cluster
from kraft.client.topics import create_topic, delete_topics
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.runtime.net.dialer import Dialer
from kraft.runtime.replicas.share_persister import StatePersister
from kraft.runtime.server_node import ServerNode
from tests.broker.share_state.share_node import code_of, initialize, read, write
from tests.runtime.nodes import config

GROUP = "g"
OK = (ErrorCode.NONE, None)

Scenario = Callable[["World"], Coroutine[Any, Any, None]]


async def until_true(holds: Callable[[], bool]) -> None:
    for _ in range(2_000):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it does not come")


class World:
    """A node with the topic "orders", and another broker's way to it over sockets."""

    def __init__(self, node: ServerNode) -> None:
        self.node = node
        self.broker = node.parts.core.broker
        self.failures: list[BaseException] = []
        self.other = self.persister_of(7)

    def persister_of(self, node_id: int) -> StatePersister:
        broker = SimpleNamespace(node_id=node_id, image=self.broker.image, integer=self.broker.integer,
                                 config=self.broker.config, submit=self.broker.submit)
        self.seen = broker
        return StatePersister(cast(Broker, broker), Dialer(), lambda _request, _respond: False, lambda: 0,
                              self.failures.append)

    def key(self, partition: int = 0) -> ShareKey:
        return ShareKey(GROUP, self.broker.image.topic_ids["orders"], partition)

    async def call(self, request: Message, sender: Any = None) -> Any:
        """Send a request, by this node's own persister if no other is given."""
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        (sender or self.broker.share_persister).send(request, answer.set_result)
        assert not answer.done(), "an answer comes later"
        return await answer


@pytest.fixture
def run(tmp_path: Path) -> Callable[[Scenario], None]:
    async def main(scenario: Scenario) -> None:
        node = ServerNode(config(tmp_path, node_id="1", share_coordinator_state_topic_num_partitions="2"))
        await node.start()
        cluster = Cluster(f"127.0.0.1:{node.listeners['PLAINTEXT'].port}", timeout=10)
        await asyncio.to_thread(create_topic, cluster, "orders", 3)
        world = World(node)
        try:
            async with asyncio.timeout(30):
                await until_true(lambda: "orders" in world.broker.image.topic_ids)
                await scenario(world)
        finally:
            world.other.close()
            await asyncio.to_thread(cluster.close)
            node.stop()
            await node.run()
        assert world.failures == []

    return lambda scenario: uvloop.run(main(scenario))


def test_the_first_request_creates_the_topic_and_later_ones_need_no_connection(
        run: Callable[[Scenario], None]) -> None:
    async def scenario(world: World) -> None:
        assert world.broker.share_state is None
        assert code_of(await world.call(initialize(key=world.key()))) == OK
        assert isinstance(world.broker.share_state, ShareCoordinator)
        assert code_of(await world.call(write((0, 4, 2, 1), key=world.key()))) == OK
        response = await world.call(read(3, world.key()))
        assert code_of(response) == OK
        assert response.results[0].partitions[0].state_batches[0].last_offset == 4
        assert code_of(await world.call(write(leader_epoch=2, key=world.key())))[0] == ErrorCode.FENCED_LEADER_EPOCH

    run(scenario)


def test_another_broker_writes_over_a_connection(run: Callable[[Scenario], None]) -> None:
    async def scenario(world: World) -> None:
        for partition in range(3):
            assert code_of(await world.call(initialize(key=world.key(partition)))) == OK
        world.seen.image = world.broker.image
        answers = await asyncio.gather(*(
            world.call(write((number, number, 2, 1), key=world.key(number % 3)), world.other) for number in range(30)))
        assert [code_of(each) for each in answers] == [OK] * 30
        for partition in range(3):
            response = await world.call(read(key=world.key(partition)))
            assert [each.first_offset for each in response.results[0].partitions[0].state_batches] == list(
                range(partition, 30, 3))
        assert code_of(await world.call(write(state_epoch=0, key=world.key()), world.other))[0] == (
            ErrorCode.FENCED_STATE_EPOCH)

    run(scenario)


def test_a_request_is_repeated_until_a_coordinator_answers(run: Callable[[Scenario], None]) -> None:
    """The partition of the log is led by a broker that cannot be reached, then by one that answers."""
    async def scenario(world: World) -> None:
        assert code_of(await world.call(initialize(key=world.key()))) == OK
        image = world.broker.image
        topic = image.topic(SHARE_STATE_TOPIC)
        assert topic is not None
        away = SimpleNamespace(partitions={index: SimpleNamespace(leader=9) for index in topic.partitions})
        world.seen.image = SimpleNamespace(topic=lambda _name: away, topics=image.topics, brokers=image.brokers)
        pending = asyncio.ensure_future(world.call(write((1, 1, 2, 1), key=world.key()), world.other))
        await asyncio.sleep(0.2)
        assert not pending.done()
        world.seen.image = image
        assert code_of(await pending) == OK

    run(scenario)


def test_attempts_end(run: Callable[[Scenario], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(persister, "RETRY_MS", 300)

    async def scenario(world: World) -> None:
        world.seen.image = SimpleNamespace(
            topic=lambda _name: SimpleNamespace(partitions=[SimpleNamespace(leader=9)]), topics={}, brokers={})
        response = await world.call(write(key=world.key()), world.other)
        assert code_of(response)[0] == ErrorCode.COORDINATOR_NOT_AVAILABLE

    run(scenario)


def test_states_of_a_deleted_topic_are_deleted(run: Callable[[Scenario], None]) -> None:
    async def scenario(world: World) -> None:
        key = world.key()
        assert code_of(await world.call(initialize(key=key))) == OK
        coordinator = world.broker.share_state
        assert coordinator is not None

        def states() -> list[ShareKey]:
            return [each for _, state in coordinator.shards.active(0) for each in state.states]

        assert states() == [key]
        cluster = Cluster(f"127.0.0.1:{world.node.listeners['PLAINTEXT'].port}", timeout=10)
        await asyncio.to_thread(delete_topics, cluster, ["orders"])
        await asyncio.to_thread(cluster.close)
        await until_true(lambda: states() == [])

    run(scenario)
