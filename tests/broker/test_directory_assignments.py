"""A broker reports the directories of its replicas to the controller until the controller knows them."""

from uuid import UUID

import pytest

from kraft.broker.directory_assignments import OVERTAKEN, RETRY_MS, DirectoryAssignments
from kraft.deadlines import NEVER_MS
from kraft.metadata.image import UNASSIGNED_DIRECTORY
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest
from kraft.protocol.messages.assign_replicas_to_dirs_response import (
    AssignReplicasToDirsResponse,
    DirectoryData,
    PartitionData,
    TopicData,
)

ONE, OTHER = UUID(int=101), UUID(int=102)
TOPIC = UUID(int=7)
AssignedDirectories = dict[tuple[UUID, int], UUID]


class Controller:
    def __init__(self) -> None:
        self.requested: list[AssignedDirectories] = []
        self.ours: dict[tuple[UUID, int], bool] = {}
        self.assignments = DirectoryAssignments(1, self._submit, self.ours.__contains__)

    def _submit(self, request: AssignReplicasToDirsRequest) -> None:
        assert (request.broker_id, request.broker_epoch) == (1, 5)
        self.requested.append({(topic.topic_id, part.partition_index): directory.id for directory in request.directories
                               for topic in directory.topics for part in topic.partitions})

    def note(self, index: int, directory: UUID, assigned: UUID = UNASSIGNED_DIRECTORY) -> bool:
        return self.assignments.note((TOPIC, index), directory, assigned)

    def answer(self, codes: dict[int, ErrorCode], error: ErrorCode = ErrorCode.NONE) -> None:
        parts = [PartitionData(partition_index=index, error_code=code) for index, code in codes.items()]
        self.assignments.answered(AssignReplicasToDirsResponse(error_code=error, directories=[
            DirectoryData(id=ONE, topics=[TopicData(topic_id=TOPIC, partitions=parts)])]), 1_000)


def test_one_request_at_a_time_for_all_that_came_up() -> None:
    controller = Controller()
    assert not controller.note(0, ONE, ONE), "the metadata says so"
    assert controller.note(1, ONE) and controller.note(2, OTHER)
    controller.assignments.send_due(5)
    assert controller.requested == [{(TOPIC, 1): ONE, (TOPIC, 2): OTHER}]
    assert not controller.note(1, ONE), "that is under way"
    assert controller.note(3, ONE) and controller.note(2, ONE), "it moved meanwhile"
    controller.assignments.send_due(5)
    assert len(controller.requested) == 1
    controller.answer({1: ErrorCode.NONE, 2: ErrorCode.NONE})
    assert controller.assignments.deadline_ms == NEVER_MS
    controller.assignments.send_due(5)
    assert controller.requested[1] == {(TOPIC, 3): ONE, (TOPIC, 2): ONE}


def test_rejected_assignments_are_sent_again_unless_superseded() -> None:
    controller = Controller()
    for index in range(3):
        controller.note(index, ONE)
    controller.assignments.send_due(5)
    controller.answer({0: ErrorCode.NONE, 1: ErrorCode.UNKNOWN_TOPIC_ID, 2: ErrorCode.UNKNOWN_SERVER_ERROR})
    assert controller.assignments.deadline_ms == 1_000 + RETRY_MS
    controller.assignments.send_due(5)
    assert controller.requested[1] == {(TOPIC, 2): ONE}
    controller.answer({}, ErrorCode.STALE_BROKER_EPOCH)
    controller.assignments.send_due(5)
    assert controller.requested[2] == {(TOPIC, 2): ONE}


@pytest.mark.parametrize("error", OVERTAKEN)
def test_an_assignment_that_the_controller_does_not_know_is_sent_again_while_it_is_ours(error: ErrorCode) -> None:
    """A controller that was replaced without its knowledge does not know a topic that its successor created."""
    controller = Controller()
    controller.note(0, ONE)
    controller.ours[TOPIC, 0] = True
    for _ in range(2):
        controller.assignments.send_due(5)
        controller.answer({0: error})
    controller.ours.clear()                        # the metadata says that it is deleted
    for _ in range(2):
        controller.assignments.send_due(5)
        controller.answer({0: error})
    assert controller.requested == [{(TOPIC, 0): ONE}] * 3
