"""Injection of the incidents of `incidents.toml` into a cluster of real processes.

Each function does what the entry of its name says. Some begin before the cluster starts (`BEFORE`). Broker 2 may live
in a world of its own (`worlds.py`): with a small file system, or with a clock that is ahead.
"""

import shutil
import struct
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer

from kraft.client import Cluster
from kraft.client.configs import Change, Operation, alter_configs
from kraft.client.groups import commit_offsets, describe_group, list_groups
from kraft.client.producer import Producer, new_producer, stamped
from kraft.client.quorum import QuorumClient
from kraft.client.reassignments import reassign
from kraft.client.refusals import check
from kraft.client.topics import create_topic
from kraft.client.transactional_producer import TransactionalProducer
from kraft.console.clock import now_ms
from kraft.local.addresses import ReservedPort
from kraft.local.cluster import LocalCluster
from kraft.local.launcher import Launcher
from kraft.local.local_node import LocalNode
from kraft.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from kraft.protocol.messages.alter_client_quotas_response import AlterClientQuotasResponse
from kraft.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kraft.protocol.messages.create_topics_response import CreateTopicsResponse
from kraft.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kraft.protocol.messages.delete_records_response import DeleteRecordsResponse
from kraft.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kraft.protocol.messages.delete_topics_response import DeleteTopicsResponse
from kraft.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from kraft.protocol.messages.elect_leaders_response import ElectLeadersResponse
from kraft.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kraft.protocol.messages.join_group_response import JoinGroupResponse
from kraft_native.batch.records import BatchBuilder
from tests.console import worlds
from tests.tls.files import issued

SETTINGS: Final = {
    "broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "2000", "auto.leader.rebalance.enable": "false",
    "group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2", "controlled.shutdown.enable": "true",
    "transaction.partition.verification.enable": "false", "transaction.two.phase.commit.enable": "true",
}
OF_ONE: Final[Mapping[str, Mapping[int, Mapping[str, str]]]] = {
    "one-rack": {1: {"broker.rack": "a"}, 2: {"broker.rack": "a"}, 3: {"broker.rack": "b"}},
    "internal-topic-one-replica": {each: {"offsets.topic.replication.factor": "1"} for each in (1, 2, 3)},
    "records-lost": {1: {"log.flush.offset.checkpoint.interval.ms": "100"}},
    "strays": {2: {"metadata.log.max.snapshot.interval.ms": "200"}},
}
"""Settings of single nodes."""
BROKEN_DIRECTORY: Final = "broken"
AHEAD_SECONDS: Final = 90
class Lab:
    """A running cluster, and what an injection needs of it."""

    def __init__(self, cluster: LocalCluster, client: Cluster, stack: ExitStack) -> None:
        self.cluster = cluster
        self.client = client
        self.stack = stack

    def topic(self, name: str, replicas: list[list[int]], **configs: str) -> None:
        """Create a topic with these replicas of each partition."""
        topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=each) for index, each in enumerate(replicas)],
            configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()])
        answer = self.client.controller().send(CreateTopicsRequest(topics=[topic], timeout_ms=10_000),
                                               CreateTopicsResponse)
        check(name, answer.topics[0].error_code, answer.topics[0].error_message)
        create_topic(self.client, name, len(replicas))      # exists: waits until its leaders serve

    def produce(self, topic: str, count: int = 1, size: int = 100, acks: int = -1) -> None:
        builder = BatchBuilder("none")
        for number in range(count):
            builder.append(b"%d " % number + b"x" * size)
        Producer(self.client, acks=acks).send({(topic, 0): builder.build()})

    def isr(self, topic: str, index: int = 0) -> list[int]:
        [found] = self.client.metadata([topic]).topics
        return sorted(next(each for each in found.partitions if each.partition_index == index).isr_nodes)

    def wait(self, done: Callable[[], bool], what: str) -> None:
        self.cluster.wait_until(done, what, 40)

    def restart_all(self, between: Callable[[], object]) -> None:
        """Kill all brokers at once, and start them after `between`."""
        self.client.close()
        for node in self.cluster.brokers.values():
            node.kill()
        between()
        self.cluster.start()

    def move(self, node: LocalNode, launcher: Launcher) -> None:
        """Have another launcher start a node."""
        node.launcher = self.stack.enter_context(launcher)
        self.stack.callback(node.end)       # before its launcher ends

    def kill(self, *brokers: int) -> None:
        for each in brokers:
            self.cluster.brokers[each].kill()
        remaining = [each for each in self.cluster.brokers if self.cluster.brokers[each].running]
        self.client.close()
        self.client.bootstrap = [(node.host, node.port) for node in self.cluster.brokers.values() if node.running]
        self.wait(lambda: all(not set(brokers) & self.cluster.seen_by(each) for each in remaining), "they are fenced")

    def consumer(self, group: str, topic: str) -> Consumer:
        found = Consumer({"bootstrap.servers": self.cluster.bootstrap, "group.id": group,
                          "enable.auto.commit": False, "auto.offset.reset": "earliest"})
        self.stack.callback(found.close)
        found.subscribe([topic])
        return found

    def leader_of_quorum(self) -> int:
        return QuorumClient(self.client).describe().leader

    def behind_ms(self, voter: int) -> int:
        """Time since a voter was caught up, as the leader has it; 0 for the leader."""
        found = QuorumClient(self.client).describe()
        caught_up_ms = next(each.caught_up_ms for each in found.voters if each.node_id == voter)
        return 0 if found.leader == voter else now_ms() - caught_up_ms

    def following_controller(self) -> int:
        return next(each for each in self.cluster.controllers if each != self.leader_of_quorum())


