"""`kraft why topic/partition`: the cause of each leadership, and what keeps replicas out."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from kraft.cli.command import run
from kraft.cli.partition_story import FENCED, STOPPED, Left, PartitionStory
from kraft.cli.partition_why import Replica, about_isr, about_leader, about_reassignment, about_replica, trouble_of
from kraft.cli.recordings import find
from kraft.client import Cluster
from kraft.client.reassignments import Ongoing, throttle
from kraft.local.cluster import LocalCluster
from kraft.metadata.image import (
    EMPTY,
    LOST_DIRECTORY,
    BrokerRegistration,
    MetadataImage,
    PartitionRegistration,
    TopicImage,
)
from kraft.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from kraft.protocol.messages.fence_broker_record import FenceBrokerRecord
from kraft.protocol.messages.partition_change_record import PartitionChangeRecord
from kraft.protocol.messages.partition_record import PartitionRecord
from kraft.protocol.messages.register_broker_record import RegisterBrokerRecord
from kraft.protocol.messages.topic_record import TopicRecord
from kraft.protocol.messages.unregister_broker_record import UnregisterBrokerRecord
from kraft.recorder.brokers import fencings, speaking_brokers
from kraft.recorder.entry import Entry
from kraft.recorder.ring import CAPACITY
from kraft.recorder.why import Situation
from tests.cli.nodes import Tool
from tests.golden import golden, needs_golden
from tests.integration.clients import Record, librdkafka_produce

TOPIC_ID = UUID(int=500)
LATER_MS = 1_800_000_000_000


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """Nothing of the engine runs in this process."""


def story(*records: object, causes: Mapping[tuple[int, int], str] | None = None) -> PartitionStory:
    """Story of t/0 with leader 1, replicas and ISR 1, 2 and 3, then these records."""
    found = PartitionStory("t", 0, causes or {})
    first = (TopicRecord(name="t", topic_id=TOPIC_ID),
             PartitionRecord(topic_id=TOPIC_ID, partition_id=0, replicas=[1, 2, 3], isr=[1, 2, 3], leader=1))
    for time_ms, record in enumerate((*first, *records), 1_700_000_000_000):
        found.apply(time_ms, record)
    return found


def change(leader: int, **more: object) -> PartitionChangeRecord:
    return PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, leader=leader, **more)  # type: ignore[arg-type]


def fenced(broker: int) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=broker, fenced=1)


def unfenced(broker: int) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=broker, fenced=-1)


def stopping(broker: int) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=broker, in_controlled_shutdown=1)


def registered(broker: int, epoch: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(broker_id=broker, broker_epoch=epoch)


def member(broker_id: int, **fields: Any) -> BrokerRegistration:
    """An active broker with one log directory."""
    return BrokerRegistration(**{
        "broker_id": broker_id, "epoch": 40, "incarnation_id": UUID(int=1), "endpoints": (), "features": {},
        "rack": None, "fenced": False, "in_controlled_shutdown": False, "is_migrating_zk_broker": False,
        "log_dirs": (UUID(int=900 + broker_id),), "cordoned_log_dirs": None, **fields})


def image_with(*brokers: BrokerRegistration, **partition: Any) -> MetadataImage:
    """t/0 with replicas 1, 2 and 3, each in its broker's only directory."""
    registration = PartitionRegistration(**{
        "replicas": (1, 2, 3), "directories": tuple(UUID(int=900 + each) for each in (1, 2, 3)), "isr": (1, 2, 3),
        "leader": 1, **partition})
    return replace(EMPTY, brokers={each.broker_id: each for each in brokers}, topic_ids={"t": TOPIC_ID},
                   topics={TOPIC_ID: TopicImage("t", TOPIC_ID, {0: registration})})


