"""Groups under faults: see `group_model`. Every seed is a world of its own."""

import pytest

from kraft.broker.coordinator.shard import Shard
from kraft.broker.groups.classic.group import ClassicGroup
from kraft.protocol.messages.group_metadata_value import GroupMetadataValue
from tests.broker.groups.group_model import Model


@pytest.mark.parametrize("seed", range(10))
def test_groups_survive_faults(seed: int) -> None:
    Model(seed).run(250)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1_000, 1_300))
def test_groups_survive_faults_in_many_worlds(seed: int) -> None:
    Model(seed).run(400)


def some_world_breaks() -> bool:
    for seed in range(6):
        try:
            Model(seed).run(200)
        except AssertionError:
            return True
    return False


def test_the_model_sees_answers_that_leave_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Shard, "reply", lambda self, answer, response: answer.give(response))
    assert some_world_breaks()


def test_the_model_sees_members_that_do_not_get_what_was_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    apply = ClassicGroup.apply

    def forgetful(self: ClassicGroup, value: GroupMetadataValue) -> None:
        apply(self, value)
        for member in self.members.values():
            member.assignment = b""

    monkeypatch.setattr(ClassicGroup, "apply", forgetful)
    assert some_world_breaks()