def broker_killed(lab: Lab) -> None:
    lab.topic("t", [[1, 2, 3]])
    lab.kill(2)


def broker_stopped(lab: Lab) -> None:
    lab.topic("t", [[1, 2, 3]])
    lab.cluster.brokers[2].stop()


def broker_paused(lab: Lab) -> None:
    lab.cluster.brokers[2].pause()
    lab.stack.callback(lab.cluster.brokers[2].resume)


def broker_without_controller(lab: Lab) -> None:
    lab.cluster.isolate(2, lab.cluster.controllers.values())
    lab.wait(lambda: 2 not in lab.cluster.seen_by(1), "broker 2 is fenced")


def follower_cut_from_leader(lab: Lab) -> None:
    lab.topic("t", [[1, 2, 3]])
    lab.cluster.cut(1, 2)
    lab.produce("t", acks=1)        # a follower that lacks nothing stays in sync
    lab.wait(lambda: lab.isr("t") == [1, 3], "the follower leaves the ISR")


def two_directories(lab: Lab) -> None:
    node = lab.cluster.brokers[2]
    node.settings["log.dirs"] = f"{node.directory},{node.directory.with_name(BROKEN_DIRECTORY)}"


def directory_failed(lab: Lab) -> None:
    node, broken = lab.cluster.brokers[2], lab.cluster.brokers[2].directory.with_name(BROKEN_DIRECTORY)
    lab.topic("t", [[2, 1, 3]] * 4)
    lab.wait(lambda: any(broken.glob("t-*")), "a partition is in the second directory")
    node.fail_disk(broken)
    for index in range(4):
        builder = BatchBuilder("none")
        builder.append(b"v")
        Producer(lab.client, acks=1).send({("t", index): builder.build()})


def small_disk(lab: Lab) -> None:
    node = lab.cluster.brokers[2]
    lab.move(node, Launcher(worlds.small_disk(node.directory)))
    node.settings["log.dirs"] = str(node.directory / "logs")


def disk_almost_full(lab: Lab) -> None:
    lab.topic("t", [[1, 2, 3]])
    lab.produce("t", 10)


def disk_full(lab: Lab) -> None:
    lab.topic("t", [[1, 2, 3]])
    lab.cluster.brokers[2].fill_disk()
    lab.produce("t", 100)
    lab.wait(lambda: 2 not in lab.isr("t"), "broker 2 leaves the ISR")
    lab.cluster.brokers[2].expect_end()


