"""The metadata machine of a node: replay in steps, and the start of its controller after them."""

from collections.abc import Generator, Iterator, Sequence
from itertools import count
from uuid import UUID

import pytest

from kraft.controller import machine
from kraft.controller.commit import QuorumState
from kraft.controller.config_rules import TableRules
from kraft.controller.decision import STEP, ControllerSettings
from kraft.controller.machine import RECORDS_PER_IMAGE_MIN, CommittedRecord, MetadataMachine
from kraft.metadata.delta import COMPARED_STEP, MetadataDelta
from kraft.metadata.errors import MetadataLogError
from kraft.metadata.image import MetadataImage
from kraft.metadata.snapshot import REPLAYED_STEP, SnapshotContent, image_records
from kraft.protocol.message import Message
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kraft.protocol.messages.partition_record import PartitionRecord
from kraft.protocol.messages.topic_record import TopicRecord
from kraft.protocol.record_frames import decode_record
from kraft.steps import finish
from tests.controller.world import CLUSTER, LATEST_VERSION, World

DIRECTORY = UUID(int=0)


class ListMachine(MetadataMachine):
    """A machine on a list of batches. Its replay runs step by step, as the test says."""

    def __init__(self) -> None:
        self.batches: list[list[Message | None]] = []
        self.work: list[Generator[None]] = []
        self.received: list[tuple[int, int]] = []       # created partitions, offset of the image
        ids = count(1)
        super().__init__(ControllerSettings(1, CLUSTER, idle_interval_ms=0), TableRules({}),
                         lambda: UUID(int=next(ids)), lambda: 1_000, None)
        self.run_replay = self.work.append
        self.subscribe(self.receive)

    def receive(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self.received.append((len(list(delta.partition_changes())), image.offset))

    def read(self, offset: int, end_offset: int) -> Iterator[CommittedRecord]:
        at = 0
        for batch in self.batches:
            for number, message in enumerate(batch, 1):
                if offset <= at < end_offset:
                    yield CommittedRecord(at, 1, 0, message, number == len(batch))
                at += 1

    @property
    def end_offset(self) -> int:
        return sum(map(len, self.batches))

    def append(self, payloads: Sequence[bytes], now_ms: int) -> int:
        self.batches.append([decode_record(payload)[0] for payload in payloads])
        return self.end_offset - 1

    def describe_quorum(self, now_ms: int) -> QuorumState:
        return QuorumState(1, 1, self.end_offset, ())

    def step(self) -> bool:
        """Run one step of the replay; return whether work remains."""
        try:
            next(self.work[0])
        except StopIteration:
            self.work.pop(0)
        return bool(self.work)

    def finish(self) -> None:
        while self.step():
            pass


def loaded(image: MetadataImage) -> Generator[None, None, MetadataImage]:
    """Steps of a snapshot that is read already."""
    yield from ()
    return image


def topic(number: int, partitions: int) -> list[Message | None]:
    return [TopicRecord(name=f"t{number}", topic_id=UUID(int=1_000 + number)), *(
        PartitionRecord(partition_id=index, topic_id=UUID(int=1_000 + number), replicas=[1], isr=[1], leader=1,
                        directories=[DIRECTORY]) for index in range(partitions))]


def test_a_commit_of_many_records_is_replayed_in_bounded_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    follower = ListMachine()
    follower.batches.append(topic(1, 10_000))
    replayed = [0]
    original = MetadataDelta.replay

    def replay(delta: MetadataDelta, record: object) -> None:
        replayed[0] += 1
        original(delta, record)

    monkeypatch.setattr(MetadataDelta, "replay", replay)
    follower.committed(10_001)
    assert follower.is_behind and replayed == [0]
    steps = 0
    while follower.work:
        assert follower.image.offset == -1 and not follower.received
        replayed[0] = 0
        follower.step()
        assert replayed[0] <= STEP
        steps += 1
    assert steps > 10_000 // STEP
    assert follower.received == [(10_000, 10_000)] and not follower.is_behind
    assert follower.image.partition("t1", 9_999) is not None


def test_the_image_changes_at_the_end_of_a_batch_only() -> None:
    """Large batches give an image each, so that the first partitions of many have their leaders soon."""
    follower = ListMachine()
    follower.batches += [topic(number, RECORDS_PER_IMAGE_MIN + number) for number in range(3)] + [[None]]
    ends = [1_001, 2_003, 3_006, 3_007]
    follower.committed(ends[-1])
    while follower.work:
        follower.step()
        assert follower.image.offset + 1 in (0, *ends)
    assert follower.received == [(1_000, 1_000), (1_001, 2_002), (1_002, 3_005), (0, 3_006)]


def test_small_batches_share_an_image() -> None:
    follower = ListMachine()
    follower.batches += [topic(number, 1) for number in range(100)]
    follower.committed(200)
    follower.finish()
    assert follower.received == [(100, 199)]


def test_the_high_watermark_may_rise_between_two_steps() -> None:
    follower = ListMachine()
    follower.batches += [topic(1, 500), topic(2, 500)]
    follower.committed(501)
    follower.step()
    follower.committed(1_002)
    assert len(follower.work) == 1
    follower.finish()
    assert follower.received == [(500, 500), (500, 1_001)]


@pytest.mark.parametrize("late", [False, True])
def test_a_controller_starts_when_the_replay_is_done(late: bool) -> None:
    """`late`: the node learns that it leads before the first record of its epoch is committed."""
    leader = ListMachine()
    changes: list[bool] = []
    leader.on_change = lambda: changes.append(leader.controller.active)
    leader.batches += [topic(1, 500), [None]]
    leader.committed(501)
    leader.step()
    if late:
        leader.led(2, 501, leads=True)
        leader.committed(502)
    else:
        leader.committed(502)
        leader.led(2, 501, leads=True)
    assert not leader.controller.active and changes == [False]
    leader.finish()
    assert leader.controller.active and changes == [False, True]
    assert leader.controller.decided.partition("t1", 499) is not None


def test_a_node_that_leads_no_more_continues_with_the_replay() -> None:
    node = ListMachine()
    node.batches += [[None], topic(1, 300)]
    node.led(1, 0, leads=True)
    node.committed(1)
    node.finish()
    assert node.controller.active
    node.batches.insert(1, topic(2, 300))     # of the next leader
    node.led(2, 1, leads=False)
    node.committed(302)
    assert not node.controller.active
    node.step()
    node.led(3, 302, leads=True)
    node.finish()
    assert not node.controller.active and node.image.topic("t2") is not None
    node.committed(603)
    node.finish()
    assert node.controller.active


def test_a_snapshot_ends_the_replay() -> None:
    follower, other = ListMachine(), ListMachine()
    other.batches += [topic(1, 300), topic(2, 1)]
    other.committed(303)
    other.finish()
    follower.batches += other.batches
    follower.committed(301)
    follower.step()
    follower.load(loaded(other.image))
    follower.finish()
    assert follower.received == [(301, 302)] and not follower.is_behind
    follower.batches.append(topic(3, 1))
    follower.committed(305)
    follower.finish()
    assert follower.received == [(301, 302), (1, 304)]


def test_a_snapshot_is_loaded_in_bounded_steps_and_appears_at_once() -> None:
    follower, other = ListMachine(), ListMachine()
    other.batches += [topic(number, 299) for number in range(5)] + [topic(9, 1)]
    other.committed(1_500)
    other.finish()
    follower.batches += other.batches
    follower.committed(300)
    follower.finish()
    content = SnapshotContent(0, messages=list(image_records(other.image)))
    before, steps = follower.image, 0
    follower.load(content.image_steps(1_500, 1))
    follower.committed(1_502)                # waits for the snapshot
    while follower.is_behind and follower.image is before:
        follower.step()
        steps += 1
    assert steps > 1_500 // REPLAYED_STEP + 1_500 // COMPARED_STEP
    assert follower.image.offset == 1_499 and follower.received == [(299, 299), (4 * 299, 1_499)]
    follower.finish()
    assert follower.received[2:] == [(1, 1_501)] and not follower.is_behind
    assert follower.image.state() == other_with_all(other).state()


def other_with_all(other: ListMachine) -> MetadataImage:
    other.committed(1_502)
    other.finish()
    return other.image


def test_another_snapshot_may_come_while_one_is_loaded() -> None:
    follower, other = ListMachine(), ListMachine()
    other.batches += [topic(1, 300), topic(2, 300)]
    contents = []
    for end_offset in (301, 602):
        other.committed(end_offset)
        other.finish()
        contents.append(SnapshotContent(0, messages=list(image_records(other.image))))
    follower.batches += other.batches
    follower.load(contents[0].image_steps(301, 1))
    follower.step()
    follower.load(contents[1].image_steps(602, 1))
    follower.finish()
    assert follower.received == [(600, 601)] and not follower.is_behind


def test_a_contradiction_in_a_later_step_is_raised() -> None:
    follower = ListMachine()
    follower.batches.append([*topic(1, 2 * STEP), *topic(1, 1)])
    follower.committed(2 * STEP + 3)
    with pytest.raises(MetadataLogError, match="exists"):
        follower.finish()
    assert machine.RECORDS_PER_IMAGE_MIN > STEP and follower.image.offset == -1

def test_an_error_that_ends_a_decision_half_way_is_reported() -> None:
    """All later requests stay unanswered, and the caller may keep the error: the node must learn of it."""
    world = World()
    failures: list[BaseException] = []
    world.controller.on_failure = failures.append

    def append(_payloads: object, _now_ms: int) -> int:
        raise RuntimeError("the log is closed")

    world.join(1)
    world.log.append = append  # type: ignore[method-assign]
    request = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])
    with pytest.raises(RuntimeError, match="the log is closed"):
        world.controller.submit(request, LATEST_VERSION, world.now_ms, pytest.fail)
    assert [str(failure) for failure in failures] == ["the log is closed"]
    assert world.controller.is_working


def test_the_controller_of_a_machine_reports_its_errors() -> None:
    made = ListMachine()
    failures: list[BaseException] = []
    made.on_failure = failures.append
    made.led(1, 0, leads=True)
    made.batches.append([None])
    made.committed(1)
    for work in made.work:
        finish(work)
    assert made.controller.active
    made.controller.on_failure(RuntimeError("reported"))
    assert len(failures) == 1
