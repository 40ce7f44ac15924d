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
