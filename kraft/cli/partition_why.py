"""`kraft why topic/partition`: the leader and its cause, obstacles to the ISR, blockers of a reassignment."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from kraft.cli.cluster import size_text
from kraft.cli.metadata_source import AsOf, from_files, from_leader
from kraft.cli.partition_names import parse_partition
from kraft.cli.partition_story import FENCED, Changes, Left, PartitionStory, Stories
from kraft.cli.recordings import entries_of
from kraft.client import Cluster
from kraft.client.configs import setting
from kraft.client.partitions import Partition
from kraft.client.reassignments import Ongoing, log_sizes, ongoing, progress, throttles, total
from kraft.client.recorder import of_broker
from kraft.client.refusals import check
from kraft.config.errors import InvalidConfigError
from kraft.metadata.image import LOST_DIRECTORY, BrokerRegistration, MetadataImage, PartitionRegistration
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.error_names import text_of
from kraft.protocol.messages.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest
from kraft.protocol.messages.describe_log_dirs_response import DescribeLogDirsResponse
from kraft.recorder.brokers import fencings, speaking_brokers
from kraft.recorder.entry import Entry, parse
from kraft.recorder.replicas import blockers
from kraft.recorder.ring import CAPACITY
from kraft.recorder.timeline import clock_text
from kraft.recorder.why import Answer, Situation
from kraft_native.base.errors import KraftError

MIN_ISR: Final = "min.insync.replicas"


class Replica(NamedTuple):
    """One replica that is not the leader.

    `trouble` is the reason why its broker cannot have it in sync; None when it could. `size_bytes` is the size of its
    log, `of_bytes` that of the leader's, -1 where unknown: a follower without contact does not know what it lacks.
    `throttle` is in bytes per second, None without a limit. `recorded` are facts of the two brokers' flight recorders.
    """

    broker: int
    trouble: str | None
    size_bytes: int = -1
    of_bytes: int = -1
    throttle: int | None = None
    recorded: tuple[str, ...] = ()


def partition_answers(cluster: Cluster, partitions: Sequence[Partition], situation: Situation,
                      changes: Changes | None = None) -> list[Answer]:
    """Explain the leader, every replica that is not in sync, and the reassignment of each partition. `situation` comes
    from the controllers' flight recorders. The metadata log is read once; `changes` receives its records, too."""
    return [answer for _, answer in answers_by_partition(cluster, partitions, situation, changes)]


def answers_by_partition(cluster: Cluster, partitions: Sequence[Partition], situation: Situation,
                         changes: Changes | None = None) -> list[tuple[Partition, Answer]]:
    """Return the answers of `partition_answers`, each with its partition."""
    causes = fencings(situation.entries)
    stories = Stories((PartitionStory(*each, causes=causes) for each in partitions), changes)
    image = from_leader(cluster, AsOf(), stories)
    moves = ongoing(cluster)
    return [((story.topic, story.index), answer) for story in stories.all
            for answer in _answers(cluster, story, image, moves, situation)]


def _answers(cluster: Cluster, story: PartitionStory, image: MetadataImage, moves: Mapping[Partition, Ongoing],
             situation: Situation) -> list[Answer]:
    partition = (story.topic, story.index)
    known = registration_of(image, partition)
    moving = moves.get(partition)
    outside = [Replica(each, trouble) if (trouble := trouble_of(each, image, known, story, speaking_brokers(situation)))
               else queried_replica(cluster, partition, each, story.leader) for each in known.replicas
               if each not in story.isr]
    recorded_by = recordings(cluster, {story.leader, *(each.broker for each in outside)} if outside else ())
    outside = [each._replace(recorded=tuple(blockers(recorded_by, *partition, each.broker, story.leader,
                                                     known.leader_epoch))) for each in outside]
    found = [about_leader(story), *(about_replica(each, story.leader) for each in outside)]
    found += about_isr(story, minimum(cluster, partition[0]), len(known.replicas))
    if moving is not None:
        at = total(progress(cluster, [moving]))
        found.append(about_reassignment(moving, story.isr, outside, f"{size_text(at.done_bytes)} of "
                                                                    f"{size_text(at.total_bytes)} copied"))
    return found


