"""Answers that name leaders wait until each leader is known to run, and no longer than the limit."""

from dataclasses import replace

import pytest

from kraft.broker.leader_checks import DISPUTED_MS, REFUSED_LIMIT_MS, Checked, LeaderChecks
from kraft.metadata.delta import MetadataDelta
from kraft.metadata.image import EMPTY, BrokerRegistration, MetadataImage
from kraft.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from kraft.protocol.messages.register_broker_record import RegisterBrokerRecord

LIMIT_MS = 200


class World:
    """Broker 1 checks 2 and 3. `requested`: the checks that it began; `answers` of held requests, by name."""

    def __init__(self, limit_ms: int = LIMIT_MS) -> None:
        self.now_ms = 1_000
        self.requested: list[int] = []
        self.answers: dict[str, tuple[int, ...]] = {}
        self.image: MetadataImage = EMPTY
        self.checks = LeaderChecks(1, limit_ms, lambda: self.now_ms, self._start_check)
        for broker_id in (1, 2, 3):
            self.register(broker_id, 10 + broker_id)

    def _start_check(self, broker: BrokerRegistration) -> None:
        self.requested.append(broker.broker_id)

    def register(self, broker_id: int, epoch: int) -> None:
        self._replay(RegisterBrokerRecord(broker_id=broker_id, broker_epoch=epoch, fenced=False))

    def fence(self, broker_id: int) -> None:
        self._replay(BrokerRegistrationChangeRecord(
            broker_id=broker_id, broker_epoch=self.image.brokers[broker_id].epoch, fenced=1))

    def _replay(self, record: object) -> None:
        delta = MetadataDelta(self.image)
        delta.replay(record)
        self.image = delta.finish(self.image.offset + 1, 1, 0)
        self.checks.applied(self.image)

    def request(self, name: str, *leaders: int) -> None:
        self.checks.submit(leaders, lambda ended: self._answered(name, ended))

    def _answered(self, name: str, ended: tuple[int, ...]) -> None:
        assert name not in self.answers, "answered twice"
        self.answers[name] = ended

    def checked(self, broker_id: int, found: Checked) -> None:
        self.checks.checked(broker_id, self.image.brokers[broker_id].epoch, found)

    def wait(self, milliseconds: int) -> None:
        end_ms = self.now_ms + milliseconds
        while self.checks.deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, self.checks.deadline_ms)
            self.checks.tick()
        self.now_ms = end_ms


@pytest.fixture
def world() -> World:
    return World()


def test_this_broker_and_those_that_do_not_serve_are_not_checked(world: World) -> None:
    world.fence(3)
    world.request("a", 1, 3, 99, -1)
    assert (world.answers, world.requested) == ({"a": ()}, [])


def test_each_leader_is_checked_once(world: World) -> None:
    world.request("a", 2, 3, 2, 1)
    assert world.requested == [2, 3]
    world.checked(2, Checked.ANSWERED)
    assert world.answers == {}
    world.checked(3, Checked.ANSWERED)
    assert world.answers == {"a": ()}


def test_requests_share_the_check_that_begins_after_them(world: World) -> None:
    world.request("a", 2)
    world.request("b", 2)
    world.request("c", 2)
    assert world.requested == [2], "one at a time"
    world.checked(2, Checked.ANSWERED)
    assert (world.answers, world.requested) == ({"a": ()}, [2, 2]), "what was answered before b arrived proves nothing"
    world.checked(2, Checked.ANSWERED)
    assert world.answers == {"a": (), "b": (), "c": ()}


def test_an_answer_is_held_until_the_dead_leader_is_fenced(world: World) -> None:
    world.request("a", 2, 3)
    world.checked(2, Checked.REFUSED)
    world.checked(3, Checked.ANSWERED)
    world.wait(REFUSED_LIMIT_MS - 1)
    assert world.answers == {}
    world.fence(2)
    assert world.answers == {"a": ()}


def test_its_next_incarnation_is_not_the_dead_leader(world: World) -> None:
    world.request("a", 2)
    world.checked(2, Checked.REFUSED)
    world.register(2, 50)
    assert world.answers == {"a": ()}
    world.request("b", 2)
    world.checks.checked(2, 12, Checked.REFUSED)     # of the earlier incarnation
    assert "b" not in world.answers
    world.checked(2, Checked.ANSWERED)
    assert world.answers["b"] == ()


def test_at_the_limit_a_dead_leader_is_left_out(world: World) -> None:
    world.request("a", 2)
    world.checked(2, Checked.REFUSED)
    world.wait(REFUSED_LIMIT_MS - 1)
    assert world.answers == {}
    world.wait(1)
    assert world.answers == {"a": (2,)}


