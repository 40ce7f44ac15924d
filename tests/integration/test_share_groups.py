"""Share groups on a node: members by their requests, states by the share coordinator, commands, restart."""

import json
from collections.abc import Callable

import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient, NewTopic

from kraft.cli.command import kraft
from kraft.client import Cluster
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from kraft.protocol.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse
from kraft_native.base.errors import KraftError
from tests.integration.admin import create, wait_until
from tests.integration.clients import Reachable, Record, librdkafka_produce
from tests.integration.process import NodeProcess
from tests.integration.quorum import SECONDS, MakeQuorum

PARTITIONS = 3
QUICK = {"group.share.assignment.interval.ms": "100", "share.coordinator.state.topic.num.partitions": "2",
         "offsets.topic.num.partitions": "2"}


@pytest.fixture
def node(new_node: Callable[..., NodeProcess]) -> NodeProcess:
    return new_node(QUICK)


class Member:
    """A member of the group `g` that reads `shared`."""

    def __init__(self, node: Reachable, name: str) -> None:
        self.node = node
        self.name = name
        self.epoch = 0
        self.partitions: list[int] = []

    def beat(self, epoch: int | None = None) -> int:
        epoch = self.epoch if epoch is None else epoch
        with Cluster(self.node.address) as cluster:
            answer = cluster.coordinator("g").send(ShareGroupHeartbeatRequest(
                group_id="g", member_id=self.name, member_epoch=epoch,
                subscribed_topic_names=["shared"] if epoch == 0 else None), ShareGroupHeartbeatResponse)
        if not answer.error_code:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.partitions = [index for each in answer.assignment.topic_partitions for index in each.partitions]
        error: int = answer.error_code
        return error

    def beats(self) -> bool:
        """Return whether a heartbeat was accepted; False while the cluster has no coordinator."""
        try:
            return self.beat() == ErrorCode.NONE
        except KraftError:
            return False


def run(node: Reachable, *arguments: str) -> str:
    result = CliRunner().invoke(kraft, [*arguments, "--bootstrap", node.address])
    assert result.exit_code == 0, result.output
    return result.output


def rows(node: Reachable, *arguments: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in run(node, *arguments, "--json").splitlines()]


def test_members_share_partitions_and_operators_see_and_set_where_the_group_starts(node: NodeProcess) -> None:
    create(node, "shared", PARTITIONS)
    for partition in range(PARTITIONS):
        librdkafka_produce(node, "shared", [Record(None, b"%d" % number) for number in range(5)], partition=partition)
    first, second = Member(node, "first"), Member(node, "second")

    def joined() -> bool:
        return first.beat() == second.beat() == ErrorCode.NONE

    wait_until(joined, "two members", seconds=30)

    def shared() -> bool:
        joined()
        return sorted(first.partitions + second.partitions) == list(range(PARTITIONS))

    wait_until(shared, "all partitions are assigned", seconds=30)
    assert ("g", "share", "Stable") in [
        (each["group"], each["kind"], each["state"]) for each in rows(node, "groups", "list")]
    members = rows(node, "groups", "members", "g")
    assert [(each["member"], each["epoch"]) for each in members] == [
        ("first", first.epoch), ("second", second.epoch)]
    node.kill_and_start()
    wait_until(joined, "the members are still known", seconds=30)
    assert first.beat(-1) == second.beat(-1) == ErrorCode.NONE
    run(node, "groups", "reset", "g", "--to", "earliest", "--topic", "shared")
    run(node, "groups", "reset", "g", "--to", "3", "--topic", "shared:1")
    assert [(each["partition"], each["start"]) for each in rows(node, "groups", "offsets", "g")] == [
        (0, 0), (1, 3), (2, 0)]
    assert "deleted" in run(node, "groups", "delete", "g")
    assert rows(node, "groups", "list") == []


def test_lags_and_members_in_a_cluster(new_quorum: MakeQuorum) -> None:
    """The coordinator learns the ends of partitions from their leaders. Its successor knows the members."""
    quorum = new_quorum(3, is_broker=True, session_ms=2_000)
    quorum.start()
    admin = AdminClient({"bootstrap.servers": quorum.address, "log_level": 2})
    admin.create_topics([NewTopic("shared", 6, 3)])["shared"].result(SECONDS)
    for partition in range(6):
        librdkafka_produce(quorum, "shared", [Record(None, b"x")] * 5, partition=partition)
    member = Member(quorum, "first")
    wait_until(lambda: member.beat() == ErrorCode.NONE and len(member.partitions) == 6, "a member", SECONDS)
    assert member.beat(-1) == ErrorCode.NONE
    run(quorum, "groups", "reset", "g", "--to", "earliest", "--topic", "shared")
    assert [each["lag"] for each in rows(quorum, "groups", "offsets", "g")] == [5] * 6
    assert member.beat(0) == ErrorCode.NONE
    with Cluster(quorum.address) as cluster:
        coordinator = cluster.coordinator("g").port
    killed = next(node for node in quorum.nodes.values() if node.port == coordinator)
    killed.kill()
    wait_until(lambda: member.beats(), "the next coordinator knows the member", SECONDS)
    killed.start()