@pytest.mark.parametrize(("records", "because"), [
    ([], "the topic was created with it as the preferred replica"),
    ([fenced(1), change(2, isr=[2, 3])], "broker 1 was fenced"),
    ([stopping(1), change(2, isr=[2, 3])], "broker 1 was being stopped"),
    ([change(2), fenced(1)], "the metadata log does not say why"),      # fenced later: in a batch of its own
    ([change(2)], "the metadata log does not say why"),
    ([FenceBrokerRecord(id=1), change(2)], "broker 1 was fenced"),
    ([UnregisterBrokerRecord(broker_id=1), change(2)], "broker 1 was unregistered"),
    ([stopping(1), fenced(1), change(2)], "broker 1 was being stopped"),
    ([fenced(1), unfenced(1), change(2)], "the metadata log does not say why"),
    ([change(2), change(1)], "it is the preferred replica"),
    ([fenced(1), change(2), unfenced(1), change(1)], "it is the preferred replica"),
    ([change(2, isr=[2, 3], directories=[LOST_DIRECTORY, UUID(int=902), UUID(int=903)])],
     "broker 1 could not open the log of its replica"),
    ([change(-2, directories=[LOST_DIRECTORY, UUID(int=902), UUID(int=903)]), change(2)],
     "the metadata log does not say why"),          # lost earlier
    ([change(2, replicas=[2, 3], isr=[2, 3])], "a reassignment took broker 1 away"),
    ([change(-2, replicas=[4, 1], isr=[1]), change(4, replicas=[4], isr=[4])],
     "a reassignment took broker 1 away"),          # broker 4 is in sync and leader by one record
    ([change(-2, replicas=[4, 1], isr=[1]), change(4, replicas=[4], isr=[4], leader_recovery_state=1)],
     "nobody in sync was left, and the election was unclean: it may lack acknowledged records"),
    ([change(-2, isr=[1]), fenced(1), change(-1)], "broker 1 was fenced, and no other replica was in sync and up"),
    ([change(-2, isr=[1]), change(-1), change(1)], "it was the first in-sync replica to come back"),
    ([change(-2, isr=[1]), change(3, isr=[3])],
     "nobody in sync was left, and the election was unclean: it may lack acknowledged records"),
    ([change(-2, isr=[], eligible_leader_replicas=[3]), change(3, isr=[3])],
     "it was not in sync, but eligible: it has all that was acknowledged (KIP-966)"),
    ([change(-1, isr=[], last_known_elr=[1]), change(1, isr=[1], last_known_elr=[])],
     "nobody in sync or eligible was left, and it was the last to lead: what its disk did not keep is lost (KIP-966)"),
    ([change(-1, isr=[], last_known_elr=[1]), change(-2, last_known_elr=[3]), change(3, isr=[3], last_known_elr=[])],
     "nobody in sync or eligible was left, and the last leader came back with an empty log: what only it had is lost"),
    ([change(-1, isr=[], last_known_elr=[1]), change(3, isr=[3], last_known_elr=[])],
     "nobody in sync was left, and the election was unclean: it may lack acknowledged records"),
])
def test_causes(records: list[object], because: str) -> None:
    found = story(*records)
    assert found.because == because
    assert found.since_ms >= 1_700_000_000_000


@pytest.mark.parametrize(("records", "because"), [
    ([fenced(3), fenced(1)], "broker 1 was fenced"),
    ([registered(1, 70)], "broker 1 registered again, as another process"),
    ([registered(1, 40)], "the metadata log does not say why"),     # the process that has that epoch
    ([BrokerRegistrationChangeRecord(broker_id=1, log_dirs=[UUID(int=9)])],
     "broker 1 lost the log directory of its replica"),
])
def test_the_cause_may_follow_in_the_same_batch(records: list[object], because: str) -> None:
    found = story(registered(1, 40), unfenced(1))
    for record in (change(2, isr=[2, 3]), *records):
        found.apply(LATER_MS, record)
    assert found.because == because


def test_a_directory_that_failed_earlier_is_no_cause() -> None:
    """Its broker continues with the other directories; later changes have other causes."""
    lost = BrokerRegistrationChangeRecord(broker_id=1, log_dirs=[UUID(int=9)])
    assert story(lost, change(2)).because == "the metadata log does not say why"
    assert story(lost, fenced(1), change(2)).because == "broker 1 was fenced"


def test_the_flight_recorder_names_the_cause_of_a_fencing() -> None:
    because = "its connection to the controller was closed, and its address refuses connections"
    entries = [Entry(LATER_MS, 3001, 7, "fences", {"broker": 1, "because": because}),
               Entry(LATER_MS, 3001, 8, "commits", {"hw": 70})]
    found = story(causes=fencings(entries))
    for record in (change(2, isr=[2, 3]), fenced(1)):
        found.apply(LATER_MS, record)
    assert found.because == f"broker 1 was fenced ({because})"
    later = story(causes=fencings(entries))
    for record in (change(2, isr=[2, 3]), fenced(1)):
        later.apply(LATER_MS + 1, record)
    assert later.because == "broker 1 was fenced", "that was another time"


def test_a_story_that_begins_with_a_snapshot() -> None:
    image = image_with(member(1, epoch=40), leader=1, last_known_elr=(3,))
    found = PartitionStory("t", 0)
    found.starts(image)
    assert (found.leader, found.because, found.last_known) == (1, "", (3,))
    for record in (change(2), registered(1, 40)):
        found.apply(LATER_MS, record)
    assert found.because == "the metadata log does not say why", "it is the process that the snapshot knows"


