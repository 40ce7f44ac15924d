"""Produce and Fetch of clients that may not do everything: every refusal, and nothing done before it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.fetch_request import ReplicaState
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft_native.request.permissions import PermissionCache
from kraft_native.request.reply import Reply
from kraft_native.request.slices import SliceQueue
from kraft_native.serve.produce import ProduceHandler
from tests.native.logs import batch
from tests.native.serve.test_fetch_session import begin, go_on
from tests.native.serving import Node, fetch_response, fetched, produce_response, produced, serving, topic_id_of

READ, WRITE, CLUSTER_ACTION = 3, 4, 9
TOPIC, CLUSTER, TRANSACTIONAL_ID = 2, 4, 5
OK, UNKNOWN, DENIED = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED
KEYS = (b"x", topic_id_of("x"))
ALICE, BOB = "User:alice", "User:bob"


class Rights:
    """Permissions by principal, type and name. A change is `set`."""

    def __init__(self) -> None:
        self.allowed: dict[tuple[object, int, str], int] = {}
        self.version = object()
        self.decisions = 0
        self.cache = PermissionCache(self.decide, lambda _principal: (self.version,))

    def decide(self, principal: object, host: str, kind: int, name: str) -> int:
        assert host == ""
        self.decisions += 1
        return self.allowed.get((principal, kind, name), 0)

    def set(self, principal: str, kind: int, name: str, *operations: int) -> None:
        self.allowed[principal, kind, name] = sum(1 << each for each in operations)
        self.version = object()
        self.cache.changed()


@pytest.fixture
def rights() -> Rights:
    return Rights()


@pytest.fixture
def node(tmp_path: Path, rights: Rights) -> Iterator[Node]:
    with serving(tmp_path) as made:
        for topic in ("a", "b"):
            made.partition(topic)
        use(made, rights)
        yield made


def use(node: Node, rights: Rights) -> None:
    node.produce_handler.permissions = node.fetch_handler.permissions = rights.cache
    node.sink.principal = ALICE


def code(reply: Reply) -> int:
    return produced(reply).error_code


# --- Produce


@pytest.mark.parametrize("version", [3, 9, 12, 13])
def test_a_topic_is_written_with_permission_only(node: Node, rights: Rights, version: int) -> None:
    assert code(node.produce(batch(), version=version, topic="a")) == DENIED
    rights.set(ALICE, TOPIC, "a", READ)
    assert code(node.produce(batch(), version=version, topic="a")) == DENIED
    assert node.table.get("a", 0).log.log_end_offset == 0  # type: ignore[union-attr]
    rights.set(ALICE, TOPIC, "a", WRITE)
    assert code(node.produce(batch(), version=version, topic="a")) == 0
    assert code(node.produce(batch(), version=version, topic="b")) == DENIED
    rights.set(ALICE, TOPIC, "a")
    assert code(node.produce(batch(), version=version, topic="a")) == DENIED
    assert node.table.get("a", 0).log.log_end_offset == 1  # type: ignore[union-attr]


def test_a_refusal_has_the_fields_of_kafkas(node: Node) -> None:
    part = produced(node.produce(batch(), topic="a"))
    assert (part.error_code, part.base_offset, part.log_append_time_ms, part.log_start_offset) == (DENIED, -1, -1, -1)
    assert part.error_message is None and part.current_leader.leader_id == -1


def test_nothing_is_learned_about_a_topic_without_permission(node: Node, rights: Rights) -> None:
    for topic in ("a", "x"):
        assert code(node.produce(batch(), topic=topic, index=7)) == DENIED
    assert code(node.produce(batch(), version=13, topic="x")) == 100
    node.table.explain(lambda key, _by_id: (3, "x", {}, (), 1) if key in KEYS else (100, "", None, (), 1))
    assert code(node.produce(batch(), version=13, topic="x")) == DENIED, "known, and elsewhere"
    rights.set(ALICE, TOPIC, "x", WRITE)
    assert code(node.produce(batch(), version=13, topic="x")) == 3
    assert code(node.produce(batch(), version=12, topic="x")) == 3


def test_each_topic_of_a_request_has_its_outcome(node: Node, rights: Rights) -> None:
    rights.set(ALICE, TOPIC, "a", WRITE)
    request = ProduceRequest(acks=1, timeout_ms=0, topic_data=[
        TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=index, records=batch())
                                                     for index in (0, 1)])
        for topic in ("b", "a", "x", "a")])
    response = produce_response(node.produce_body(request.encode(9), 9))
    assert [[part.error_code for part in topic.partition_responses] for topic in response.responses] == [
        [DENIED, DENIED], [OK, UNKNOWN], [DENIED, DENIED], [OK, UNKNOWN]]


def test_a_refusal_of_acks_0_closes_the_connection(node: Node, rights: Rights) -> None:
    assert node.produce(batch(), topic="a", acks=0).refused
    rights.set(ALICE, TOPIC, "a", WRITE)
    assert not node.produce(batch(), topic="a", acks=0).refused


def test_a_transactional_id_needs_permission(node: Node, rights: Rights) -> None:
    rights.set(ALICE, TOPIC, "a", WRITE)
    records = batch(1, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    node.produce_handler.verifies = False
    assert code(node.produce(records, version=9, topic="a", transactional_id="t")) == 53
    assert code(node.produce(batch(), version=9, topic="a", transactional_id="t")) == 0, "no batch of a transaction"
    rights.set(ALICE, TRANSACTIONAL_ID, "t", WRITE)
    assert code(node.produce(records, version=9, topic="a", transactional_id="t")) == 0
    assert code(node.produce(records, version=9, topic="b", transactional_id="t")) == DENIED


def test_no_transaction_is_confirmed_for_a_topic_without_permission(node: Node, rights: Rights) -> None:
    rights.set(ALICE, TOPIC, "a", WRITE)
    rights.set(ALICE, TRANSACTIONAL_ID, "t", WRITE)
    queries: list[Any] = []

    def verify(transactional_id: str, producer_id: int, epoch: int, partitions: list[tuple[str, int]], adds: bool,
               callback: Callable[[list[int]], None]) -> None:
        queries.append(partitions)
        callback([0] * len(partitions))

    node.produce_handler.verifier = verify
    records = batch(1, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    request = ProduceRequest(transactional_id="t", acks=1, timeout_ms=0, topic_data=[
        TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])
        for topic in ("a", "b")])
    response = produce_response(node.produce_body(request.encode(12), 12))
    assert [topic.partition_responses[0].error_code for topic in response.responses] == [OK, DENIED]
    assert queries == [[("a", 0)]]


def test_a_long_request_is_checked_in_each_slice(node: Node, rights: Rights) -> None:
    rights.set(ALICE, TOPIC, "a", WRITE)
    called: list[Callable[[], None]] = []
    slices = SliceQueue(called.append, lambda _cause: None, slice_us=1)
    node.produce_handler = ProduceHandler(node.table, slices=slices)
    use(node, rights)
    request = ProduceRequest(acks=1, timeout_ms=0, topic_data=[
        TopicProduceData(name="a", partition_data=[PartitionProduceData(index=9, records=batch()) for _ in range(200)]),
        *(TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch())])
          for topic in ["b"] * 20)])
    reply = node.produce_body(request.encode(9), 9)
    while called:
        called.pop(0)()
    response = produce_response(reply)
    assert {part.error_code for part in response.responses[0].partition_responses} == {UNKNOWN}
    assert {topic.partition_responses[0].error_code for topic in response.responses[1:]} == {DENIED}


# --- decisions


def test_a_decision_is_made_once_for_all_connections_of_a_client(node: Node, rights: Rights) -> None:
    rights.set(ALICE, TOPIC, "a", READ, WRITE)
    for _ in range(5):
        assert code(node.produce(batch(), topic="a")) == 0
        assert fetched(node.fetch(("a", 0, 0)))[0].error_code == OK
    assert rights.decisions == 1


def test_another_principal_of_the_connection_has_its_own_permissions(node: Node, rights: Rights) -> None:
    rights.set(ALICE, TOPIC, "a", READ, WRITE)
    assert code(node.produce(batch(), topic="a")) == 0
    node.sink.principal = BOB
    assert code(node.produce(batch(), topic="a")) == DENIED
    assert fetched(node.fetch(("a", 0, 0)))[0].error_code == DENIED


def test_without_an_authorizer_everything_is_allowed(node: Node) -> None:
    node.produce_handler.permissions = node.fetch_handler.permissions = None
    assert code(node.produce(batch(), topic="a")) == 0
    assert fetched(node.fetch(("a", 0, 0)))[0].error_code == OK
    assert fetched(node.fetch(("a", 0, 0), replica_id=2, version=14))[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


# --- Fetch


@pytest.mark.parametrize("version", [4, 11, 12, 13, 18])
def test_a_topic_is_read_with_permission_only(node: Node, rights: Rights, version: int) -> None:
    rights.set(ALICE, TOPIC, "b", READ)
    for topic in ("a", "b"):
        node.table.get(topic, 0).append(batch(2))  # type: ignore[union-attr]
    for operations in ((), (WRITE,)):
        rights.set(ALICE, TOPIC, "a", *operations)
        denied, allowed = fetched(node.fetch(("a", 0, 0), ("b", 0, 0), version=version))
        assert (denied.error_code, denied.high_watermark, denied.last_stable_offset, denied.log_start_offset) == (
            DENIED, -1, -1, -1)
        assert not denied.records and denied.aborted_transactions == []
        assert (allowed.error_code, len(allowed.records)) == (OK, len(batch(2)))
    rights.set(ALICE, TOPIC, "a", READ)
    assert [part.error_code for part in fetched(node.fetch(("a", 0, 0), ("b", 0, 0), version=version))] == [OK, OK]


def test_nothing_is_learned_by_reading_without_permission(node: Node, rights: Rights) -> None:
    for topic in ("a", "x"):
        assert fetched(node.fetch((topic, 7, 0), version=12))[0].error_code == DENIED
    assert fetched(node.fetch(("x", 0, 0), version=13))[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    node.table.explain(lambda key, _by_id: (3, "x", {}, (), 1) if key in KEYS else (100, "", None, (), 1))
    assert fetched(node.fetch(("x", 0, 0), version=13))[0].error_code == DENIED
    rights.set(ALICE, TOPIC, "x", READ)
    assert fetched(node.fetch(("x", 0, 0), version=13))[0].error_code == UNKNOWN


def test_a_session_ends_with_its_permission(node: Node, rights: Rights) -> None:
    rights.set(ALICE, TOPIC, "a", READ)
    node.table.get("a", 0).append(batch(2))  # type: ignore[union-attr]
    session_id = begin(node, ("a", 0, 2), ("b", 0, 0))
    assert go_on(node, session_id, 1) == (0, session_id, {"b": -DENIED})
    rights.set(ALICE, TOPIC, "b", READ)
    assert go_on(node, session_id, 2) == (0, session_id, {"b": 0})
    rights.set(ALICE, TOPIC, "a")
    assert go_on(node, session_id, 3) == (0, session_id, {"a": -DENIED})
    assert go_on(node, session_id, 4, forget="a") == (0, session_id, {})


def test_a_pending_fetch_is_checked_again(node: Node, rights: Rights) -> None:
    rights.set(ALICE, TOPIC, "a", READ)
    reply = node.fetch(("a", 0, 0), max_wait_ms=60_000)
    assert reply.parts is None
    rights.set(ALICE, TOPIC, "a")
    node.table.get("a", 0).append(batch())  # type: ignore[union-attr]
    node.purgatory.drain()
    [part] = fetched(reply)
    assert (part.error_code, part.records or b"") == (DENIED, b"")


@pytest.mark.parametrize("version", [12, 14, 16])
def test_a_follower_needs_cluster_action(node: Node, rights: Rights, version: int) -> None:
    node.table.get("a", 0).append(batch())  # type: ignore[union-attr]
    rights.set(ALICE, TOPIC, "a", READ)

    def fetch(**session: int) -> Reply:
        fields = {"replica_state": ReplicaState(replica_id=2)} if version >= 15 else {"replica_id": 2}
        return node.fetch(("a", 0, 0), ("x", 0, 0), version=version, **fields, **session)

    reply = fetch(session_epoch=0)
    assert [part.error_code for part in fetched(reply)] == [DENIED, DENIED]
    assert fetch_response(reply).session_id == 0, "no session of followers for a client that is none"
    assert len(node.sessions) == 0
    rights.set(ALICE, CLUSTER, "kafka-cluster", CLUSTER_ACTION)
    rights.set(ALICE, TOPIC, "a")
    assert [part.error_code for part in fetched(fetch())] == [
        ErrorCode.NOT_LEADER_OR_FOLLOWER, UNKNOWN if version < 13 else ErrorCode.UNKNOWN_TOPIC_ID]


def test_a_session_of_a_follower_ends_with_its_permission(node: Node, rights: Rights) -> None:
    rights.set(ALICE, CLUSTER, "kafka-cluster", CLUSTER_ACTION)
    node.partition("c", leader=False, high_watermark="manual").become_leader(
        1, node_id=1, replicas=(1, 2), isr=(1, 2))
    session_id = fetch_response(node.fetch(("c", 0, 0), replica_state=ReplicaState(replica_id=2),
                                           session_epoch=0)).session_id
    assert session_id > 0
    rights.set(ALICE, CLUSTER, "kafka-cluster")
    response = fetch_response(node.fetch(replica_state=ReplicaState(replica_id=2), session_id=session_id,
                                         session_epoch=1, max_wait_ms=60_000))
    assert response.responses[0].partitions[0].error_code == DENIED
    assert response.responses[0].topic_id == UUID(bytes=topic_id_of("c"))
