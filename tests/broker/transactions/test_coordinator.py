"""Random clients, faults and fail-overs: every transaction ends in one way, and as its client was answered."""

import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from kraft.broker.transactions import completion, expiry
from kraft.broker.transactions.markers import RETRY_MS, Decision
from kraft.broker.transactions.state import Identity, Status, TopicPartition
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.end_txn_request import EndTxnRequest
from tests.broker.node import Pending
from tests.broker.transactions.txn_node import TIMEOUT_MS, TxnNode, add_one, init

SEEDS = 25
STEPS = 150


@dataclass
class Client:
    """Client that repeats each EndTxn until it is answered, as clients of transaction.version 2 do."""

    name: str
    identity: Identity | None = None
    partitions: set[int] = field(default_factory=set)
    ends: bool | None = None
    sent: list[EndTxnRequest] = field(default_factory=list)


class Run:
    """One random run. `answered`: commits and aborts by (producer id, epoch of the markers)."""

    def __init__(self, seed: int) -> None:
        self.source = random.Random(seed)
        self.node = TxnNode()
        self.clients = [Client("a"), Client("b")]
        self.answered: dict[tuple[int, int], tuple[bool, frozenset[int]]] = {}

    def step(self) -> None:
        source, node = self.source, self.node
        client = source.choice(self.clients)
        choice = source.random()
        if choice < 0.55:
            self.proceed(client)
        elif choice < 0.65 and client.sent:
            node.send(source.choice(client.sent))           # a delayed duplicate
        elif choice < 0.72:
            node.fail_over()
        elif choice < 0.79:
            node.logs.error = source.choice((None, None, ErrorCode.NOT_ENOUGH_REPLICAS))
        elif choice < 0.86:
            node.answers_markers = source.random() < 0.7
        elif choice < 0.93:
            code = source.choice((ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER))
            node.marker_code = lambda partition: code if partition[1] else ErrorCode.NONE
        else:
            node.advance(source.choice((RETRY_MS, TIMEOUT_MS // 2)))

    def proceed(self, client: Client) -> None:
        """Let the client do what it would do next."""
        if client.identity is None:
            response = init(self.node, name=client.name).response
            if response.error_code == ErrorCode.NONE:
                client.identity = Identity(response.producer_id, response.producer_epoch)
            return
        if client.ends is None and (len(client.partitions) < 2 or self.source.random() < 0.4):
            partition = self.source.randrange(4)
            [error] = add_one(self.node, client.identity, partition, name=client.name)
            if error is ErrorCode.NONE:
                client.partitions.add(partition)
            elif error in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING):
                self.restart(client)
            return
        if client.ends is None:
            client.ends = self.source.random() < 0.6
        request = EndTxnRequest(transactional_id=client.name, producer_id=client.identity.producer_id,
                                producer_epoch=client.identity.epoch, committed=client.ends)
        client.sent.append(request)
        self.ended(client, client.identity, self.node.send(request))

    def ended(self, client: Client, identity: Identity, pending: Pending) -> None:
        error = pending.response.error_code
        if error == ErrorCode.NONE:
            assert client.ends is not None
            marked = (identity.producer_id, identity.epoch + 1)
            assert marked not in self.answered
            self.answered[marked] = (client.ends, frozenset(client.partitions))
            client.identity = Identity(pending.response.producer_id, pending.response.producer_epoch)
            client.partitions, client.ends = set(), None
        elif error in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_ID_MAPPING):
            self.restart(client)

    def restart(self, client: Client) -> None:
        client.identity, client.partitions, client.ends = None, set(), None

    def check(self) -> None:
        """Let everything end, then compare the markers with the answers."""
        node = self.node
        node.logs.error, node.answers_markers = None, True
        node.marker_code = lambda _: ErrorCode.NONE
        node.settle()
        node.advance(TIMEOUT_MS + 10_000)
        for _, state in node.coordinator.shards.active(node.now_ms):
            assert all(each.status not in (Status.ONGOING, Status.PREPARE_COMMIT, Status.PREPARE_ABORT)
                       for each in state.transactions.values())
        assert len(node.coordinator.markers) == 0
        outcomes: dict[tuple[int, int], set[bool]] = {}
        marked: dict[tuple[int, int], set[TopicPartition]] = {}
        for producer_id, epoch, commits, topic, partition in node.markers():
            outcomes.setdefault((producer_id, epoch), set()).add(commits)
            marked.setdefault((producer_id, epoch), set()).add((topic, partition))
        assert all(len(each) == 1 for each in outcomes.values()), "torn"
        for key, (commits, partitions) in self.answered.items():
            if partitions:
                assert outcomes[key] == {commits}
                assert marked[key] >= {("orders", each) for each in partitions}


def judge(seed: int) -> int:
    """Run one seed and return the number of transactions whose end was answered."""
    run = Run(seed)
    for _ in range(STEPS):
        run.step()
    run.check()
    return len(run.answered)


def test_every_transaction_ends_as_its_client_was_answered() -> None:
    assert sum(map(judge, range(SEEDS))) > 5 * SEEDS


def decided_otherwise(producer_id: int, epoch: int, commits: bool, version: int) -> Decision:
    return Decision(producer_id, epoch, not commits, version)


@pytest.mark.parametrize(("module", "name", "bug"), [
    (expiry, "arm_timeout", lambda *_: None),
    (completion, "Decision", decided_otherwise),
])
def test_bugs_are_found(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, bug: Any) -> None:
    monkeypatch.setattr(module, name, bug)
    with pytest.raises(AssertionError):
        for seed in range(SEEDS):
            judge(seed)
