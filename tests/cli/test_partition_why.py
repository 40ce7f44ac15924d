"""`kraft why topic/partition`: the cause of each leadership, and what keeps replicas out."""

from uuid import UUID

import pytest

from kraft.cli.command import run
from kraft.cli.partition_story import PartitionStory
from kraft.cli.partition_why import Replica, about_isr, about_leader, about_reassignment, about_replica
from kraft.client.reassignments import Ongoing
from kraft.local.cluster import LocalCluster
from kraft.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from kraft.protocol.messages.partition_change_record import PartitionChangeRecord
from kraft.protocol.messages.partition_record import PartitionRecord
from kraft.protocol.messages.topic_record import TopicRecord
from tests.cli.nodes import Tool
from tests.golden import golden, needs_golden

TOPIC_ID = UUID(int=500)


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """Nothing of the engine runs in this process."""


def story(*records: object) -> PartitionStory:
    """Of t/0 with leader 1, replicas and ISR 1, 2 and 3, then these records."""
    found = PartitionStory("t", 0)
    first = (TopicRecord(name="t", topic_id=TOPIC_ID),
             PartitionRecord(topic_id=TOPIC_ID, partition_id=0, replicas=[1, 2, 3], isr=[1, 2, 3], leader=1))
    for time_ms, record in enumerate((*first, *records), 1_700_000_000_000):
        found.heard(time_ms, record)
    return found


def change(leader: int, **more: list[int]) -> PartitionChangeRecord:
    return PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, leader=leader, **more)  # type: ignore[arg-type]


def fenced(broker: int) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=broker, fenced=1)


@pytest.mark.parametrize(("records", "because"), [
    ([], "the topic was created with it as the preferred replica"),
    ([fenced(1), change(2, isr=[2, 3])], "broker 1 was fenced"),
    ([BrokerRegistrationChangeRecord(broker_id=1, in_controlled_shutdown=1), change(2, isr=[2, 3])],
     "broker 1 was being stopped"),
    ([change(2), fenced(1)], "an election was asked for"),      # fenced later: in a batch of its own
    ([change(2)], "an election was asked for"),
    ([change(2), change(1)], "it is the preferred replica"),
    ([fenced(1), change(2), BrokerRegistrationChangeRecord(broker_id=1, fenced=-1), change(1)],
     "it is the preferred replica"),
    ([change(2, replicas=[2, 3], isr=[2, 3])], "a reassignment took broker 1 away"),
    ([change(-2, isr=[1]), fenced(1), change(-1)], "broker 1 was fenced, and no other replica was in sync and up"),
    ([change(-2, isr=[1]), change(-1), change(1)], "it was the first in-sync replica to come back"),
    ([change(-2, isr=[1]), change(3, isr=[3])],
     "nobody in sync was left, and the election was unclean: it may lack acknowledged records"),
    ([change(-2, isr=[], eligible_leader_replicas=[3]), change(3, isr=[3])],
     "it was not in sync, but eligible: it has all that was acknowledged (KIP-966)"),
])
def test_causes(records: list[object], because: str) -> None:
    found = story(*records)
    assert found.because == because
    assert found.since_ms >= 1_700_000_000_000


def test_the_cause_may_follow_in_the_same_batch() -> None:
    found = story()
    for record in (change(2, isr=[2, 3]), fenced(3), fenced(1)):
        found.heard(1_800_000_000_000, record)
    assert found.because == "broker 1 was fenced"


def test_sentences() -> None:
    assert about_leader(story()).text == (
        "Broker 1 leads t/0 since 2023-11-14 22:13:20.001: the topic was created with it as the preferred replica.")
    gone = about_leader(story(change(-2, isr=[], eligible_leader_replicas=[3]), fenced(1), change(-1)))
    assert not gone.is_well
    assert "eligible are 3" in gone.text
    assert about_replica(Replica(2, None, 7), 1).text == (
        "Broker 2 is not in sync: it lacks 7 records to the high watermark, and is up.")
    assert about_isr(story(), 2, 3) == []
    [few] = about_isr(story(change(-2, isr=[1])), 2, 3)
    assert few.text == "In sync: 1; 2 are needed for acks=all (min.insync.replicas), so such requests are refused."
    moving = Ongoing(("t", 0), (1, 2, 4), (4,), (2,))
    assert about_reassignment(moving, (1, 2), [Replica(4, "it is fenced")], "1 of 2 copied").text == (
        "A reassignment to 1, 4 is under way: it waits for broker 4 (it is fenced) to be in sync; 1 of 2 copied.")
    assert "take 2 away" in about_reassignment(moving, (1, 2, 4), [], "").text


@pytest.mark.kraft_cluster(brokers=2, controllers=1)
def test_a_cluster(kraft_cluster: LocalCluster, capsys: pytest.CaptureFixture[str]) -> None:
    tool = Tool(kraft_cluster.bootstrap, capsys)
    tool.json("topics", "create", "y1", "--partitions", 1, "--replication-factor", 2, "--config",
              "min.insync.replicas=2")
    [well] = tool.json("why", "y1/0")
    assert well["is_well"]
    assert "the topic was created" in well["text"]
    leader = int(well["node_id"])
    kraft_cluster.brokers[leader].kill()
    other = kraft_cluster.brokers[3 - leader]
    tool.bootstrap = other.address
    kraft_cluster.wait_until(lambda: leader not in kraft_cluster.seen_by(other), "it is fenced")
    code, out, complaints = tool.run("why", "y1/0")
    assert (code, complaints) == (1, "")
    said = out.splitlines()
    assert said[0].startswith(f"Broker {other.node_id} leads y1/0 since ")
    assert said[0].endswith(f": broker {leader} was fenced.")
    assert said[1].startswith(f"Broker {leader} is not in sync: it is fenced")
    assert said[2].startswith(f"In sync: {other.node_id}; 2 are needed for acks=all")
    assert tool.run("why", "none/0")[0] == 1
    assert tool.run("why", "y1")[0] == 2


@needs_golden
def test_files_of_kafka(capsys: pytest.CaptureFixture[str]) -> None:

    capsys.readouterr()
    assert run(["why", "w1/0", str(golden("quorum", "dynamic", "node-1"))]) == 1
    assert "broker 1 was being stopped, and no other replica was in sync and up" in capsys.readouterr().out
