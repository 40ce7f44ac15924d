"""The life of the controller's own broker."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from kraft.controller.local_broker import RETRY_MS, LocalBroker, State
from kraft.controller.sessions import NEVER_MS
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from kraft.protocol.messages.broker_registration_request import BrokerRegistrationRequest, Feature
from kraft.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from tests.controller.world import CLUSTER, World


def broker_of(world: World, incarnation: int = 1, **fields: Any) -> LocalBroker:
    return LocalBroker(world.controller, BrokerRegistrationRequest(**{
        "broker_id": 1, "cluster_id": CLUSTER, "incarnation_id": UUID(int=6000 + incarnation),
        "log_dirs": [UUID(int=9001)], "features": [
            Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in world.settings.features.items()], **fields}))


def run(world: World, broker: LocalBroker) -> None:
    """Commits, and sends what is due, until nothing is."""
    for _ in range(10):
        world.commit()
        if broker.deadline_ms <= world.now_ms:
            broker.tick(world.now_ms)


def test_a_whole_life_and_the_next() -> None:
    world = World()
    broker = broker_of(world)
    broker.start(world.now_ms)
    assert (broker.state, broker.epoch) == (State.NEW, -1)
    run(world, broker)
    assert (broker.state, broker.epoch) == (State.FENCED, world.image.brokers[1].epoch)
    assert broker.deadline_ms == world.now_ms + 2_000
    broker.serve(world.now_ms)
    run(world, broker)
    assert broker.state is State.RUNNING
    world.ask(CreateTopicsRequest(topics=[CreatableTopic(name="a", num_partitions=1, replication_factor=1)]))
    broker.stop(world.now_ms)
    run(world, broker)
    assert broker.state is State.STOPPED
    assert world.image.brokers[1].fenced
    world = World(world.log)
    broker = broker_of(world, incarnation=2, previous_broker_epoch=broker.epoch)
    broker.start(world.now_ms)
    broker.serve(world.now_ms)
    run(world, broker)
    assert broker.state is State.RUNNING
    partition = world.partition("a")
    assert (partition.leader, partition.leader_epoch, partition.leader_recovery_state) == (1, 2, 0)


def test_heartbeats_keep_it_alive() -> None:
    world = World()
    broker = broker_of(world)
    broker.start(world.now_ms)
    broker.serve(world.now_ms)
    run(world, broker)
    for _ in range(20):
        world.now_ms = broker.deadline_ms
        run(world, broker)
        world.controller.tick(world.now_ms)
        world.commit()
        assert not world.image.brokers[1].fenced


def test_refusals_are_told_and_tried_again() -> None:
    world = World()
    broker = broker_of(world, cluster_id="other")
    broker.start(world.now_ms)
    run(world, broker)
    assert (broker.state, broker.refusal) == (State.NEW, ErrorCode.INCONSISTENT_CLUSTER_ID)
    assert broker.deadline_ms == world.now_ms + RETRY_MS
    broker.stop(world.now_ms)
    assert broker.state is State.STOPPED


def test_a_hurried_heartbeat_goes_at_once_or_after_the_one_under_way() -> None:
    world = World()
    broker = broker_of(world)
    broker.hurry(world.now_ms)              # it is not registered: nothing to say
    broker.start(world.now_ms)
    broker.serve(world.now_ms)
    run(world, broker)
    assert broker.deadline_ms > world.now_ms
    epoch = world.image.brokers[1].epoch
    world.controller.sessions.forget(1)
    broker.hurry(world.now_ms)
    world.commit()
    assert world.controller.sessions.valid(1, world.now_ms)
    assert world.image.brokers[1].epoch == epoch
    world.ask(CreateTopicsRequest(topics=[CreatableTopic(name="a", num_partitions=1, replication_factor=1)]))
    broker.stop(world.now_ms)               # not answered before it is committed
    broker.hurry(world.now_ms)
    assert broker.state is State.STOPPING
    run(world, broker)
    assert broker.state is State.STOPPED
    broker.hurry(world.now_ms)
    assert broker.state is State.STOPPED


class SilentController:
    """Answers when the test says so."""

    def __init__(self, world: World) -> None:
        self.image = world.image
        self.waiting: list[Callable[[Message], None]] = []

    def submit(self, _request: Message, _version: int, _now_ms: int, answer: Callable[[Message], None]) -> None:
        self.waiting.append(answer)


def test_nothing_is_due_while_a_request_is_under_way() -> None:
    controller = SilentController(World())
    broker = LocalBroker(controller, BrokerRegistrationRequest(broker_id=1))
    broker.start(0)
    broker.tick(broker.deadline_ms)
    assert (broker.deadline_ms, len(controller.waiting)) == (NEVER_MS, 1), "who waits for a deadline waits for none"
    controller.waiting.pop()(BrokerRegistrationResponse(broker_epoch=7))
    broker.tick(broker.deadline_ms)
    broker.hurry(3_000)
    assert (broker.deadline_ms, len(controller.waiting)) == (NEVER_MS, 1)
    controller.waiting.pop()(BrokerHeartbeatResponse(is_fenced=True))
    assert broker.deadline_ms == 3_000
    broker.tick(3_000)
    assert len(controller.waiting) == 1