def slow_follower(lab: Lab) -> None:
    lab.topic("t", [[1, 2, 3]])
    lab.cluster.brokers[2].slow_disk(700)
    for _ in range(20):
        lab.produce("t", 1_800, 500, acks=1)
    lab.wait(lambda: lab.isr("t") == [1, 3], "the follower leaves the ISR")


def partition_without_leader(lab: Lab) -> None:
    lab.topic("t", [[1, 2]])
    lab.kill(1)
    lab.kill(2)


def single_replica_offline(lab: Lab) -> None:
    lab.topic("s", [[2]])
    lab.kill(2)


def below_minimum_isr(lab: Lab) -> None:
    lab.topic("t", [[1, 2, 3]], min_insync_replicas="2")
    lab.kill(2, 3)


def minimum_isr_above_replicas(lab: Lab) -> None:
    lab.topic("t", [[1, 2]], min_insync_replicas="3")


def unclean_election(lab: Lab) -> None:
    lab.topic("t", [[1, 2]], min_insync_replicas="1")
    lab.kill(2)
    lab.produce("t")
    lab.kill(1)
    lab.cluster.brokers[2].start()
    lab.wait(lambda: 2 in lab.cluster.seen_by(3), "broker 2 returns")
    request = ElectLeadersRequest(election_type=1, timeout_ms=10_000,
                                  topic_partitions=[TopicPartitions(topic="t", partitions=[0])])
    check("election", lab.client.send(request, ElectLeadersResponse).error_code)


def records_lost(lab: Lab) -> None:
    """The topic has one replica: from others the broker would fetch again what it lost, and nothing would be red."""
    lab.topic("t", [[1]], flush_messages="1")
    for _ in range(20):
        lab.produce("t")
    directory = lab.cluster.brokers[1].directory / "t-0"
    lab.wait(lambda: b"durable_end=20" in (directory / "kraft-log-state").read_bytes(), "the flushed end is noted")
    lab.restart_all(lambda: cut_end(next(directory.glob("*.log"))))
    lab.produce("t")        # waits until the leader serves


