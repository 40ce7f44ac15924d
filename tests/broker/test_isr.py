"""The in-sync replicas as a leader keeps them: proposals, their outcomes, the maximal set."""

from typing import Any
from uuid import UUID

import pytest

from kraft.broker.isr import CHECKED_STEP, CHECKS_WITHOUT_NEWS, PROPOSALS_MAX, RETRY_MS, IsrKeeper, Key
from kraft.deadlines import NEVER_MS
from kraft.metadata.image import PartitionRegistration
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.alter_partition_request import AlterPartitionRequest
from kraft.protocol.messages.alter_partition_response import AlterPartitionResponse, PartitionData, TopicData
from kraft.recorder.replica_words import described

TOPIC = UUID(int=77)
KEY: Key = (TOPIC, 0)
EPOCHS = {1: 10, 2: 20, 3: 30}


class Led:
    """A partition: the last sets that it was given, and the replicas that lag."""

    def __init__(self) -> None:
        self.isr: tuple[int, ...] = ()
        self.maximal: tuple[int, ...] = ()
        self.lags: list[int] = []

    def set_isr(self, isr: tuple[int, ...], maximal: tuple[int, ...] | None = None) -> None:
        self.isr, self.maximal = isr, isr if maximal is None else maximal

    def lagging(self, lag_max_ms: int) -> list[int]:
        assert lag_max_ms == 500
        return self.lags

    def broker_epoch_of(self, node_id: int) -> int:
        return EPOCHS[node_id]


class Bench:
    def __init__(self, isr: tuple[int, ...] = (1, 2)) -> None:
        self.requested: list[AlterPartitionRequest] = []
        self.active = dict(EPOCHS)
        self.recorded: list[tuple[str, dict[str, object]]] = []
        self.keeper = IsrKeeper(1, self.requested.append, self.active.get,
                                lambda _key, event: self.recorded.append(described(event)))
        self.led = Led()
        self.keeper.lead(KEY, self.led, registration(isr))

    def answer(self, isr: tuple[int, ...] = (), partition_epoch: int = 6, error: ErrorCode = ErrorCode.NONE,
               leader_epoch: int = 3, now_ms: int = 0) -> None:
        self.keeper.answered(AlterPartitionResponse(topics=[TopicData(topic_id=TOPIC, partitions=[PartitionData(
            partition_index=0, error_code=error, isr=isr, leader_epoch=leader_epoch,
            partition_epoch=partition_epoch)])]), now_ms)

    def proposed(self, number: int = -1) -> tuple[int, list[tuple[int, int]]]:
        """Return the partition epoch that a request is based on, and its set with broker epochs."""
        [part] = self.requested[number].topics[0].partitions
        return part.partition_epoch, [(each.broker_id, each.broker_epoch) for each in part.new_isr_with_epochs]


def registration(isr: tuple[int, ...], partition_epoch: int = 5, leader_epoch: int = 3) -> PartitionRegistration:
    return PartitionRegistration((1, 2, 3), (TOPIC,) * 3, isr, 1, leader_epoch, partition_epoch)


def test_a_caught_up_replica_counts_once_it_is_proposed() -> None:
    bench = Bench()
    assert bench.keeper.caught_up(KEY, 3)
    assert bench.proposed() == (5, [(1, 10), (2, 20), (3, 30)])
    assert (bench.led.isr, bench.led.maximal) == ((1, 2), (1, 2, 3))
    bench.answer((1, 2, 3))
    assert (bench.led.isr, bench.led.maximal) == ((1, 2, 3), (1, 2, 3))


def test_a_lagging_replica_counts_until_the_controller_removes_it() -> None:
    bench = Bench()
    bench.led.lags = [2]
    bench.keeper.drop_lagging(500)
    assert bench.proposed() == (5, [(1, 10)])
    assert bench.led.maximal == (1, 2)
    bench.answer((1,))
    assert bench.led.maximal == (1,)
    assert (bench.keeper.shrinks_total, bench.keeper.expands_total) == (1, 0)