def test_sentences() -> None:
    assert about_leader(story()).text == (
        "Broker 1 leads t/0 since 2023-11-14 22:13:20.001: the topic was created with it as the preferred replica.")
    without_leader = about_leader(story(change(-2, isr=[], eligible_leader_replicas=[3]), fenced(1), change(-1)))
    assert not without_leader.is_well
    assert "One of those that have every acknowledged record has to come back (eligible are 3);" in without_leader.text
    assert "(in sync last: 1);" in about_leader(story(change(-2, isr=[1]), fenced(1), change(-1))).text
    assert "No replica is known to have every acknowledged record; last leader:  1;" in about_leader(
        story(change(-1, isr=[], last_known_elr=[1]))).text
    assert "; the last leader lost its log, the others are 2, 3;" in about_leader(
        story(change(-1, isr=[], last_known_elr=[1]), change(-2, last_known_elr=[2, 3]))).text
    assert about_replica(Replica(2, None, 700, 1500), 1).text == (
        "Broker 2 is not in sync: its log has 700 B of the leader's 1.5 kB; it is up, and catches up or cannot reach "
        "its leader.")
    throttled = about_replica(Replica(2, None, 700, 1500, 10_000), 1)
    assert throttled.text.endswith("catches up, at 10.0 kB/s by its throttle.")
    assert about_replica(Replica(2, None, 700), 1).text.endswith("is unknown, because its leader does not answer.")
    assert about_replica(Replica(2, None, 700, 700), 1).text.endswith("which has not yet added it to the ISR.")
    assert about_isr(story(), 2, 3) == []
    [few] = about_isr(story(change(-2, isr=[1])), 2, 3)
    assert few.text == "In sync: 1; 2 are needed for acks=all (min.insync.replicas), so such requests are refused."
    moving = Ongoing(("t", 0), (1, 2, 4), (4,), (2,))
    assert about_reassignment(moving, (1, 2), [Replica(4, "it is fenced")], "1 of 2 copied").text == (
        "A reassignment to 1, 4 is under way: it waits for broker 4 (it is fenced) to be in sync; 1 of 2 copied.")
    assert "take 2 away" in about_reassignment(moving, (1, 2, 4), [], "").text


@pytest.mark.parametrize(("registered_as", "left", "speaks", "trouble"), [
    ({}, None, None, None),
    (None, None, None, "it is not registered"),
    ({"in_controlled_shutdown": True}, None, None, "it is being stopped"),
    ({"log_dirs": (UUID(int=7),)}, None, None, "the log directory of its replica failed"),
    ({"fenced": True}, None, None,
     "it is fenced, because it reaches no controller or has not caught up with the metadata log"),
    ({"fenced": True}, Left(FENCED), None,
     "it is fenced, because it reaches no controller or has not caught up with the metadata log"),
    ({"fenced": True}, Left(FENCED, "it was silent"), None, "it is fenced: it was silent"),
    ({"fenced": True}, Left(STOPPED), None, "it is fenced: it was being stopped"),
    ({"fenced": True}, Left(FENCED, "it was silent"), {"contact_ms": 300, "replayed": 39},
     ("it is fenced: its last contact with the controller was 0.3 s ago, but it has replayed the metadata log to 39, "
      "not to 40, "
      "where it registered")),
    ({"fenced": True}, None, {"contact_ms": 300, "replayed": 40},
     "it is fenced: its last contact with the controller was 0.3 s ago, but it has not requested to be unfenced"),
])
def test_why_a_broker_may_be_in_no_isr(registered_as: dict[str, Any] | None, left: Left | None,
                                       speaks: dict[str, int] | None, trouble: str | None) -> None:
    image = image_with(*([] if registered_as is None else [member(2, **registered_as)]))
    known_story = PartitionStory("t", 0, left={} if left is None else {2: left})
    known = image.partition("t", 0)
    assert known is not None
    assert trouble_of(2, image, known, known_story, {} if speaks is None else {2: speaks}) == trouble


def test_a_replica_whose_log_could_not_be_opened() -> None:
    image = image_with(member(2), directories=(UUID(int=901), LOST_DIRECTORY, UUID(int=903)))
    known = image.partition("t", 0)
    assert known is not None
    assert trouble_of(2, image, known, PartitionStory("t", 0), {}) == (
        "the log of its replica could not be opened there; what the node logs has the cause")


