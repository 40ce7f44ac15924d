"""Both high watermarks against one oracle: a partition's, through random histories of its leader, and a quorum's."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kraft.protocol.messages.fetch_request import ReplicaState
from kraft_native.base.errors import InvalidArgumentError
from kraft_native.partition.watermark import majority_value
from tests.native.logs import batch
from tests.native.serving import Node
from tests.oracle.watermark import in_sync_end, majority_end

LEADER = 1
FOLLOWERS = (2, 3, 4)
SETS = st.sets(st.sampled_from(FOLLOWERS))


class WatermarkMachine(RuleBasedStateMachine):
    """The model knows where each follower's log ends, and which process of its broker reported that last."""

    @initialize(in_sync=SETS)
    def start(self, in_sync: set[int]) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="kraft-watermark-"))
        self.node = Node(self.directory)
        self.partition = self.node.partition(high_watermark="manual", leader=False)
        self.epoch = self.end = self.high_watermark = 0
        self.lead(in_sync, 1)

    @rule(in_sync=SETS, later=st.integers(0, 1))
    def lead(self, in_sync: set[int], later: int) -> None:
        """Apply metadata that repeats that this node leads, or that it leads in a new epoch."""
        self.epoch += later
        if later:
            self.ends = dict.fromkeys(FOLLOWERS, -1)
            self.processes = dict.fromkeys(FOLLOWERS, -1)
        self.in_sync = in_sync
        self.partition.become_leader(self.epoch, node_id=LEADER, replicas=[LEADER, *FOLLOWERS], isr=[LEADER, *in_sync])
        self.advance()

    @rule(in_sync=SETS, proposed=SETS)
    def change_in_sync(self, in_sync: set[int], proposed: set[int]) -> None:
        """Change the in-sync set. Between a proposal and its outcome the high watermark waits for all that may be in
        sync."""
        self.in_sync = in_sync | proposed
        self.partition.set_isr([LEADER, *in_sync], maximal=[LEADER, *self.in_sync])
        self.advance()

    @rule(count=st.integers(1, 5))
    def append(self, count: int) -> None:
        self.end = self.partition.append(batch(count)).last_offset + 1
        self.advance()

    @rule(follower=st.sampled_from(FOLLOWERS), behind=st.integers(0, 6), process=st.integers(1, 3))
    def fetch(self, follower: int, behind: int, process: int) -> None:
        offset = max(self.end - behind, 0)
        self.node.fetch(("t", 0, offset), version=17,
                        replica_state=ReplicaState(replica_id=follower, replica_epoch=process))
        if process >= self.processes[follower]:
            self.ends[follower], self.processes[follower] = offset, process
            self.advance()

    def advance(self) -> None:
        reached = in_sync_end(self.end, [self.ends[follower] for follower in self.in_sync])
        self.high_watermark = max(self.high_watermark, reached)

    @invariant()
    def it_is_where_all_in_sync_replicas_are(self) -> None:
        if hasattr(self, "partition"):
            assert self.partition.high_watermark == self.high_watermark
            assert [self.partition.broker_epoch_of(follower) for follower in FOLLOWERS] == list(self.processes.values())
            assert self.partition.progress.followers() == {
                follower: (self.ends[follower], follower in self.in_sync) for follower in FOLLOWERS}

    def teardown(self) -> None:
        if hasattr(self, "node"):
            self.node.close()
            shutil.rmtree(self.directory)
            vars(self).clear()


TestWatermarkMachine = WatermarkMachine.TestCase
TestWatermarkMachine.settings = settings(max_examples=60, stateful_step_count=40, derandomize=True, deadline=None,
                                         suppress_health_check=list(HealthCheck))


@given(st.lists(st.integers(-1, 20) | st.integers(-2**63, 2**63 - 1), min_size=1, max_size=40))
def test_a_quorum_commits_what_a_majority_reaches(ends: list[int]) -> None:
    before = list(ends)
    assert majority_value(ends) == majority_end(ends)
    assert ends == before


def test_values_without_a_majority() -> None:
    with pytest.raises(InvalidArgumentError, match="values"):
        majority_value([])
    with pytest.raises(OverflowError):
        majority_value([0] * 20 + [2**63])
    with pytest.raises(TypeError):
        majority_value(["0"])  # type: ignore[list-item]