def test_a_lagging_replica_does_not_replace_a_pending_proposal() -> None:
    """A second proposal would forget the first; until the controller answers both sets may be in force (KIP-497)."""
    bench = Bench()
    assert bench.keeper.caught_up(KEY, 3)
    bench.led.lags = [2]
    bench.keeper.drop_lagging(500)
    assert bench.led.maximal == (1, 2, 3)
    assert len(bench.requested) == 1
    bench.answer((1, 2, 3))
    assert bench.led.isr == (1, 2, 3)
    bench.keeper.drop_lagging(500)
    assert bench.proposed() == (6, [(1, 10), (3, 30)])


def test_one_request_at_a_time_and_then_all_that_waits() -> None:
    bench = Bench((1,))
    other = Led()
    bench.keeper.lead((TOPIC, 1), other, registration((1,)))
    assert bench.keeper.caught_up(KEY, 2) and bench.keeper.caught_up((TOPIC, 1), 3)
    assert not bench.keeper.caught_up(KEY, 3), "not now: a proposal is under way"
    assert len(bench.requested) == 1
    bench.answer((1, 2))
    assert [part.partition_index for part in bench.requested[1].topics[0].partitions] == [1]


@pytest.mark.parametrize("change", ["fenced", "another process"])
def test_a_broker_that_is_fenced_or_stopping_is_not_proposed(change: str) -> None:
    bench = Bench()
    if change == "fenced":
        del bench.active[3]
    else:
        bench.active[3] = 31
    assert not bench.keeper.caught_up(KEY, 3)
    assert bench.requested == []


