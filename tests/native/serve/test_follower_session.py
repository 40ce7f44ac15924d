"""A follower's session checks only partitions that moved. It reports the same as one that checks every partition
each time."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft.protocol.messages.fetch_request import FetchPartition, ForgottenTopic, ReplicaState
from kraft_native.request.reply import Reply
from kraft_native.serve.fetch import FetchHandler
from kraft_native.serve.fetch_session import SessionCache
from tests.native.logs import batch
from tests.native.serving import Node, fetch_response, serving, topic_id_of

VERSION = 14           # the last one in which a request names its replica in a plain field
REPLICA = 2
COUNT = 3
FOR_EVER_MS = 1 << 40

Step = tuple[str, int]


class Followed:
    """A leader of `COUNT` partitions with the replicas 1, 2 and 3, and replica 2's session with it."""

    def __init__(self, node: Node, upkeep_ms: int, **handler: bool) -> None:
        self.node = node
        node.sessions = SessionCache(upkeep_ms=upkeep_ms)
        node.fetch_handler = FetchHandler(node.table, node.sessions, **handler)
        self.epochs = [0] * COUNT
        self.offsets = [0] * COUNT
        self.fetched_from = [0] * COUNT
        self.waiting: Reply | None = None
        self.replies: list[object] = []
        for index in range(COUNT):
            self.add(index)
        response = fetch_response(self.request(range(COUNT), session_epoch=0))
        self.session_id, self.epoch = response.session_id, 1

    def add(self, index: int) -> None:
        partition = self.node.partition("t", index, leader=False, high_watermark="manual")
        partition.become_leader(self.epochs[index], node_id=1, replicas=(1, 2, 3), isr=(1, 2, 3))

    def request(self, indexes: Iterator[int] | range | list[int], **fields: object) -> Reply:
        parts = [("t", FetchPartition(partition=index, fetch_offset=self.offsets[index],
                                      current_leader_epoch=self.epochs[index], partition_max_bytes=100))
                 for index in indexes]
        self.fetched_from = list(self.offsets)
        return self.node.fetch(*parts, version=VERSION, replica_id=REPLICA, **fields)  # type: ignore[arg-type]

    def fetch(self, max_wait_ms: int, forget: int = -1, max_bytes: int = 1 << 20) -> None:
        """Fetch, naming the partitions that moved since the last request, as a follower does."""
        named = [index for index in range(COUNT) if self.offsets[index] != self.fetched_from[index]]
        forgotten = [] if forget < 0 else [ForgottenTopic(topic_id=UUID(bytes=topic_id_of("t")), partitions=[forget])]
        self.waiting = self.request(named, session_id=self.session_id, session_epoch=self.epoch,
                                    max_wait_ms=max_wait_ms, forgotten_topics_data=forgotten, max_bytes=max_bytes)
        self.epoch += 1
        self.take()

    def take(self) -> None:
        """Process the reply, if one came; the follower then has its records."""
        self.node.purgatory.drain()
        if self.waiting is None or self.waiting.parts is None:
            return
        response = fetch_response(self.waiting)
        self.replies.append((response.error_code, sorted(
            (part.partition_index, part.error_code, part.high_watermark, part.log_start_offset, part.records or b"")
            for topic in response.responses for part in topic.partitions)))
        for topic in response.responses:
            for part in topic.partitions:
                if part.records:
                    self.offsets[part.partition_index] += 1
        self.waiting = None

    def do(self, what: str, index: int) -> None:
        partition = self.node.table.get("t", index)
        if what == "append" and partition is not None and partition.is_leader:
            partition.append(batch())
        elif what == "other" and partition is not None:
            self.node.fetch(("t", FetchPartition(partition=index, fetch_offset=partition.log.log_end_offset)),
                            version=VERSION, replica_id=3)
        elif what == "lead" and partition is not None:
            self.epochs[index] += 1
            partition.become_leader(self.epochs[index], node_id=1, replicas=(1, 2, 3), isr=(1, 2))
        elif what == "resign" and partition is not None:
            partition.become_follower(partition.leader_epoch, 3)
        elif what == "delete" and partition is not None and partition.is_leader:
            partition.delete_records(-1)
        elif what == "remove" and partition is not None:
            self.node.table.remove("t", index)
        if what in ("fetch", "wait", "forget"):
            if self.waiting is None:
                self.fetch(1000 if what == "wait" else 0, index if what == "forget" else -1)
        else:
            self.take()
        if what == "expire":
            self.node.purgatory.expire(1 << 50)
            self.take()


@contextmanager
def followed(directory: Path, upkeep_ms: int, **handler: bool) -> Iterator[Followed]:
    with serving(directory) as node, ExitStack() as logs:
        made = Followed(node, upkeep_ms, **handler)
        for partition in node.table:
            logs.callback(partition.log.close)
        yield made


STEPS = st.tuples(st.sampled_from(("append", "append", "append", "other", "other", "fetch", "fetch", "wait", "wait",
                                   "expire", "lead", "resign", "delete", "remove", "forget")),
                  st.integers(0, COUNT - 1))


@settings(max_examples=60, derandomize=True, deadline=None)
@given(steps=st.lists(STEPS, max_size=40), by_rack=st.booleans())
def test_it_returns_the_same_as_one_that_reads_everything(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Step], by_rack: bool,
) -> None:
    with (followed(tmp_path_factory.mktemp("quick"), FOR_EVER_MS, by_rack=by_rack) as quick,
          followed(tmp_path_factory.mktemp("plain"), 0, by_rack=by_rack) as plain):
        for what, index in [*steps, ("expire", 0), ("fetch", 0), ("fetch", 0)]:
            quick.do(what, index)
            plain.do(what, index)
        assert quick.offsets == plain.offsets
        assert quick.replies == plain.replies


def epochs_seen(made: Followed) -> list[int]:
    return [made.node.table.get("t", index).broker_epoch_of(REPLICA)  # type: ignore[union-attr]
            for index in range(COUNT)]


@pytest.mark.parametrize(("upkeep_ms", "seen"), [(FOR_EVER_MS, [-1, 7, -1]), (0, [7, 7, 7])])
def test_a_request_looks_at_what_moved_and_now_and_then_at_all(tmp_path: Path, upkeep_ms: int, seen: list[int]) -> None:
    with followed(tmp_path, upkeep_ms) as made:
        made.fetch(0)
        made.node.table.get("t", 1).append(batch())  # type: ignore[union-attr]
        # A process with another broker epoch continues the session: each partition that is checked learns of it.
        reply = made.node.fetch(version=17, replica_state=ReplicaState(replica_id=REPLICA, replica_epoch=7),
                                session_id=made.session_id, session_epoch=made.epoch)
        assert [part.partition_index for part in fetch_response(reply).responses[0].partitions] == [1]
        assert epochs_seen(made) == seen


def test_partitions_that_do_not_fit_come_with_the_next_answers(tmp_path: Path) -> None:
    with followed(tmp_path, FOR_EVER_MS) as made:
        for index in range(COUNT):
            made.do("append", index)
        for _ in range(COUNT):
            made.fetch(0, max_bytes=10)
        assert made.offsets == [1] * COUNT


def test_nothing_observes_after_the_session(tmp_path: Path) -> None:
    with followed(tmp_path, FOR_EVER_MS) as made:
        made.request([], session_id=made.session_id, session_epoch=-1)
        assert len(made.node.sessions) == 0
        made.node.table.get("t", 1).append(batch())  # type: ignore[union-attr]
        made.node.purgatory.drain()
