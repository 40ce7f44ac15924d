"""Reassignment from one voter to three and on to others, by `kraft quorum` against real controllers."""

import json

import pytest

from kraft.cli.command import run
from kraft.client.quorum import QuorumClient
from kraft.client.refusals import RefusedError
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kraft.protocol.messages.alter_partition_reassignments_response import AlterPartitionReassignmentsResponse
from tests.integration.quorum import MakeQuorum, Quorum, create_topic, register_broker, topics_exist


def kraft(quorum: Quorum, *words: str) -> int:
    return run(["quorum", *words, "--bootstrap=" + ",".join(each.controller_address for each in quorum.nodes.values())])


def follow(client: QuorumClient, count: int) -> None:
    """Wait until the given number of replicas fetch from the leader."""
    while len(client.describe().replicas) < count or any(each.caught_up_ms < 0 for each in client.describe().replicas):
        pass


def answers_for(client: QuorumClient, *wanted: tuple[str, list[int]]) -> dict[str, int]:
    """Return the error of each topic in the answer to one request that reassigns all of them."""
    request = AlterPartitionReassignmentsRequest(timeout_ms=10_000, topics=[
        ReassignableTopic(name=name, partitions=[ReassignablePartition(replicas=replicas)])
        for name, replicas in wanted])
    with client.leader() as connection:
        answer = connection.send(request, AlterPartitionReassignmentsResponse)
    assert answer.error_code == ErrorCode.NONE
    return {topic.name: part.error_code for topic in answer.responses for part in topic.partitions}


def test_grow_replace_and_shrink(new_quorum: MakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
    quorum = new_quorum(3, voters=1)
    quorum.start()
    client = quorum.client()
    register_broker(quorum.leader)
    assert create_topic(quorum.leader, "kept")[0] == 0
    assert answers_for(client, ("kept", [100]), ("__cluster_metadata", [1]), ("absent", [100])) == {
        "__cluster_metadata": ErrorCode.NONE, "kept": ErrorCode.NONE, "absent": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    follow(client, 3)
    capsys.readouterr()
    assert kraft(quorum, "plan", "1", "2", "3", "--json") == 0
    steps = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["voters"], each["survived_before"], each["survived_after"]) for each in steps] == [
        ([1, 2], 0, 0), ([1, 2, 3], 0, 1)]
    assert kraft(quorum, "reassign", "1", "2", "3") == 0
    found = client.describe()
    assert ([each.node_id for each in found.voters], found.targets) == ([1, 2, 3], None)
    assert all(each.addresses for each in found.voters)     # gossip taught the leader where its new voters are
    follow(client, 3)
    capsys.readouterr()
    assert kraft(quorum, "plan", "--order=-2,-3") == 0
    assert kraft(quorum, "plan", "--order=+2") == 1
    assert "node 2 votes already" in capsys.readouterr().out
    assert kraft(quorum, "reassign", "2") == 0            # the first leader is removed too, last, and hands over
    found = client.describe()
    assert ([each.node_id for each in found.voters], found.leader) == ([2], 2)
    assert topics_exist(quorum.leader, ["kept"])


def test_cancelled_where_it_waits(new_quorum: MakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
    quorum = new_quorum(2, voters=1)
    quorum.start([1])
    client = quorum.client()
    assert kraft(quorum, "reassign", "1", "2") == 1        # no controller has seen node 2
    assert "2: the leader does not know them" in capsys.readouterr().err
    assert kraft(quorum, "reassign", "1", "2", "--force", "--no-wait", "--json") == 0
    assert json.loads(capsys.readouterr().out)["targets"] == [1, 2]
    assert client.describe().targets == (1, 2)
    assert run(["why", f"--bootstrap={quorum.nodes[1].controller_address}"]) == 1
    assert "it waits for node 2, which has not fetched from this leader" in capsys.readouterr().out
    assert kraft(quorum, "cancel") == 0
    assert capsys.readouterr().out.startswith("voters 1; 1 leads epoch")
    found = client.describe()
    assert ([each.node_id for each in found.voters], found.targets) == ([1], None)
    with pytest.raises(RefusedError, match="INVALID_REPLICA_ASSIGNMENT"):
        client.reassign((1, 1))