def registration_of(image: MetadataImage, partition: Partition) -> PartitionRegistration:
    """Return the registration of a partition. Raises `InvalidConfigError` for one that does not exist."""
    found = image.partition(*partition)
    if found is None:
        raise InvalidConfigError(f"partition: the cluster has no {partition[0]}/{partition[1]}")
    return found


def stories_of_files(directory: Path, names: Iterable[str], changes: Changes | None = None) -> list[Answer]:
    """Explain the leaders of these partitions from the metadata log in a directory and the flight recorder beside it.
    No node is queried. A topic's name means all of its partitions."""
    found: list[Partition] = []
    for name in names:
        topic, index = parse_partition(name)
        found += [(topic, index)] if index is not None else _partitions_in(from_files(directory, AsOf()), topic)
    causes = fencings(entries_of(directory))
    stories = Stories((PartitionStory(*each, causes=causes) for each in dict.fromkeys(found)), changes)
    image = from_files(directory, AsOf(), stories)
    for each in stories.all:
        registration_of(image, (each.topic, each.index))
    return [about_leader(story) for story in stories.all]


def _partitions_in(image: MetadataImage, name: str) -> list[Partition]:
    for topic in image.topics.values():
        if topic.name == name:
            return [(name, index) for index in sorted(topic.partitions)]
    raise InvalidConfigError(f"partition: the cluster has no {name}")


def about_leader(story: PartitionStory) -> Answer:
    name = f"{story.topic}/{story.index}"
    since = f" since {clock_text(story.since_ms)}: {story.because}" if story.since_ms >= 0 else \
        ", since before the metadata log begins"
    if story.leader < 0:
        if story.isr or story.elr:
            needed = f"in sync last: {_listed(story.isr)}" if story.isr else f"eligible are {_listed(story.elr)}"
            needed = f"One of those that have every acknowledged record has to come back ({needed})"
        else:
            last = "the last leader lost its log, the others are" if story.log_was_lost else "last leader: "
            needed = f"No replica is known to have every acknowledged record; {last} {_listed(story.last_known)}"
        return Answer("leader", -1, False, f"Nobody leads {name}{since}. {needed}; `kraft leaders elect --unclean` may "
                                           "lose records.")
    return Answer("leader", story.leader, True, f"Broker {story.leader} leads {name}{since}.")


def about_replica(replica: Replica, leader: int) -> Answer:
    name = f"Broker {replica.broker} is not in sync: "
    if replica.trouble is not None:
        text = f"{name}{replica.trouble}."
    elif leader < 0:
        text = f"{name}there is no leader to fetch from."
    elif replica.of_bytes < 0:
        text = f"{name}it is up; its progress is unknown, because its leader does not answer."
    elif replica.size_bytes < replica.of_bytes:
        bound = f", at {size_text(replica.throttle)}/s by its throttle" if replica.throttle is not None else \
            " or cannot reach its leader"
        text = (f"{name}its log has {size_text(replica.size_bytes)} of the leader's {size_text(replica.of_bytes)}; it "
                f"is up, and catches up{bound}.")
    else:
        text = f"{name}its log is as long as its leader's, which has not yet added it to the ISR."
    return Answer("replica", replica.broker, False, " ".join(
        [text, *(f"{clause[0].upper()}{clause[1:]}." for clause in replica.recorded)]))


def about_isr(story: PartitionStory, at_least: int, replicas: int) -> list[Answer]:
    """Explain the ISR if fewer replicas are in sync than `acks=all` needs."""
    needed = min(at_least, replicas)
    if len(story.isr) >= needed and story.leader >= 0:
        return []
    return [Answer("isr", story.leader, False,
                   f"In sync: {_listed(story.isr)}; {needed} are needed for acks=all ({MIN_ISR}), so such requests are "
                   "refused.")]