def test_an_answer_past_the_limit_does_not_wait_for_a_leader_that_hangs(world: World) -> None:
    world.request("a", 2, 3)
    world.checked(2, Checked.REFUSED)
    world.wait(LIMIT_MS)
    assert world.answers == {}, "2 is dead, 3 does not answer"
    world.request("b", 3)
    assert world.answers == {"b": ()}
    world.fence(2)
    assert world.answers == {"a": (), "b": ()}
    world.checked(3, Checked.ANSWERED)


def test_a_limit_above_a_second_holds_for_dead_leaders_too() -> None:
    world = World(REFUSED_LIMIT_MS + 500)
    world.request("a", 2)
    world.checked(2, Checked.REFUSED)
    world.wait(REFUSED_LIMIT_MS + 499)
    assert world.answers == {}
    world.wait(1)
    assert world.answers == {"a": (2,)}


def test_a_leader_that_hangs_is_named_and_awaited_once(world: World) -> None:
    world.request("a", 2)
    world.wait(LIMIT_MS)
    assert world.answers == {"a": ()}
    world.request("b", 2)
    assert world.answers == {"a": (), "b": ()}
    world.checked(2, Checked.UNANSWERED)
    world.request("c", 2)
    assert (world.answers["c"], world.requested) == ((), [2, 2]), "in the background it is checked again"
    world.checked(2, Checked.ANSWERED)
    world.request("d", 2)
    assert "d" not in world.answers
    world.checked(2, Checked.REFUSED)
    world.wait(REFUSED_LIMIT_MS)
    assert world.answers["d"] == (2,)


def test_a_check_without_an_answer_hides_nobody(world: World) -> None:
    world.request("a", 2)
    world.checked(2, Checked.UNANSWERED)
    assert world.answers == {"a": ()}


def test_a_leader_that_the_controller_reaches_is_named_again(world: World) -> None:
    world.request("a", 2)
    world.checked(2, Checked.REFUSED)
    world.wait(DISPUTED_MS - 1)
    world.request("b", 2)
    world.checked(2, Checked.REFUSED)
    world.wait(LIMIT_MS)
    assert world.answers == {"a": (2,)}
    world.request("c", 2)
    world.checked(2, Checked.REFUSED)
    assert world.answers == {"a": (2,), "b": (), "c": ()}
    world.request("d", 2)
    world.checked(2, Checked.ANSWERED)
    world.request("e", 2)
    world.checked(2, Checked.REFUSED)
    world.wait(REFUSED_LIMIT_MS)
    assert world.answers["e"] == (2,), "it was reached meanwhile"


def test_answers_that_cannot_wait_go_by_the_last_check(world: World) -> None:
    refusing = world.checks.refusing
    world.request("a", 2, 3)
    assert refusing == {}, "nothing is known yet"
    world.checked(2, Checked.REFUSED)
    world.checked(3, Checked.UNANSWERED)
    assert refusing == {2: world.now_ms + DISPUTED_MS}, "a leader that hangs is named"
    began_ms = world.now_ms
    world.wait(LIMIT_MS)
    world.request("b", 2)
    world.checked(2, Checked.REFUSED)
    assert refusing == {2: began_ms + DISPUTED_MS}, "no longer than that without proof by the controller"
    world.wait(DISPUTED_MS)
    world.request("c", 2)
    world.checked(2, Checked.REFUSED)
    assert refusing == {}, "the controller receives its heartbeats"
    world.request("d", 3)
    world.checked(3, Checked.REFUSED)
    assert list(refusing) == [3]
    world.request("e", 3)
    world.checked(3, Checked.ANSWERED)
    assert refusing == {}, "it was reached"


def test_a_leader_that_is_fenced_or_registered_again_refuses_no_longer(world: World) -> None:
    """Also while no answer waits: the next incarnation must not be left out for what the last one did."""
    for broker_id in (2, 3):
        world.checks.connection_lost(broker_id)
        world.checked(broker_id, Checked.REFUSED)
    world.wait(LIMIT_MS)
    assert sorted(world.checks.refusing) == [2, 3]
    world.register(2, 30)
    assert list(world.checks.refusing) == [3]
    world.fence(3)
    assert world.checks.refusing == {}


def test_a_closed_connection_starts_a_check_unless_one_is_under_way(world: World) -> None:
    world.checks.connection_lost(2)
    assert world.requested == [2]
    world.checks.connection_lost(2)
    world.checked(2, Checked.REFUSED)
    assert (world.requested, list(world.checks.refusing)) == ([2], [2])


def test_one_that_is_no_longer_registered_is_not_awaited(world: World) -> None:
    world.request("a", 2)
    world.checks.applied(replace(world.image, brokers={
        broker_id: broker for broker_id, broker in world.image.brokers.items() if broker_id != 2}))
    assert world.answers == {"a": ()}


def test_without_a_limit_nothing_is_checked() -> None:
    world = World(limit_ms=0)
    world.request("a", 2)
    assert (world.answers, world.requested) == ({"a": ()}, [])
