"""Steps of a transactional client on a real cluster, and what readers then see. Each function needs a topic with two
partitions."""

import itertools
from collections.abc import Callable
from copy import copy

from kraft.client.cluster import Cluster
from kraft.client.fetcher import Fetcher
from kraft.client.groups import committed_offsets
from kraft.client.partitions import LATEST, Partition
from kraft.client.producer import Producer
from kraft.client.refusals import check
from kraft.client.retries import Attempts
from kraft.client.transaction_admin import ONGOING, list_transactions
from kraft.client.transactional_producer import TransactionalProducer
from kraft.client.transactions import GroupMember, Offset, Transactions
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kraft.protocol.messages.list_offsets_response import ListOffsetsResponse
from kraft_native.base.errors import KraftError
from kraft_native.batch.batch import walk
from kraft_native.batch.records import BatchBuilder, records

SECONDS = 30.0
READ_COMMITTED = 1
_ids = itertools.count()


def visible(cluster: Cluster, topic: str, partition: int, count: int) -> list[bytes]:
    """Read values of committed records until there are `count` of them: markers may be written after the answer."""
    attempts = Attempts(SECONDS)
    while True:
        found = _committed(cluster, topic, partition)
        if len(found) >= count or attempts.over:
            return found
        attempts.pause()


def _latest(cluster: Cluster, topic: str, partition: int, isolation: int) -> int:
    request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[ListOffsetsTopic(
        name=topic, partitions=[ListOffsetsPartition(partition_index=partition, timestamp=LATEST)])])
    answer = cluster.leader(topic, partition).send(request, ListOffsetsResponse).topics[0].partitions[0]
    check("latest offset", answer.error_code)
    return answer.offset


def _committed(cluster: Cluster, topic: str, partition: int) -> list[bytes]:
    """Return the values of committed records, up to the last stable offset."""
    end = _latest(cluster, topic, partition, READ_COMMITTED)
    values = []
    skipped: set[int] = set()       # producers, while their aborted transaction lasts
    for fetched in Fetcher(cluster, committed=True).fetch(topic, partition, 0, end):
        aborted = sorted(fetched.aborted, key=lambda each: each[1])
        for batch in walk(fetched.batches):
            while aborted and aborted[0][1] <= batch.base_offset:
                skipped.add(aborted.pop(0)[0])
            if batch.is_control:
                skipped.discard(batch.producer_id)
            elif batch.producer_id not in skipped:
                values += [record.value or b"" for record in records(batch)]
    return values


def transactions_of_a_producer(bootstrap: str, topic: str) -> None:
    """Commits, aborts, offsets, and a producer that is fenced by the next one."""
    name = f"{topic}-{next(_ids)}"
    group = GroupMember(f"group-of-{name}")
    place: Partition = (topic, 1)
    with Cluster(bootstrap) as cluster:
        before = [len(_committed(cluster, topic, partition)) for partition in range(2)]
        with TransactionalProducer(cluster, name) as producer:
            for number in range(3):
                producer.send(topic, 0, [(None, b"a%d" % number), (None, b"b%d" % number)])
                producer.send(topic, 1, [(None, b"c%d" % number)])
                producer.commit_offsets(group, {place: Offset(number + 1, f"m{number}")})
                if number == 1:
                    producer.abort()
                else:
                    producer.commit()
            assert visible(cluster, topic, 0, before[0] + 4)[before[0]:] == [b"a0", b"b0", b"a2", b"b2"]
            assert visible(cluster, topic, 1, before[1] + 2)[before[1]:] == [b"c0", b"c2"]
            stored = stable_offset(cluster, group.group, place)
            assert stored == 3
            producer.send(topic, 0, [(None, b"late")])
            with Cluster(bootstrap) as other:
                TransactionalProducer(other, name)
            error = refused(lambda: producer.send(topic, 0, [(None, b"later")]))
            assert error in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)
            assert refused(producer.abort) in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)
        assert len(visible(cluster, topic, 0, before[0] + 4)) == before[0] + 4


def late_requests(bootstrap: str, topic: str) -> None:
    """Requests of a transaction that arrive after its end are refused, and leave no transaction open (KAFKA-18957)."""
    name = f"{topic}-{next(_ids)}"
    group, place = GroupMember(f"group-of-{name}"), (topic, 1)
    builder = BatchBuilder(transactional=True)
    builder.append(b"a")
    batch = builder.build()
    with Cluster(bootstrap) as cluster:
        ended = Transactions(cluster, name, expiry_ms=60_000, timeout=SECONDS)
        ended.begin()
        producer = Producer(cluster, transactional_id=name)
        producer.adopt((ended.producer_id, ended.producer_epoch), adds_implicitly=ended.adds_implicitly)
        ended.add(topic, 0)
        producer.send({(topic, 0): batch})
        late = copy(ended)
        ended.end(commit=True)
        fenced = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)
        for attempt in (lambda: late.commit_offsets(group, {place: Offset(1)}), lambda: producer.send({place: batch})):
            assert refused(attempt) in fenced
        late.adds_implicitly = False
        for attempt in (lambda: late.commit_offsets(group, {place: Offset(1)}), lambda: late.add(*place)):
            assert refused(attempt) in fenced
        assert name not in [each.transactional_id for each in list_transactions(cluster, states=(ONGOING,))]
        assert visible(cluster, topic, 0, 1)[-1:] == [b"a"]
        assert place not in committed_offsets(cluster, group.group, stable=True)
        for isolation in range(2):
            assert _latest(cluster, topic, 1, isolation) == 0


def stable_offset(cluster: Cluster, group: str, place: Partition) -> int:
    """Return the committed offset of a group, once no transaction is about to change it."""
    attempts = Attempts(SECONDS)
    while True:
        try:
            return committed_offsets(cluster, group, stable=True)[place].offset
        except KraftError as error:
            attempts.again(error)


def refused(attempt: Callable[[], object]) -> int | None:
    """Return the error code of a failed attempt; None when it succeeds."""
    try:
        attempt()
    except KraftError as error:
        return error.code
    return None


def two_phase_commit(bootstrap: str, topic: str, *, keeps_prepared: bool) -> None:
    """A prepared transaction is ended by its producer; with `keeps_prepared` also by the next one."""
    name = f"{topic}-{next(_ids)}"
    with Cluster(bootstrap) as cluster:
        before = len(_committed(cluster, topic, 0))
        producer = TransactionalProducer(cluster, name, two_phase=True)
        expected = []
        for value, is_decided in ((b"p0", True), (b"p1", False), (b"p2", True)):
            producer.send(topic, 0, [(None, value)])
            state = producer.prepare()
            assert producer.complete(state if is_decided else None) == is_decided
            expected += [value] if is_decided else []
        assert visible(cluster, topic, 0, before + 2)[before:] == expected
        if not keeps_prepared:
            return
        for value, is_decided in ((b"q0", True), (b"q1", False), (b"q2", True)):
            producer.send(topic, 0, [(None, value)])
            state = producer.prepare()
            for _ in range(2):      # the first of the next producers stops, too, before it completes anything
                producer = TransactionalProducer(cluster, name, two_phase=True, keep_prepared=True)
                assert producer.prepared == state
            assert producer.complete(state if is_decided else "another") == is_decided
            expected += [value] if is_decided else []
        assert visible(cluster, topic, 0, before + 4)[before:] == expected
        assert TransactionalProducer(cluster, name, two_phase=True, keep_prepared=True).prepared is None