@pytest.mark.parametrize("error", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
def test_a_final_refusal_withdraws_the_proposal(error: ErrorCode) -> None:
    bench = Bench()
    bench.keeper.caught_up(KEY, 3)
    bench.answer(error=error)
    assert bench.led.maximal == (1, 2)


def test_a_proposal_that_a_controller_on_this_node_refuses_at_once_is_repeated_later() -> None:
    """The partition repeats the question at the follower's next Fetch only while the answer is False. A refusal wakes
    the Fetch that waits, so another proposal at once would go round indefinitely."""
    bench = Bench()
    outcomes = [(ErrorCode.INELIGIBLE_REPLICA, (1, 2)), (ErrorCode.NONE, (1, 2, 3))]

    def decide(_request: AlterPartitionRequest) -> None:
        error, isr = outcomes.pop(0)
        bench.answer(isr, error=error)

    keeper = IsrKeeper(1, decide, bench.active.get)
    bench.keeper = keeper
    keeper.lead(KEY, bench.led, registration((1, 2)))
    assert not keeper.caught_up(KEY, 3)
    assert (bench.led.maximal, keeper.deadline_ms) == ((1, 2), RETRY_MS)
    keeper.tick(RETRY_MS - 1)
    assert not keeper.caught_up(KEY, 3)
    assert len(outcomes) == 1
    keeper.tick(RETRY_MS)
    assert keeper.caught_up(KEY, 3)
    assert bench.led.isr == (1, 2, 3)


@pytest.mark.parametrize("error", [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INVALID_UPDATE_VERSION])
def test_with_an_unknown_outcome_both_sets_count_until_the_metadata_decides(error: ErrorCode) -> None:
    bench = Bench()
    bench.keeper.caught_up(KEY, 3)
    bench.answer(error=error)
    assert (bench.led.maximal, len(bench.requested), bench.keeper.deadline_ms) == ((1, 2, 3), 1, NEVER_MS)
    bench.keeper.lead(KEY, bench.led, registration((1, 2), partition_epoch=7))
    assert bench.keeper.caught_up(KEY, 3)
    assert bench.proposed()[0] == 7


@pytest.mark.parametrize("outcome", [{"error": ErrorCode.INVALID_REQUEST}, {"error": ErrorCode.INVALID_UPDATE_VERSION},
                                     {"isr": (1, 2), "partition_epoch": 4}])
def test_a_proposal_that_the_metadata_does_not_decide_is_sent_again(outcome: dict[str, Any]) -> None:
    """A replica must not stay out of sync indefinitely, whatever the controller meant."""
    bench = Bench()
    bench.keeper.caught_up(KEY, 3)
    for sent in (1, 2):
        bench.answer(**outcome)
        for _ in range(CHECKS_WITHOUT_NEWS):
            assert len(bench.requested) == sent
            bench.keeper.drop_lagging(500)
        assert bench.proposed(sent) == bench.proposed(0)
    bench.answer((1, 2, 3))
    assert (bench.led.isr, bench.led.maximal) == ((1, 2, 3), (1, 2, 3))
    for _ in range(CHECKS_WITHOUT_NEWS):
        bench.keeper.drop_lagging(500)
    assert len(bench.requested) == 3


@pytest.mark.parametrize("error", [ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
def test_a_controller_that_does_not_know_the_partition_gets_the_request_again(error: ErrorCode) -> None:
    """A controller that was replaced without its knowledge does not know a topic that its successor created."""
    bench = Bench()
    bench.keeper.caught_up(KEY, 3)
    bench.answer(error=error)
    assert bench.led.maximal == (1, 2, 3)
    bench.keeper.tick(bench.keeper.deadline_ms)
    assert bench.proposed(1) == bench.proposed(0)
    bench.answer(error=error)
    bench.keeper.resign(KEY)                       # the metadata says that it is deleted
    bench.keeper.tick(bench.keeper.deadline_ms)
    assert len(bench.requested) == 2


def test_without_an_outcome_the_request_is_repeated() -> None:
    bench = Bench()
    bench.keeper.caught_up(KEY, 3)
    bench.keeper.answered(AlterPartitionResponse(error_code=ErrorCode.REQUEST_TIMED_OUT), 1000)
    assert bench.led.maximal == (1, 2, 3)
    bench.keeper.tick(bench.keeper.deadline_ms - 1)
    assert len(bench.requested) == 1
    bench.keeper.tick(bench.keeper.deadline_ms)
    assert bench.proposed(1) == bench.proposed(0)


def test_the_answer_may_come_before_the_metadata_and_the_next_proposal_too() -> None:
    bench = Bench((1,))
    bench.keeper.caught_up(KEY, 2)
    bench.answer((1, 2))
    bench.keeper.caught_up(KEY, 3)
    recorded = registration((1, 2), partition_epoch=6)
    assert bench.keeper.knows_newer(KEY, registration((1,)))
    assert not bench.keeper.knows_newer(KEY, recorded)
    assert bench.keeper.maximal(KEY, recorded) == (1, 2, 3)
    bench.keeper.lead(KEY, bench.led, recorded)
    assert (bench.led.isr, bench.led.maximal) == ((1, 2), (1, 2, 3))
    bench.answer((1, 2, 3), partition_epoch=7)
    assert bench.led.isr == (1, 2, 3)


def test_an_answer_of_an_earlier_leadership_changes_nothing() -> None:
    bench = Bench()
    bench.keeper.caught_up(KEY, 3)
    later = Led()
    bench.keeper.resign(KEY)
    bench.keeper.lead(KEY, later, registration((1, 2), leader_epoch=5, partition_epoch=9))
    bench.answer((1, 2, 3))
    assert later.isr == ()


def test_an_unclean_leader_says_that_its_log_is_whole() -> None:
    bench = Bench()
    unclean = PartitionRegistration((1, 2, 3), (TOPIC,) * 3, (1,), 1, 4, 8, leader_recovery_state=1)
    bench.keeper.lead(KEY, bench.led, unclean)
    bench.keeper.recovered(KEY)
    [part] = bench.requested[0].topics[0].partitions
    assert (part.leader_recovery_state, [each.broker_id for each in part.new_isr_with_epochs]) == (0, [1])


def test_the_flight_recorder_receives_each_proposal_and_its_outcome() -> None:
    bench = Bench()
    bench.keeper.caught_up(KEY, 3)
    bench.answer(error=ErrorCode.INELIGIBLE_REPLICA)
    wanted = {"epoch": 3, "isr": [1, 2], "proposed": [1, 2, 3], "because": "broker 3 has everything"}
    assert bench.recorded == [("proposes isr", wanted),
                              ("isr refused", {"epoch": 3, "proposed": [1, 2, 3], "because": "INELIGIBLE_REPLICA"})]
    bench.recorded.clear()
    bench.active[3] = 31
    bench.keeper.caught_up(KEY, 3)
    del bench.active[3]
    bench.keeper.caught_up(KEY, 3)
    assert bench.recorded == [
        ("does not propose", {"epoch": 3, "replica": 3, "because": (
            "its broker fetched in broker epoch 30, and the metadata has 31")}),
        ("does not propose", {"epoch": 3, "replica": 3, "because": (
            "its broker is not registered, or is fenced or stopping")})]
    bench.recorded.clear()
    bench.led.lags = [2]
    bench.keeper.drop_lagging(500)
    bench.keeper.answered(AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER), 0)
    bench.keeper.tick(bench.keeper.deadline_ms)
    bench.answer((1,))
    assert bench.recorded == [
        ("proposes isr", {"epoch": 3, "isr": [1, 2], "proposed": [1],
                          "because": "not all had everything at some time in the last 500 ms"}),
        ("isr unanswered", {"epoch": 3, "proposed": [1], "because": "NOT_CONTROLLER"}),
        ("isr decided", {"epoch": 3, "isr": [1]})]


def test_the_metadata_may_contain_the_outcome_before_the_answer() -> None:
    bench = Bench()
    bench.keeper.caught_up(KEY, 3)
    bench.keeper.lead(KEY, bench.led, registration((1, 2, 3), partition_epoch=6))
    bench.keeper.lead(KEY, bench.led, registration((1, 2), partition_epoch=7))
    assert bench.recorded[1:] == [("isr decided", {"epoch": 3, "isr": [1, 2, 3]})], "the second was decided by others"


def with_many(count: int) -> tuple[Bench, list[Led]]:
    """A keeper of that many partitions, with one follower each."""
    bench = Bench(isr=(1,))
    led = [Led() for _ in range(count)]
    for index, each in enumerate(led):
        bench.keeper.lead((TOPIC, 1 + index), each, registration((1, 2)))
    return bench, led


def test_a_request_has_a_bounded_number_of_proposals() -> None:
    bench, led = with_many(2 * PROPOSALS_MAX + 10)
    for each in led:
        each.lags = [2]
    bench.keeper.drop_lagging(500)
    sizes = []
    while len(bench.requested) > len(sizes):
        parts = bench.requested[-1].topics[0].partitions
        sizes.append(len(parts))
        bench.keeper.answered(AlterPartitionResponse(topics=[TopicData(topic_id=TOPIC, partitions=[PartitionData(
            partition_index=part.partition_index, isr=(1,), leader_epoch=3, partition_epoch=6) for part in parts])]), 0)
    assert sizes == [1, PROPOSALS_MAX, PROPOSALS_MAX, 9]
    assert all(each.isr == each.maximal == (1,) for each in led)


def test_followers_are_checked_in_bounded_steps() -> None:
    bench, led = with_many(5 * CHECKED_STEP)
    checked: list[int] = []
    for number, each in enumerate(led):
        each.lagging = lambda _lag_ms, number=number: checked.append(number) or []  # type: ignore[method-assign, misc]
    seen = 0
    for _ in bench.keeper.drop_lagging_steps(500):
        assert len(checked) - seen <= CHECKED_STEP
        seen = len(checked)
        bench.keeper.resign((TOPIC, 5 * CHECKED_STEP))         # the last one, which is not checked any more
    assert checked == list(range(5 * CHECKED_STEP - 1))
