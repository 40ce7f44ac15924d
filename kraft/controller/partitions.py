"""CreatePartitions, and the construction of new partitions."""

from collections.abc import Container, Generator, Mapping, Sequence
from typing import Final

from kraft.controller.decision import PARTITIONS_PER_REQUEST_MAX, STEP, Context, Decision, RefusedError
from kraft.controller.placement import Ring, place, ring_of
from kraft.metadata.image import PartitionRegistration, TopicImage
from kraft.metadata.snapshot import Record, partition_record
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.error_names import bounded
from kraft.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from kraft.protocol.messages.create_partitions_response import CreatePartitionsResponse, CreatePartitionsTopicResult

KNOWN_MAX: Final = 1_024
"""Topics whose placement is kept: a ring with racks of many sizes has very many places."""


def placed_partitions(
    context: Context, ring: Ring, first: int, count: int, replicas: int, rotation: int
) -> Generator[None, None, dict[int, PartitionRegistration]]:
    """Return new partitions, from index `first` on, on brokers of the controller's choice; `ring` are the candidates
    (`ring_of`). Works in steps, like the functions below. Small topics that begin at the same place of the ring are
    placed once."""
    key = count, replicas, ring.place_of(rotation)
    known = ring.known.get(key)
    if known is not None:
        return dict(enumerate(known, first))
    places = yield from place(ring, count, replicas, rotation)
    created: dict[int, PartitionRegistration] = {}
    for number, chosen in enumerate(places):
        if number % STEP == STEP - 1:
            yield
        created[first + number] = _registration(context, chosen)
    if count <= STEP:
        if len(ring.known) >= KNOWN_MAX:
            ring.known.clear()
        ring.known[key] = tuple(created.values())
    return created


def assigned_partitions(
    context: Context, assignments: Mapping[int, Sequence[int]], replicas: int | None
) -> Generator[None, None, dict[int, PartitionRegistration]]:
    """Return new partitions on the brokers that the caller named. `replicas`: the required number for each (None: as
    many as the first). INVALID_REPLICA_ASSIGNMENT names the fault of an assignment."""
    created: dict[int, PartitionRegistration] = {}
    for number, (index, broker_ids) in enumerate(assignments.items()):
        if number % STEP == STEP - 1:
            yield
        check_assignment(context, index, broker_ids, replicas)
        replicas = len(broker_ids)
        if not any(context.is_active(broker_id) for broker_id in broker_ids):
            raise RefusedError(ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                               f"partition {index}: all its brokers are fenced or shutting down")
        created[index] = _registration(context, tuple(broker_ids))
    return dict(sorted(created.items()))


def check_assignment(context: Context, index: int, broker_ids: Sequence[int], replicas: int | None = None) -> None:
    """Check that these are registered brokers, each once, and as many as wanted; else INVALID_REPLICA_ASSIGNMENT."""
    wrong = fault_of(broker_ids, context.image.brokers)
    if wrong is None and replicas is not None and len(broker_ids) != replicas:
        wrong = f"{len(broker_ids)} replica(s), the other partitions have {replicas}"
    if wrong is not None:
        raise RefusedError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"partition {index}: {wrong}")


def fault_of(broker_ids: Sequence[int], brokers: Container[int]) -> str | None:
    """Return why a partition cannot have these replicas; None if it can. The first fault ends the search. So it reads
    at most one id more than brokers are registered, however many ids there are."""
    if not broker_ids:
        return "no brokers"
    seen: dict[int, None] = {}
    for broker_id in broker_ids:
        if broker_id not in brokers:
            return f"broker {broker_id} is not registered"
        if broker_id in seen:
            return f"broker {broker_id} is named more than once"
        seen[broker_id] = None
    return None


def _registration(context: Context, replicas: tuple[int, ...]) -> PartitionRegistration:
    """Return a partition in its first epoch, led by the first of its replicas that is active."""
    isr = tuple(broker_id for broker_id in replicas if context.is_active(broker_id))
    return PartitionRegistration(
        replicas=replicas, isr=isr, leader=isr[0],
        directories=tuple(context.image.brokers[broker_id].default_directory() for broker_id in replicas),
    )


def create_partitions(
    context: Context, request: CreatePartitionsRequest
) -> Generator[None, None, Decision[CreatePartitionsResponse]]:
    """Add partitions to existing topics; each topic of the request is decided on its own."""
    counts: dict[str, int] = {}
    for topic in request.topics:
        counts[topic.name] = counts.get(topic.name, 0) + 1
    records: list[Record] = []
    results = [_result(name, ErrorCode.INVALID_REQUEST, "the topic is named more than once")
               for name, count in counts.items() if count > 1]
    for topic in request.topics:
        if counts[topic.name] == 1:
            try:
                records += yield from _more_partitions(context, topic, len(records))
            except RefusedError as refusal:
                results.append(_result(topic.name, refusal.error, refusal.message))
            else:
                results.append(_result(topic.name, ErrorCode.NONE, None))
    return Decision(CreatePartitionsResponse(results=results), () if request.validate_only else records)


def _result(name: str, code: ErrorCode, message: str | None) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=name, error_code=code, error_message=message and bounded(message))


def _more_partitions(
    context: Context, wanted: CreatePartitionsTopic, records_before: int
) -> Generator[None, None, list[Record]]:
    topic = context.image.topic(wanted.name)
    if topic is None:
        raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    have = len(topic.partitions)
    if wanted.count <= have:
        raise RefusedError(ErrorCode.INVALID_PARTITIONS,
                           f"topic {wanted.name!r} has {have} partition(s); {wanted.count} would not be more")
    more = wanted.count - have
    if more + records_before > PARTITIONS_PER_REQUEST_MAX:
        raise RefusedError(ErrorCode.POLICY_VIOLATION,
                           f"{more + records_before} partitions at once, {PARTITIONS_PER_REQUEST_MAX} are allowed")
    replicas = len(topic.partitions[0].replicas)
    if wanted.assignments is None:
        ring = context.kept.result(ring_of, context.image.brokers)
        partitions = yield from placed_partitions(
            context, ring, have, more, replicas, context.next_offset + records_before)
    else:
        if len(wanted.assignments) != more:
            raise RefusedError(ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                               f"{more} partition(s) to add, but {len(wanted.assignments)} assignment(s)")
        partitions = yield from assigned_partitions(
            context, {have + number: each.broker_ids for number, each in enumerate(wanted.assignments)}, replicas)
    context.charge(more)
    return (yield from partition_records(context, topic, partitions))


def partition_records(
    context: Context, topic: TopicImage, partitions: Mapping[int, PartitionRegistration]
) -> Generator[None, None, list[Record]]:
    """Return the records that create these partitions of a topic."""
    version = context.image.metadata_version
    records: list[Record] = []
    for index, partition in partitions.items():
        records.append(partition_record(topic, index, partition, version))
        if len(records) % STEP == 0:
            yield
    return records


def create_partitions_refused(
    request: CreatePartitionsRequest, code: ErrorCode, message: str | None
) -> CreatePartitionsResponse:
    """Return the same error for every topic."""
    return CreatePartitionsResponse(results=[_result(topic.name, code, message) for topic in request.topics])