def cut_end(segment: Path) -> None:
    """Drop the second half of a log, as a disk does that lost what it had reported as flushed. Room that the log has
    reserved ahead is a part of it."""
    with segment.open("r+b") as file:
        file.truncate(segment.stat().st_size // 2)


def strays(lab: Lab) -> None:
    lab.topic("t", [[1, 2, 3]])
    node = lab.cluster.brokers[2]
    kept = node.directory.with_name("kept")
    node.stop()
    shutil.copytree(node.directory / "t-0", kept)
    request = DeleteTopicsRequest(timeout_ms=10_000, topics=[DeleteTopicState(name="t")])
    answer = lab.client.controller().send(request, DeleteTopicsResponse)
    check("t", answer.responses[0].error_code)
    node.start()
    lab.wait(lambda: not (node.directory / "t-0").exists(), "broker 2 deletes its replica")
    known = snapshots(node)
    lab.wait(lambda: len(snapshots(node) - known) > 1, "a snapshot without the topic")
    node.stop()
    shutil.copytree(kept, node.directory / "t-0")
    node.start()
    lab.wait(lambda: 2 in lab.cluster.seen_by(1), "broker 2 returns")


def snapshots(node: LocalNode) -> set[str]:
    """Names of the snapshots of a node's metadata log."""
    return {each.name for each in node.directory.glob("__cluster_metadata-0/*.checkpoint")}


def controller_killed(lab: Lab) -> None:
    lab.cluster.controllers[3001].kill()
    lab.client.close()
    lab.wait(lambda: lab.behind_ms(3001) > 2_000, "another controller leads, and the killed one is behind")


def quorum_lost(lab: Lab) -> None:
    lab.cluster.controllers[3001].kill()
    lab.cluster.controllers[3002].kill()


def controller_paused(lab: Lab) -> None:
    node = lab.cluster.controllers[lab.following_controller()]
    node.pause()
    lab.stack.callback(node.resume)


def voter_cut_from_leader(lab: Lab) -> None:
    follower = lab.following_controller()
    lab.cluster.cut(follower, lab.leader_of_quorum())
    lab.wait(lambda: lab.behind_ms(follower) > 2_000, "the voter is behind")


def even_quorum(lab: Lab) -> None:
    follower = lab.following_controller()
    quorum = QuorumClient(lab.client)
    voter = next(each for each in quorum.describe().voters if each.node_id == follower)
    quorum.remove(follower, voter.directory_id)


def voter_change_pending(lab: Lab) -> None:
    QuorumClient(lab.client).reassign((3001, 3002, 4444))


def reassignment_stuck(lab: Lab) -> None:
    lab.topic("t", [[1, 2]])
    lab.kill(3)
    assert not reassign(lab.client, {("t", 0): [1, 3]})


def reassignment_throttled(lab: Lab) -> None:
    lab.topic("t", [[1, 2]])
    for _ in range(10):
        lab.produce("t", 1_800, 500)
    for broker in ("1", "2", "3"):
        alter_configs(lab.client, "broker", broker, [
            Change(f"{role}.replication.throttled.rate", Operation.SET, "1000") for role in ("leader", "follower")])
    throttle_left_over(lab)
    assert not reassign(lab.client, {("t", 0): [1, 3]})


def throttle_left_over(lab: Lab) -> None:
    create_topic(lab.client, "t", 1, 3)
    alter_configs(lab.client, "topic", "t", [
        Change(f"{role}.replication.throttled.replicas", Operation.SET, "*") for role in ("leader", "follower")])


def leaders_unbalanced(lab: Lab) -> None:
    lab.topic("t", [[1, 2, 3]] * 4)
    lab.cluster.brokers[1].restart()
    lab.client.close()
    lab.wait(lambda: lab.isr("t") == [1, 2, 3], "broker 1 is in sync again")


def one_rack(lab: Lab) -> None:
    lab.topic("t", [[1, 2]])


def internal_topic_one_replica(lab: Lab) -> None:
    lab.topic("t", [[1, 2, 3]])
    commit_offsets(lab.client, "g", {("t", 0): 0})


def group_without_members(lab: Lab) -> None:
    lab.topic("t", [[1, 2, 3]])
    commit_offsets(lab.client, "g", {("t", 0): 0})
    lab.produce("t", 10)


def group_lost_records(lab: Lab) -> None:
    group_without_members(lab)
    request = DeleteRecordsRequest(timeout_ms=10_000, topics=[DeleteRecordsTopic(name="t", partitions=[
        DeleteRecordsPartition(partition_index=0, offset=5)])])
    answer = lab.client.leader("t", 0).send(request, DeleteRecordsResponse)
    check("records", answer.topics[0].partitions[0].error_code)


def group_past_the_end(lab: Lab) -> None:
    group_without_members(lab)
    commit_offsets(lab.client, "g", {("t", 0): 100})


def idle_members(lab: Lab) -> None:
    lab.topic("t", [[1, 2, 3]])
    consumers = [lab.consumer("g", "t") for _ in range(3)]

    def is_stable() -> bool:
        for each in consumers:
            each.poll(0.05)
        found = describe_group(lab.client, "g") if any(each.group == "g" for each in list_groups(lab.client)) else None
        return found is not None and found.state == "Stable" and len(found.members) == 3

    lab.wait(is_stable, "three members are stable")


def group_rebalancing(lab: Lab) -> None:
    coordinator = lab.client.coordinator("g")
    protocol = JoinGroupRequestProtocol(name="range", metadata=struct.pack(">hii", 0, 0, 0))
    member = ""
    for _ in range(2):          # the first answer assigns the member id
        answer = coordinator.send(JoinGroupRequest(
            group_id="g", session_timeout_ms=30_000, rebalance_timeout_ms=30_000, member_id=member,
            protocol_type="consumer", protocols=[protocol]), JoinGroupResponse)
        member = answer.member_id


def slow_consumer(lab: Lab) -> None:
    lab.topic("t", [[1, 2, 3]])
    lab.produce("t", 1)
    consumer = lab.consumer("g", "t")
    read: list[Any] = []

    def has_read() -> bool:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            read.append(message)
        return bool(read)

    lab.wait(has_read, "one record is read")
    consumer.commit(read[0], asynchronous=False)
    lab.produce("t", 5_000)


def open_transaction(lab: Lab) -> None:
    lab.topic("t", [[1, 2, 3]])
    TransactionalProducer(lab.client, "owner", expiry_ms=600_000).send("t", 0, [(None, b"v")])


def hanging_transaction(lab: Lab) -> None:
    lab.topic("t", [[1, 2, 3]])
    producer = new_producer(lab.client, 10.0)
    builder = BatchBuilder("none")
    builder.append(b"v")
    batch = stamped(builder.build(), producer, 0, transactional=True)
    Producer(lab.client, transactional_id="unknown").send({("t", 0): batch})


def prepared_transaction(lab: Lab) -> None:
    lab.topic("t", [[1, 2, 3]])
    producer = TransactionalProducer(lab.client, "owner", two_phase=True)
    producer.send("t", 0, [(None, b"v")])
    producer.prepare()


def with_tls(lab: Lab) -> None:
    """Give broker 2 a listener with TLS, and a certificate in its file."""
    node = lab.cluster.brokers[2]
    port = ReservedPort(node.host)
    lab.stack.callback(port.close)
    store = node.directory.with_name("first.pem")
    store.write_text(issued("node", node.host).key + issued("node", node.host).certificate)
    node.settings |= {"listeners": f"PLAINTEXT://{node.address},TLS://{node.host}:{port.port}",
                      "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,TLS:SSL,CONTROLLER:PLAINTEXT",
                      "listener.name.tls.ssl.keystore.type": "PEM",
                      "listener.name.tls.ssl.keystore.location": str(store)}


def setting_not_applied(lab: Lab) -> None:
    node = lab.cluster.brokers[2]
    store = node.directory.with_name("second.pem")
    store.write_text(node.directory.with_name("first.pem").read_text())
    alter_configs(lab.client, "broker", "2", [
        Change("listener.name.tls.ssl.keystore.location", Operation.SET, str(store))])
    node.stop()
    store.unlink()
    node.start()
    lab.wait(lambda: 2 in lab.cluster.seen_by(1), "broker 2 returns")


def clock_ahead(lab: Lab) -> None:
    lab.move(lab.cluster.brokers[2], Launcher(environment=worlds.clock_ahead(lab.cluster.directory, AHEAD_SECONDS)))


def clock_skew(lab: Lab) -> None:
    lab.topic("t", [[1, 2, 3]])


def quota_throttles_everybody(lab: Lab) -> None:
    request = AlterClientQuotasRequest(entries=[EntryData(
        entity=[EntityData(entity_type="user", entity_name=None)],
        ops=[OpData(key="producer_byte_rate", value=1_000.0)])])
    answer = lab.client.send(request, AlterClientQuotasResponse)
    check("quota", answer.entries[0].error_code, answer.entries[0].error_message)


INJECTIONS: Final[Mapping[str, Callable[[Lab], None]]] = {
    each.__name__.replace("_", "-"): each for each in (
        broker_killed, broker_stopped, broker_paused, broker_without_controller, follower_cut_from_leader,
        directory_failed, disk_almost_full, disk_full, records_lost, strays, setting_not_applied, clock_skew,
        slow_follower, partition_without_leader, single_replica_offline, below_minimum_isr,
        minimum_isr_above_replicas, unclean_election, controller_killed, quorum_lost, controller_paused,
        voter_cut_from_leader, even_quorum, voter_change_pending, reassignment_stuck, reassignment_throttled,
        throttle_left_over, leaders_unbalanced, one_rack, internal_topic_one_replica, group_without_members,
        group_lost_records, group_past_the_end, idle_members, group_rebalancing, slow_consumer, open_transaction,
        hanging_transaction, prepared_transaction, quota_throttles_everybody)}
BEFORE: Final[Mapping[str, Callable[[Lab], None]]] = {
    "directory-failed": two_directories, "disk-almost-full": small_disk, "setting-not-applied": with_tls,
    "clock-skew": clock_ahead}
"""Preparations before the cluster starts."""
