"""Records that update a partition, in cases that a controller reaches only through many other records."""

from uuid import UUID

import pytest

from kraft.controller.partition_change import Assignment, Election, change
from kraft.metadata.image import NO_LEADER, RECOVERING, PartitionRegistration
from kraft.metadata.versions import LATEST
from kraft.protocol.messages.partition_change_record import PartitionChangeRecord


@pytest.mark.parametrize(("acceptable", "leader", "isr"), [((), NO_LEADER, [2]), ((3,), 3, [3]), ((2, 3), 2, [2])])
def test_going_back_to_replicas_of_which_none_is_in_sync(acceptable: tuple[int, ...], leader: int,
                                                         isr: list[int]) -> None:
    """Unclean elections may be allowed. A replica that is in sync stays a replica, also while none of them is alive."""
    moving = PartitionRegistration(
        replicas=(1, 2, 3), directories=(UUID(int=1), UUID(int=2), UUID(int=3)), isr=(1,), leader=1, leader_epoch=3,
        adding_replicas=(1,), removing_replicas=(3,))
    record = change(UUID(int=9), 0, moving, LATEST, acceptable=acceptable.__contains__, min_isr=1, elr_enabled=False,
                    isr=(), election=Election.UNCLEAN, assignment=Assignment((2, 3)))
    assert record is not None
    message = record.message
    assert isinstance(message, PartitionChangeRecord)
    assert (message.leader, message.isr, message.replicas) == (leader, isr, [2, 3])
    assert message.leader_recovery_state == RECOVERING


def test_a_leaderless_partition_of_an_earlier_feature_level_has_a_last_known_replica() -> None:
    """The last replica in sync stays in the ISR without eligible leader replicas. It leaves at the next level."""
    before = PartitionRegistration(
        replicas=(1, 2), directories=(UUID(int=101), UUID(int=102)), isr=(2,), leader=NO_LEADER, leader_epoch=3)
    record = change(UUID(int=9), 0, before, LATEST, acceptable=lambda _: False, min_isr=1, elr_enabled=True, isr=(),
                    lost=[2])
    assert record is not None
    assert isinstance(record.message, PartitionChangeRecord)
    assert (record.message.isr, record.message.last_known_elr) == ([], [2])


def test_a_last_known_leader_that_is_no_replica_any_more_does_not_lead() -> None:
    """A reassignment to it is cancelled, where unclean elections are allowed. It may still be alive."""
    moving = PartitionRegistration(
        replicas=(1, 2, 3), directories=(UUID(int=101), UUID(int=102), UUID(int=103)), isr=(), leader=NO_LEADER,
        leader_epoch=3, adding_replicas=(1,), last_known_elr=(1,))
    record = change(UUID(int=9), 0, moving, LATEST, acceptable=(1, 3).__contains__, min_isr=1, elr_enabled=True,
                    election=Election.UNCLEAN, assignment=Assignment((2, 3)))
    assert record is not None
    assert isinstance(record.message, PartitionChangeRecord)
    assert (record.message.leader, record.message.replicas, record.message.last_known_elr) == (3, [2, 3], [])
