"""`kraft why topic/partition`: who leads and why, what keeps replicas out of the ISR, what a reassignment waits for."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from kraft.cli.cluster import size_text
from kraft.cli.metadata_source import AsOf, from_files, from_leader
from kraft.cli.partition_story import PartitionStory
from kraft.client import Cluster, state
from kraft.client.configs import describe_configs
from kraft.client.partitions import Partition
from kraft.client.reassignments import Ongoing, ongoing, progress
from kraft.client.refusals import check, text_of
from kraft.config.errors import InvalidConfigError
from kraft.metadata.image import MetadataImage
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest
from kraft.protocol.messages.describe_log_dirs_response import DescribeLogDirsResponse
from kraft.recorder.timeline import clock_text
from kraft.recorder.why import Answer
from kraft_native.errors import KraftError

MIN_ISR: Final = "min.insync.replicas"


class Replica(NamedTuple):
    """One replica that is not the leader. `trouble`: why its broker cannot have it in sync; None when it could.
    `lag`: records that it lacks to the high watermark, -1 where that is not told."""

    broker: int
    trouble: str | None
    lag: int = -1


def partition_answers(cluster: Cluster, partition: Partition) -> list[Answer]:
    """About the leader, every replica that is not in sync, and the reassignment."""
    story = PartitionStory(*partition)
    known = image_of(from_leader(cluster, AsOf(), story), partition)
    moving = ongoing(cluster).get(partition)
    up = {each.node_id: each for each in state.brokers(cluster)}
    outside = [replica_of(cluster, partition, each, up) for each in known if each not in story.isr]
    found = [about_leader(story), *(about_replica(each, story.leader) for each in outside)]
    found += about_isr(story, minimum(cluster, partition[0]), len(known))
    if moving is not None:
        at = progress(cluster, [moving])
        found.append(about_reassignment(moving, story.isr, outside, f"{size_text(at.done_bytes)} of "
                                                                    f"{size_text(at.total_bytes)} copied"))
    return found


def image_of(image: MetadataImage, partition: Partition) -> tuple[int, ...]:
    """The replicas; `InvalidConfigError` for a partition that there is not."""
    found = image.partition(*partition)
    if found is None:
        raise InvalidConfigError(f"partition: the cluster has no {partition[0]}/{partition[1]}")
    return found.replicas


def story_of_files(directories: Iterable[Path], partition: Partition) -> list[Answer]:
    """What the metadata log in a directory tells: nobody is asked."""
    found = []
    for directory in directories:
        story = PartitionStory(*partition)
        image_of(from_files(directory, AsOf(), story), partition)
        found.append(about_leader(story))
    return found


def about_leader(story: PartitionStory) -> Answer:
    name = f"{story.topic}/{story.index}"
    since = f" since {clock_text(story.since_ms)}: {story.because}" if story.since_ms >= 0 else \
        ", since before the metadata log begins"
    if story.leader < 0:
        needed = f"in sync last: {_listed(story.isr)}" if story.isr else f"eligible are {_listed(story.elr)}"
        return Answer("leader", -1, False, f"Nobody leads {name}{since}. One of those that have every acknowledged "
                      f"record has to come back ({needed}); `kraft leaders elect --unclean` may lose records.")
    return Answer("leader", story.leader, True, f"Broker {story.leader} leads {name}{since}.")


def about_replica(replica: Replica, leader: int) -> Answer:
    name = f"Broker {replica.broker} is not in sync: "
    if replica.trouble is not None:
        text = f"{name}{replica.trouble}."
    elif leader < 0:
        text = f"{name}there is no leader to fetch from."
    elif replica.lag > 0:
        text = f"{name}it lacks {replica.lag} records to the high watermark, and is up."
    else:
        text = f"{name}it has everything up to the high watermark; its leader has not yet taken it in."
    return Answer("replica", replica.broker, False, text)


def about_isr(story: PartitionStory, at_least: int, replicas: int) -> list[Answer]:
    """Said only when fewer are in sync than `acks=all` needs."""
    needed = min(at_least, replicas)
    if len(story.isr) >= needed and story.leader >= 0:
        return []
    return [Answer("isr", story.leader, False,
                   f"In sync: {_listed(story.isr)}; {needed} are needed for acks=all ({MIN_ISR}), so such requests are "
                   "refused.")]


def about_reassignment(moving: Ongoing, isr: tuple[int, ...], outside: Iterable[Replica], copied: str) -> Answer:
    waits = [each for each in moving.adding if each not in isr]
    if waits:
        reasons = {each.broker: each.trouble for each in outside}
        text = ", ".join(f"broker {each}" + (f" ({reasons[each]})" if reasons.get(each) else "") for each in waits)
        text = f"it waits for {text} to be in sync; {copied}"
    else:
        text = f"all that come are in sync; it waits for the controller to take {_listed(moving.removing)} away"
    return Answer("reassignment", -1, False, f"A reassignment to {_listed(moving.targets)} is under way: {text}.")


def replica_of(cluster: Cluster, partition: Partition, broker: int, up: dict[int, state.BrokerState]) -> Replica:
    """What its broker says of it."""
    known = up.get(broker)
    if known is None:
        return Replica(broker, "there is no such broker in the cluster")
    if known.fenced:
        return Replica(broker, "it is fenced, because no controller hears from it or it has not caught up with the "
                               "metadata log")
    if known.problem is not None:
        return Replica(broker, f"it does not answer ({known.problem})")
    try:
        answer = cluster.node(broker).send(DescribeLogDirsRequest(topics=[
            DescribableLogDirTopic(topic=partition[0], partitions=[partition[1]])]), DescribeLogDirsResponse)
        check(f"log directories of node {broker}", answer.error_code)
    except KraftError as error:
        return Replica(broker, f"it does not tell of its log ({error})")
    lags = [each.offset_lag for directory in answer.results for topic in directory.topics for each in topic.partitions
            if not each.is_future_key]
    failed = [f"its log directory {each.log_dir} failed: {text_of(each.error_code)}" for each in answer.results
              if each.error_code != ErrorCode.NONE]
    if not lags:
        return Replica(broker, failed[0] if failed else "it has no log of the partition yet")
    return Replica(broker, None, lags[0])


def minimum(cluster: Cluster, topic: str) -> int:
    settings = describe_configs(cluster, "topic", [topic])[topic]
    return next((int(each.value or 1) for each in settings if each.name == MIN_ISR), 1)


def _listed(ids: Iterable[int]) -> str:
    return ", ".join(map(str, ids)) or "nobody"
