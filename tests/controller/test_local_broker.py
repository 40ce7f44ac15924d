"""The life of the controller's own broker."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from kraft.controller.local_broker import RETRY_MS, LocalBroker, State, UnreportedDirectoryError
from kraft.deadlines import NEVER_MS
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.ids import id_text
from kraft.protocol.message import Message
from kraft.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
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
            for name, (low, high) in world.settings.features.items()], **fields}),
        directory_failure_timeout_ms=30_000)


def run(world: World, broker: LocalBroker) -> None:
    """Commit, and send what is due, until nothing is."""
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
    world.send(CreateTopicsRequest(topics=[CreatableTopic(name="a", num_partitions=1, replication_factor=1)]))
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


def test_refused_requests_are_reported_and_repeated() -> None:
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
    broker.send_now(world.now_ms)              # it is not registered: nothing to say
    broker.start(world.now_ms)
    broker.serve(world.now_ms)
    run(world, broker)
    assert broker.deadline_ms > world.now_ms
    epoch = world.image.brokers[1].epoch
    world.controller.sessions.forget(1)
    broker.send_now(world.now_ms)
    world.commit()
    assert world.controller.sessions.valid(1, world.now_ms)
    assert world.image.brokers[1].epoch == epoch
    world.send(CreateTopicsRequest(topics=[CreatableTopic(name="a", num_partitions=1, replication_factor=1)]))
    broker.stop(world.now_ms)               # not answered before it is committed
    broker.send_now(world.now_ms)
    assert broker.state is State.STOPPING
    run(world, broker)
    assert broker.state is State.STOPPED
    broker.send_now(world.now_ms)
    assert broker.state is State.STOPPED


def test_cordoned_directories_are_reported() -> None:
    world = World()
    broker = broker_of(world)
    assert broker.cordon([UUID(int=9001)])
    assert not broker.cordon([UUID(int=9001)])
    broker.start(world.now_ms)
    run(world, broker)
    assert world.image.brokers[1].cordoned_log_dirs == (UUID(int=9001),)
    assert broker.cordon([])
    broker.send_now(world.now_ms)
    world.commit()
    assert world.image.brokers[1].cordoned_log_dirs == ()


def test_another_process_with_its_id() -> None:
    """Its session has expired: it is refused, reports why once, and yields to the other when it learns of it."""
    world = World()
    broker, notices = broker_of(world), list[str]()
    broker.on_notice = notices.append
    broker.start(world.now_ms)
    broker.serve(world.now_ms)
    run(world, broker)
    own = broker.epoch
    assert broker.successor(world.image) is None
    world.now_ms += 9_000
    other = broker_of(world, incarnation=2)
    other.start(world.now_ms)
    other.serve(world.now_ms)
    run(world, other)
    for _ in range(3):
        world.now_ms += 2_000
        run(world, other)
        broker.tick(world.now_ms)
    assert (broker.state, broker.epoch) == (State.FENCED, -1)
    ended, stale, refused = notices
    assert ended.startswith("the lease of broker 1 ran out")
    assert f"epoch {own} " in stale
    assert str(UUID(int=6001)) in refused
    assert "DUPLICATE_BROKER_REGISTRATION, the broker id is in use" in refused
    found = broker.successor(world.image)
    assert found is not None
    assert (found.epoch, found.incarnation_id) == (other.epoch, UUID(int=6002))
    broker.give_up()
    record_count = len(world.log.records)
    world.now_ms += 9_000
    for call in (broker.tick, broker.send_now, broker.stop):
        call(world.now_ms)
    assert (broker.state, broker.deadline_ms, len(world.log.records)) == (State.REPLACED, NEVER_MS, record_count)
    other.stop(world.now_ms)
    assert other.successor(world.image) is None


def test_a_broker_that_was_let_go_has_no_successor_to_fear() -> None:
    world = World()
    broker = broker_of(world)
    broker.start(world.now_ms)
    run(world, broker)
    broker.stop(world.now_ms)
    run(world, broker)
    assert broker.state is State.STOPPED
    broker_of(world, incarnation=2).start(world.now_ms)
    world.commit()
    assert world.image.brokers[1].incarnation_id == UUID(int=6002)
    assert broker.successor(world.image) is None


def test_an_answer_after_it_gave_up_changes_nothing() -> None:
    controller = UnresponsiveController(World())
    broker = LocalBroker(controller, BrokerRegistrationRequest(broker_id=1))
    broker.start(0)
    controller.waiting.pop()(BrokerRegistrationResponse(broker_epoch=7))
    broker.tick(broker.deadline_ms)
    broker.give_up()
    controller.waiting.pop()(BrokerHeartbeatResponse(is_fenced=False))
    assert (broker.state, broker.deadline_ms) == (State.REPLACED, NEVER_MS)


class UnresponsiveController:
    """A controller that answers when the test says so."""

    def __init__(self, world: World) -> None:
        self.image = world.image
        self.waiting: list[Callable[[Message], None]] = []

    def submit(self, _request: Message, _version: int, _now_ms: int, answer: Callable[[Message], None]) -> None:
        self.waiting.append(answer)


def test_nothing_is_due_while_a_request_is_under_way() -> None:
    controller = UnresponsiveController(World())
    broker = LocalBroker(controller, BrokerRegistrationRequest(broker_id=1))
    broker.start(0)
    broker.tick(broker.deadline_ms)
    assert (broker.deadline_ms, len(controller.waiting)) == (NEVER_MS, 1), "it waits for an answer, without a deadline"
    controller.waiting.pop()(BrokerRegistrationResponse(broker_epoch=7))
    broker.tick(broker.deadline_ms)
    broker.send_now(3_000)
    assert (broker.deadline_ms, len(controller.waiting)) == (NEVER_MS, 1)
    controller.waiting.pop()(BrokerHeartbeatResponse(is_fenced=True))
    assert broker.deadline_ms == 3_000
    broker.tick(3_000)
    assert len(controller.waiting) == 1


def beats(controller: UnresponsiveController, broker: LocalBroker, start_ms: int, **answer: int) -> None:
    """Send a heartbeat and answer it."""
    broker.tick(start_ms)
    controller.waiting.pop()(BrokerHeartbeatResponse(is_fenced=False, active_controller_id=3, **answer))


def with_lease(notices: list[str], end_ms: int) -> tuple[UnresponsiveController, LocalBroker]:
    """A broker with an answered heartbeat of time 0; the next ones go every two seconds."""
    controller = UnresponsiveController(World())
    broker = LocalBroker(controller, BrokerRegistrationRequest(broker_id=1))
    broker.on_notice = notices.append
    broker.start(0)
    assert broker.lease.left_ms(0) is None
    controller.waiting.pop()(BrokerRegistrationResponse(broker_epoch=7))
    beats(controller, broker, 0, lease_end_time_ms=end_ms)
    return controller, broker


def test_a_lease_begins_when_the_heartbeat_is_sent() -> None:
    world = World()
    broker = broker_of(world)
    broker.start(world.now_ms)
    run(world, broker)
    assert broker.lease.left_ms(world.now_ms) == 9_000
    world.now_ms = broker.deadline_ms
    assert broker.lease.left_ms(world.now_ms) == 7_000
    run(world, broker)
    assert broker.lease.left_ms(world.now_ms) == 9_000
    broker.stop(world.now_ms)
    run(world, broker)
    assert (broker.state, broker.lease.left_ms(world.now_ms)) == (State.STOPPED, None)


def test_the_end_of_a_lease_and_the_next_lease_are_reported_once() -> None:
    notices: list[str] = []
    controller, broker = with_lease(notices, 9_000)
    broker.tick(2_000)                          # is not answered
    broker.tick(broker.deadline_ms)
    assert broker.deadline_ms == 9_000, "nothing else is due"
    broker.tick(8_999)
    assert notices == []
    broker.tick(9_000)
    notice, = notices
    assert notice == ("the lease of broker 1 ran out: no controller has answered a heartbeat for 9000 ms; controllers "
                      "may have fenced it, and it continues")
    assert broker.deadline_ms == NEVER_MS
    broker.tick(12_000)
    assert broker.lease.left_ms(12_000) == -3_000
    controller.waiting.pop()(BrokerHeartbeatResponse(is_fenced=False, active_controller_id=2, lease_end_time_ms=11_000))
    assert broker.lease.left_ms(12_000) == -1_000, "the answer took too long"
    beats(controller, broker, 12_000, lease_end_time_ms=21_000)
    assert notices[1:] == ["broker 1 has a lease again: controller 3 answered its heartbeat"]
    beats(controller, broker, 14_000, lease_end_time_ms=23_000)
    assert len(notices) == 2
    broker.tick(16_000)
    controller.waiting.pop()(BrokerHeartbeatResponse(error_code=ErrorCode.REQUEST_TIMED_OUT))
    broker.tick(23_000)
    assert "for 9000 ms, the last was refused with REQUEST_TIMED_OUT; controllers" in notices[2]


def test_a_controller_that_grants_no_lease() -> None:
    """An Apache Kafka controller reports no lease: nothing is known, and the broker reports nothing."""
    notices: list[str] = []
    controller, broker = with_lease(notices, 9_000)
    beats(controller, broker, 2_000)
    assert broker.lease.left_ms(2_000) is None
    broker.tick(100_000)
    assert notices == []


def test_a_broker_that_the_controller_does_not_know_has_no_lease() -> None:
    notices: list[str] = []
    controller, broker = with_lease(notices, 9_000)
    broker.tick(2_000)
    controller.waiting.pop()(BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    assert broker.lease.left_ms(2_500) == -500
    broker.tick(broker.deadline_ms)
    controller.waiting.pop()(BrokerRegistrationResponse(broker_epoch=9))
    broker.tick(9_000)
    assert len(notices) == 1, "the reason was reported"
    controller.waiting.pop()(BrokerHeartbeatResponse(active_controller_id=3, lease_end_time_ms=18_000))
    assert notices[1:] == ["broker 1 has a lease again: controller 3 answered its heartbeat"]
    broker.give_up()
    assert (broker.lease.left_ms(9_000), broker.deadline_ms) == (None, NEVER_MS)


def test_a_broker_stops_when_a_failed_directory_cannot_be_reported() -> None:
    """Its replicas there may be counted as in sync by everybody else."""
    requests: list[tuple[BrokerHeartbeatRequest, Callable[[Message], None]]] = []
    controller = World().controller

    class Door:
        image = controller.image

        def submit(self, request: Any, _version: int, _now_ms: int, answer: Callable[[Message], None]) -> None:
            requests.append((request, answer))

    broker = LocalBroker(Door(), BrokerRegistrationRequest(
        broker_id=1, log_dirs=[UUID(int=1), UUID(int=2)]), 2_000, 30_000)
    broker.start(0)
    requests.pop()[1](BrokerRegistrationResponse(broker_epoch=3))
    broker.tick(0)
    broker.lose(UUID(int=1), 1_000)
    heartbeat, answer = requests.pop()
    assert heartbeat.offline_log_dirs == [], "it had left before"
    answer(BrokerHeartbeatResponse())
    broker.tick(1_000)
    heartbeat, answer = requests.pop()
    assert heartbeat.offline_log_dirs == [UUID(int=1)]
    broker.lose(UUID(int=2), 2_000)
    assert heartbeat.offline_log_dirs == [UUID(int=1)], "what has left does not change"
    answer(BrokerHeartbeatResponse())
    broker.tick(30_999)
    assert requests.pop()[0].offline_log_dirs == [UUID(int=1), UUID(int=2)]
    assert broker.deadline_ms <= 32_000
    broker.tick(31_999)
    directory = id_text(UUID(int=2))
    with pytest.raises(UnreportedDirectoryError, match=f"30000 ms that log directory {directory} of broker 1"):
        broker.tick(32_000)


def test_a_broker_continues_once_a_failed_directory_is_reported() -> None:
    world = World()
    broker = broker_of(world, log_dirs=[UUID(int=9001), UUID(int=9002)])
    broker.start(world.now_ms)
    run(world, broker)
    broker.lose(UUID(int=9002), world.now_ms)
    run(world, broker)
    world.now_ms += 60_000
    broker.tick(world.now_ms)
    assert broker.state is not State.STOPPED