def about_reassignment(moving: Ongoing, isr: tuple[int, ...], outside: Iterable[Replica], copied: str) -> Answer:
    waits = [each for each in moving.adding if each not in isr]
    if waits:
        reasons = {each.broker: "; ".join(filter(None, (each.trouble, *each.recorded))) for each in outside}
        text = ", ".join(f"broker {each}" + (f" ({reasons[each]})" if reasons.get(each) else "") for each in waits)
        text = f"it waits for {text} to be in sync; {copied}"
    else:
        text = f"all that come are in sync; it waits for the controller to take {_listed(moving.removing)} away"
    return Answer("reassignment", -1, False, f"A reassignment to {_listed(moving.targets)} is under way: {text}.")


def trouble_of(broker: int, image: MetadataImage, known: PartitionRegistration, story: PartitionStory,
               speaking: Mapping[int, Mapping[str, Any]]) -> str | None:
    """Return the reason why the controller keeps a broker out of every ISR; None without one. `speaking`: see
    `speaking_brokers`.
    """
    registered = image.brokers.get(broker)
    if registered is None:
        return "it is not registered"
    if registered.fenced:
        return f"it is fenced{_why_fenced(registered, story.left.get(broker), speaking.get(broker))}"
    if registered.in_controlled_shutdown:
        return "it is being stopped"
    if known.directory_of(broker) == LOST_DIRECTORY:
        return "the log of its replica could not be opened there; what the node logs has the cause"
    if not registered.has_online_dir(known.directory_of(broker)):
        return "the log directory of its replica failed"
    return None


def _why_fenced(broker: BrokerRegistration, left: Left | None, speaks: Mapping[str, Any] | None) -> str:
    if speaks is not None:
        text = f": its last contact with the controller was {speaks['contact_ms'] / 1000:.1f} s ago"
        if speaks["replayed"] < broker.epoch:
            return (f"{text}, but it has replayed the metadata log to {speaks['replayed']}, not to {broker.epoch}, "
                    "where it registered")
        return f"{text}, but it has not requested to be unfenced"
    if left is not None and left.text != FENCED:
        return f": it {left.text}"
    if left is not None and left.because:
        return f": {left.because}"
    return ", because it reaches no controller or has not caught up with the metadata log"


def queried_replica(cluster: Cluster, partition: Partition, broker: int, leader: int) -> Replica:
    """Return the replica as its broker reports it, compared with the leader's report."""
    try:
        answer = cluster.node(broker).send(DescribeLogDirsRequest(topics=[
            DescribableLogDirTopic(topic=partition[0], partitions=[partition[1]])]), DescribeLogDirsResponse)
        check(f"log directories of node {broker}", answer.error_code)
    except KraftError as error:
        return Replica(broker, f"it does not describe its log ({error})")
    sizes = [each.partition_size for directory in answer.results for topic in directory.topics
             for each in topic.partitions if not each.is_future_key]
    failed = [f"its log directory {each.log_dir} failed: {text_of(each.error_code)}" for each in answer.results
              if each.error_code != ErrorCode.NONE]
    if not sizes:
        return Replica(broker, "; ".join(failed) or "it has no log of the partition yet")
    try:
        of_bytes = log_sizes(cluster, leader, [partition]).get(partition, -1) if leader >= 0 else -1
    except KraftError:
        of_bytes = -1
    return Replica(broker, None, sizes[0], of_bytes, throttles(cluster, {partition: [broker]}).get(partition))


def recordings(cluster: Cluster, brokers: Iterable[int]) -> dict[int, list[Entry]]:
    """Return the entries of the flight recorders of the brokers that answer."""
    found = {}
    for broker in brokers:
        try:
            found[broker] = [parse(line) for line in of_broker(cluster, broker, CAPACITY)]
        except KraftError:      # the controller's knowledge already shows that the broker is unresponsive
            continue
    return found


def minimum(cluster: Cluster, topic: str) -> int:
    return int(setting(cluster, "topic", topic, MIN_ISR) or 1)


def _listed(ids: Iterable[int]) -> str:
    return ", ".join(map(str, ids)) or "nobody"