def test_brokers_that_contact_the_active_controller() -> None:
    """The latest report counts: another controller may have been active before."""
    def state(node: int, epoch: int, **more: object) -> Entry:
        return Entry(epoch, node, 1, "state", {"role": "Leader", "epoch": epoch, "voters": [], **more})

    speaking = {"broker": 2, "contact_ms": 300, "replayed": 39}
    before = {"broker": 1, "contact_ms": 1, "replayed": 1}
    entries = [state(3001, 4, brokers=[before]), state(3002, 5, brokers=[speaking])]
    assert speaking_brokers(Situation(entries)) == {2: speaking}
    assert speaking_brokers(Situation([])) == {}
    assert speaking_brokers(Situation([state(3001, 4)])) == {}


@pytest.mark.kraft_cluster(brokers=2, controllers=1)
def test_a_cluster(kraft_cluster: LocalCluster, capsys: pytest.CaptureFixture[str]) -> None:
    tool = Tool(kraft_cluster.bootstrap, capsys)
    tool.json("topics", "create", "y1", "--partitions", 1, "--replication-factor", 2, "--config",
              "min.insync.replicas=2")
    tool.json("topics", "create", "y3", "--partitions", 3, "--replication-factor", 1)
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
    why = "its connection to the controller was closed, and its address refuses connections"
    assert said[0].endswith(f": broker {leader} was fenced ({why}).")
    assert said[1] == f"Broker {leader} is not in sync: it is fenced: {why}."
    assert said[2].startswith(f"In sync: {other.node_id}; 2 are needed for acks=all")
    assert tool.run("why", "none/0")[0] == 1
    assert tool.run("why", "y1") == (1, out, ""), "a topic stands for all of its partitions"
    assert tool.run("why", "none")[0] == 1
    spoke = speaking_brokers(Situation(find((), tool.bootstrap, 10.0, CAPACITY).entries))
    assert set(spoke) == {other.node_id}
    assert 0 <= spoke[other.node_id]["contact_ms"] < 9_000
    controller, = kraft_cluster.controllers.values()
    capsys.readouterr()
    assert run(["why", "y1/0", str(controller.directory)]) == 0
    assert capsys.readouterr().out == f"{said[0]}\n", "its files give the same answer"
    assert run(["why", "y1", str(controller.directory)]) == 0
    assert capsys.readouterr().out == f"{said[0]}\n"
    run(["why", "y3", str(controller.directory)])
    assert [line.partition("y3/")[2][0] for line in capsys.readouterr().out.splitlines()] == ["0", "1", "2"]
    assert run(["why", "none", str(controller.directory)]) == 1


@pytest.mark.kraft_cluster(brokers=2, controllers=1, settings={"replica.lag.time.max.ms": "500"})
def test_a_replica_that_cannot_reach_its_leader_lacks_records(
    kraft_cluster: LocalCluster, capsys: pytest.CaptureFixture[str],
) -> None:
    tool = Tool(kraft_cluster.bootstrap, capsys)
    tool.json("topics", "create", "y2", "--partitions", 1, "--replication-factor", 2)
    leader = int(tool.json("why", "y2/0")[0]["node_id"])
    follower = 3 - leader
    kraft_cluster.cut(follower, leader)
    librdkafka_produce(kraft_cluster.brokers[leader], "y2", [Record(None, b"x" * 1000)] * 10, acks="1")

    def said() -> list[str]:
        return [line for line in tool.run("why", "y2/0")[1].splitlines() if "is not in sync" in line]

    silent = f"Its leader, broker {leader}, has not answered its Fetch for "
    kraft_cluster.wait_until(lambda: any(silent in line for line in said()), "its leader's silence is noticed")
    [lagging] = said()
    assert lagging.startswith(f"Broker {follower} is not in sync: its log has 0 B of the leader's 10."), lagging
    assert "kB; it is up, and catches up or cannot reach its leader. Its leader took it out at 2" in lagging
    assert ": not all had everything at some time in the last 500 ms. " in lagging
    with Cluster(kraft_cluster.bootstrap) as cluster:
        throttle(cluster, {("y2", 0): [leader]}, {("y2", 0): [leader, follower]}, 5000)
    slow = "kB; it is up, and catches up, at 5.0 kB/s by its throttle. Its leader took it out at 2"
    kraft_cluster.wait_until(lambda: any(slow in line for line in said()), "its throttle is named")


@needs_golden
def test_files_of_kafka(capsys: pytest.CaptureFixture[str]) -> None:

    capsys.readouterr()
    assert run(["why", "w1/0", str(golden("quorum", "dynamic", "node-1"))]) == 1
    assert "broker 1 was being stopped, and no other replica was in sync and up" in capsys.readouterr().out
