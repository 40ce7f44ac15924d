"""Brokers that may have died: closed connections, new controllers, and the results of probes."""

from typing import Any
from uuid import UUID

import pytest

from kraft.controller.decision import Fencing
from kraft.controller.sessions import PROBE_INTERVAL_MS, Doubt, Found
from kraft.metadata.image import BrokerRegistration
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.broker_registration_request import BrokerRegistrationRequest, Feature
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from tests.controller.world import CLUSTER, World

GRACE_MS = 200


class Doubts(World):
    """Broker 1 is the controller's own; 2 and 3 are elsewhere. `probed` are the brokers whose probe was requested."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, disconnect_grace_ms=GRACE_MS, **settings)
        self.probed: list[int] = []
        self.notices: list[str] = []
        self.fencings: list[tuple[Fencing, int]] = []
        self.controller.on_probe = self._probe
        self.controller.on_notice = self.notices.append
        self.controller.on_fencing = lambda *fencing: self.fencings.append(fencing)

    def _probe(self, broker: BrokerRegistration) -> None:
        self.probed.append(broker.broker_id)

    def close(self, broker_id: int, epoch: int | None = None) -> None:
        broker = self.image.brokers[broker_id]
        self.controller.broker_disconnected(broker_id, broker.epoch if epoch is None else epoch, self.now_ms)

    def wait(self, milliseconds: int) -> None:
        """Advance the time, and call the controller when it wants to be called."""
        end_ms = self.now_ms + milliseconds
        while self.controller.deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, self.controller.deadline_ms)
            self.controller.tick(self.now_ms)
            self.commit()
        self.now_ms = end_ms

    def found(self, broker_id: int, found: Found) -> None:
        self.controller.broker_probed(broker_id, self.image.brokers[broker_id].epoch, found, self.now_ms)
        self.commit()

    def fenced(self) -> list[int]:
        return [broker.broker_id for broker in self.image.brokers.values() if broker.fenced]

    def new_process_of(self, broker_id: int) -> int:
        """Return the answer to the registration of another incarnation."""
        answer = self.send(BrokerRegistrationRequest(
            broker_id=broker_id, cluster_id=CLUSTER, incarnation_id=UUID(int=77), log_dirs=[UUID(int=9000 + broker_id)],
            features=[Feature(name=name, min_supported_version=low, max_supported_version=high)
                      for name, (low, high) in self.settings.features.items()]))
        code: int = answer.error_code
        return code


@pytest.fixture
def world() -> Doubts:
    made = Doubts()
    made.join(1, 2, 3)
    made.send(CreateTopicsRequest(topics=[CreatableTopic(name="a", num_partitions=3, replication_factor=3)]))
    return made


def next_controller(world: Doubts) -> Doubts:
    """Let another node lead from here on, with broker 1 as its own broker."""
    return Doubts(world.log)


def test_a_broker_whose_address_refuses_is_fenced_without_grace(world: Doubts) -> None:
    world.close(2)
    world.wait(0)
    assert (world.probed, world.fenced()) == ([2], [])
    world.found(2, Found.REFUSED)
    assert world.fenced() == [2]
    assert all(world.partition("a", index).leader != 2 for index in range(3))
    because = f"its connection to the controller was closed, and {Found.REFUSED.value}"
    assert world.notices == [f"broker 2 is fenced: {because}"]
    [(fencing, time_ms)] = world.fencings
    assert (fencing.broker_id, fencing.doubt, fencing.found) == (2, Doubt.CLOSED, Found.REFUSED)
    assert fencing.because == because
    assert time_ms == world.image.timestamp_ms, "the time of the record"


def test_no_answer_within_the_grace_proves_nothing(world: Doubts) -> None:
    world.close(2)
    world.wait(0)
    for passed_ms in range(PROBE_INTERVAL_MS, GRACE_MS + 1, PROBE_INTERVAL_MS):
        world.found(2, Found.UNANSWERED)
        assert world.fenced() == []
        world.wait(PROBE_INTERVAL_MS - 1)
        world.wait(1)
        assert world.probed == [2] * (1 + passed_ms // PROBE_INTERVAL_MS)
    world.found(2, Found.UNANSWERED)
    assert world.fenced() == [2]


def test_a_process_that_closes_its_listeners_late_is_fenced_within_the_grace(world: Doubts) -> None:
    world.close(2)
    world.wait(0)
    world.found(2, Found.ACCEPTED)
    world.wait(PROBE_INTERVAL_MS)
    world.found(2, Found.REFUSED)
    assert (world.probed, world.fenced()) == ([2, 2], [2])


def test_a_broker_that_speaks_again_is_not_in_doubt(world: Doubts) -> None:
    world.close(2)
    world.wait(0)
    world.beat(2)                       # while it is probed
    world.found(2, Found.REFUSED)
    assert (world.probed, world.fenced()) == ([2], [])
    world.wait(GRACE_MS)
    assert world.probed == [2]


def test_a_broker_whose_address_accepts_keeps_its_session(world: Doubts) -> None:
    world.close(2)
    world.wait(0)
    while world.now_ms < world.controller.sessions.by_id[2].doubt_ms + GRACE_MS:
        world.found(2, Found.ACCEPTED)
        world.wait(PROBE_INTERVAL_MS)
    world.found(2, Found.ACCEPTED)
    probed = len(world.probed)
    world.beat(3)
    world.wait(8_000)
    world.beat(3)
    assert (len(world.probed), world.fenced()) == (probed, [])
    world.wait(1_000)
    assert 2 in world.fenced() and 3 not in world.fenced()


def test_a_fenced_broker_that_lives_takes_part_again_with_its_next_heartbeat(world: Doubts) -> None:
    world.close(2)
    world.wait(0)
    world.found(2, Found.REFUSED)
    assert world.fenced() == [2]
    assert not world.beat(2).is_fenced
    assert world.fenced() == []


def test_connections_and_probes_of_other_incarnations_count_for_nothing(world: Doubts) -> None:
    old_epoch = world.image.brokers[2].epoch
    world.close(2, old_epoch - 1)
    world.controller.broker_disconnected(99, 1, world.now_ms)
    world.wait(GRACE_MS)
    assert world.probed == []
    world.close(2)
    world.wait(GRACE_MS)
    assert world.new_process_of(2) == ErrorCode.NONE
    world.beat(2)
    world.close(2)
    world.controller.broker_probed(2, old_epoch, Found.REFUSED, world.now_ms)
    world.commit()
    assert world.fenced() == []


def test_a_new_controller_has_those_probed_that_do_not_speak(world: Doubts) -> None:
    world = next_controller(world)
    world.beat(3)
    world.wait(0)
    assert world.probed == [2]          # its own broker went and came with its process
    world.found(2, Found.UNANSWERED)
    assert world.fenced() == []         # it may be slow: nothing was closed
    world = next_controller(world)
    world.wait(0)
    assert world.probed == [2, 3]
    world.found(2, Found.REFUSED)
    world.found(3, Found.ACCEPTED)
    assert world.fenced() == [2]
    assert world.notices == [
        "broker 2 is fenced: it did not speak to the new controller, and its address refuses connections"]


def test_a_new_controller_probes_again_within_the_grace(world: Doubts) -> None:
    """The dead process had not closed its listeners yet when it was probed first."""
    world = next_controller(world)
    world.wait(0)
    world.beat(3)
    world.found(2, Found.ACCEPTED)
    world.wait(PROBE_INTERVAL_MS)
    assert world.probed == [2, 3, 2], "3 has spoken"
    world.found(2, Found.UNANSWERED)
    world.wait(GRACE_MS)
    world.found(2, Found.UNANSWERED)
    assert world.fenced() == [], "nothing was closed, so no answer proves nothing"
    world = next_controller(world)
    world.wait(0)
    world.found(2, Found.ACCEPTED)
    world.wait(PROBE_INTERVAL_MS)
    world.found(2, Found.REFUSED)
    assert world.fenced() == [2]


def test_a_new_process_need_not_wait_for_the_session_of_one_in_doubt(world: Doubts) -> None:
    assert world.new_process_of(2) == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    world.close(2)
    assert world.new_process_of(2) == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    world.wait(GRACE_MS)
    world.found(2, Found.ACCEPTED)         # the new process listens already
    assert world.new_process_of(2) == ErrorCode.NONE
    assert world.fenced() == [2]
    world = next_controller(world)
    world.wait(GRACE_MS)
    assert world.new_process_of(3) == ErrorCode.NONE


def test_a_controller_that_was_paused_gives_the_grace_again(world: Doubts) -> None:
    world.close(2)
    world.now_ms += 60_000
    world.controller.tick(world.now_ms)
    assert world.probed == [2]
    world.found(2, Found.UNANSWERED)
    assert world.fenced() == []
    world.wait(GRACE_MS)
    assert world.fenced() == []
    world.found(2, Found.UNANSWERED)
    assert world.fenced() == [2]


def test_one_on_its_way_out_is_fenced_as_any_other(world: Doubts) -> None:
    world.beat(2, want_shut_down=True)
    assert world.image.brokers[2].in_controlled_shutdown
    world.close(2)
    world.wait(GRACE_MS)
    world.found(2, Found.REFUSED)
    assert world.fenced() == [2]


def test_an_inactive_controller_decides_nothing(world: Doubts) -> None:
    world.close(2)
    world.wait(GRACE_MS)
    world.controller.resigned(world.now_ms)
    end = world.log.end_offset
    world.controller.broker_probed(2, world.image.brokers[2].epoch, Found.REFUSED, world.now_ms)
    world.controller.broker_disconnected(3, world.image.brokers[3].epoch, world.now_ms)
    assert world.log.end_offset == end
