"""Elections that are not caused by brokers joining or leaving.

An operator requests some (ElectLeaders, KIP-460). The controller holds others by itself from time to time, preferred
and unclean."""

from collections.abc import Callable, Generator, Iterable
from typing import Final

from kraft.controller.decision import STEP, Context, Decision, RefusedError, text_of
from kraft.controller.leaderships import allows_unclean, change_of
from kraft.controller.partition_change import Election
from kraft.controller.partitions_decided import PartitionsDecided
from kraft.metadata.image import NO_LEADER, PartitionRegistration
from kraft.metadata.snapshot import Record
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.error_names import bounded
from kraft.protocol.messages.elect_leaders_request import ElectLeadersRequest
from kraft.protocol.messages.elect_leaders_response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

PREFERRED: Final = 0
UNCLEAN: Final = 1
PER_ROUND_MAX: Final = 1_000
"""Maximum of elections that the controller holds at once (Kafka has the same limit)."""


def elect_leaders(
    context: Context, request: ElectLeadersRequest
) -> Generator[None, None, Decision[ElectLeadersResponse]]:
    """Hold an election in the named partitions or, with null, in all. For all, the answer has only the partitions that
    needed one. Works in steps."""
    if request.election_type not in (PREFERRED, UNCLEAN):
        raise RefusedError(ErrorCode.INVALID_REQUEST, f"election type {request.election_type} is not 0 or 1")
    image = context.image
    everything = request.topic_partitions is None
    if request.topic_partitions is None:
        wanted: Iterable[tuple[str, Iterable[int]]] = (
            (topic.name, topic.partitions) for topic in image.topics.values())
    else:
        wanted = ((topic.topic, topic.partitions) for topic in request.topic_partitions)
    decided = PartitionsDecided()
    results: list[ReplicaElectionResult] = []
    seen = 0
    for name, indexes in wanted:
        results_of_topic = []
        for index in indexes:
            seen += 1
            if seen % STEP == 0:
                yield
            code, message = _elect(context, name, index, request.election_type, decided)
            if not (everything and code == ErrorCode.ELECTION_NOT_NEEDED):
                results_of_topic.append(PartitionResult(
                    partition_id=index, error_code=code, error_message=text_of(code, message)))
        results.append(ReplicaElectionResult(topic=name, partition_result=results_of_topic))
    return Decision(ElectLeadersResponse(replica_election_results=results), decided.records, atomic=False)


def _elect(
    context: Context, name: str, index: int, election_type: int, decided: PartitionsDecided
) -> tuple[ErrorCode, str | None]:
    """Add the record of one election, and return its result."""
    topic = context.image.topic(name)
    partition = None if topic is None else decided.of(topic, index)
    if topic is None or partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {index} of topic {name!r}"
    has = partition.replicas[0] if election_type == PREFERRED else partition.leader
    if partition.leader == has != NO_LEADER:
        return ErrorCode.ELECTION_NOT_NEEDED, None
    record = change_of(context, topic, index, partition=partition,
                       election=Election.PREFERRED if election_type == PREFERRED else Election.UNCLEAN)
    if record is None:
        return (ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE if election_type == PREFERRED
                else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE), None
    decided.add(topic, record)
    return ErrorCode.NONE, None


def elect_leaders_refused(
    request: ElectLeadersRequest, code: ErrorCode, message: str | None
) -> ElectLeadersResponse:
    return ElectLeadersResponse(error_code=code, replica_election_results=[
        ReplicaElectionResult(topic=topic.topic, partition_result=[
            PartitionResult(partition_id=index, error_code=code, error_message=message and bounded(message))
            for index in topic.partitions])
        for topic in request.topic_partitions or ()])


# --- periodic elections -----------------------------------------------------------------------------------------------


def elect_preferred(context: Context) -> Generator[None, None, Decision[bool]]:
    """Move partitions back to the first of their replicas where that can lead. The response is True when more may
    follow. Works in steps."""
    return _elect_where(context, Election.PREFERRED, lambda _, partition: partition.leader not in (
        NO_LEADER, partition.replicas[0]))


def elect_unclean(context: Context) -> Generator[None, None, Decision[bool]]:
    """Give leaderless partitions a leader that may have lost records, where their topic allows that. The response is
    True when more may follow. Works in steps."""
    return _elect_where(context, Election.UNCLEAN, lambda topic, partition: (
        partition.leader == NO_LEADER and allows_unclean(context, topic)))


def _elect_where(
    context: Context, election: Election, wanted: Callable[[str, PartitionRegistration], bool]
) -> Generator[None, None, Decision[bool]]:
    records: list[Record] = []
    tried = 0
    for visited, (topic, index, partition) in enumerate(context.image.partitions(), 1):
        if visited % context.settings.visited_step == 0:
            yield
        if wanted(topic.name, partition):
            tried += 1
            if tried % context.settings.step == 0:
                yield
            record = change_of(context, topic, index, election=election)
            if record is not None:
                records.append(record)
            if len(records) >= PER_ROUND_MAX:
                return Decision(True, records, atomic=False)
    return Decision(False, records, atomic=False)
