"""The machine stops at any point: what was committed is present again, and what is present was decided."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

from kraft.crashes.disk import Disk, State
from kraft.crashes.run import scratch_directory
from kraft.crashes.states import killed_states, power_loss_states
from kraft.metadata.image import MetadataImage
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kraft.protocol.messages.delete_topics_request import DeleteTopicsRequest
from kraft_native.file.faults import Event, Trace
from tests.runtime.quorum.metadata_nodes import Node, formatted

SEED = 20
STATES_PER_POINT = 3
SETTINGS = {"segment_bytes": 3_000, "retention_bytes": 6_000, "retention_ms": -1, "snapshot_bytes": 1}


class History:
    """States that the node went through, by the offset after their last record."""

    def __init__(self) -> None:
        self.states: dict[int, MetadataImage] = {}

    def note(self, image: MetadataImage) -> None:
        self.states[image.offset + 1] = image.state()

    def at(self, end_offset: int) -> MetadataImage:
        """Return the state of a log that ends at `end_offset`: that of the last decision at or before it."""
        return self.states[max(known for known in self.states if known <= end_offset)]


def work(directory: Path, trace: Trace, history: History) -> None:
    """Run two lives of a node, with topics created and deleted, snapshots and a clean-up; marks record what is
    committed."""
    for life in range(2):
        with Node(directory, **SETTINGS) as node:
            node.metadata.subscribe(lambda _, image: history.note(image))
            node.join(life)
            for number in range(5):
                names = [f"t{life}-{number}-{index}" for index in range(3)]
                node.send(CreateTopicsRequest(topics=[
                    CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in names]), 7)
                trace.mark(node.log.log_end_offset)
                if number % 2:
                    node.send(DeleteTopicsRequest(topic_names=names[:2]), 5)
                    node.write_snapshot_when_due()
                    trace.mark(node.log.log_end_offset)


def crashes(disk: Disk, events: list[Event], random: Random) -> Iterator[tuple[int, str, int, State]]:
    """Yield states left by a crash after each event, with the end offset that was committed by then."""
    committed = 0
    seen: set[bytes] = set()
    for number, event in enumerate(events):
        if event.kind == "mark":
            committed = event.mark
        elif disk.feed(event):
            found = [*power_loss_states(disk, random, 3), *killed_states(disk, event, random)]
            for each in random.sample(found, min(STATES_PER_POINT, len(found))):
                if each.state.key() not in seen:
                    seen.add(each.state.key())
                    yield number, each.label, committed, each.state


def test_a_crash_anywhere_loses_nothing_that_was_committed(tmp_path: Path) -> None:
    directory = formatted(tmp_path / "node")
    history = History()
    with Node(directory) as node:
        history.note(node.controller.image)
    disk = Disk(directory)
    disk.load(directory)
    with Trace(under=directory) as trace:
        work(directory, trace, history)
    tried = 0
    with scratch_directory() as scratch:
        for number, label, committed, state in crashes(disk, trace.events(), Random(SEED)):
            with tempfile.TemporaryDirectory(dir=scratch) as name:
                state.write_to(Path(name))
                with Node(Path(name), **SETTINGS) as node:
                    first = node.log.epochs.entries()[-1][1]
                    where = f"event {number}, {label}: log ended at {first}, committed {committed}"
                    assert first >= committed, where
                    assert node.controller.image.state() == history.at(first), where
                    tried += 1
    assert tried > 200
