"""Share coordinator: receives requests about states of share partitions, and answers them, with one shard per partition
of `__share_group_state`.

The driver does what `kraft.broker.transactions.coordinator` describes, without markers. It removes the records that
`prune` names, and reports deleted topics with `topics_deleted`. Each partition of a request has its own result, in the
order of the request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final
from uuid import UUID

from kraft.broker.coordinator.answer import Answer, RequestContext
from kraft.broker.coordinator.coordinator import Coordinator, Handlers, Respond
from kraft.broker.coordinator.gather import Gather
from kraft.broker.coordinator.shard import AppendPort, Shard
from kraft.broker.coordinator.shards import Shards
from kraft.broker.share_state.batches import NO_OFFSET
from kraft.broker.share_state.config import ShareCoordinatorConfig
from kraft.broker.share_state.responses import ANSWERS, is_empty, refused_partition
from kraft.broker.share_state.shard import NEGATIVE_PARTITION, Environment, LogPruning, ShareStateShard, TopicView
from kraft.broker.share_state.state import ShareKey
from kraft.broker.share_state.upkeep import forget_topics
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.delete_share_group_state_request import DeleteShareGroupStateRequest
from kraft.protocol.messages.initialize_share_group_state_request import InitializeShareGroupStateRequest
from kraft.protocol.messages.read_share_group_state_request import ReadShareGroupStateRequest
from kraft.protocol.messages.read_share_group_state_response import PartitionResult as ReadResult
from kraft.protocol.messages.read_share_group_state_response import StateBatch as ReadBatch
from kraft.protocol.messages.read_share_group_state_summary_request import ReadShareGroupStateSummaryRequest
from kraft.protocol.messages.read_share_group_state_summary_response import PartitionResult as SummaryResult
from kraft.protocol.messages.write_share_group_state_request import WriteShareGroupStateRequest

Act = Callable[[ShareStateShard, ShareKey, Any], Any]
"""Decision about a share partition and what a request says of it. It returns the partition's result."""
OWN_CONTEXT: Final = RequestContext(WriteShareGroupStateRequest.VERSIONS[-1])
"""Context of requests of this node itself."""


class ShareCoordinator(Coordinator[ShareStateShard]):
    """Coordinator that serves InitializeShareGroupState, ReadShareGroupState, WriteShareGroupState,
    DeleteShareGroupState and ReadShareGroupStateSummary in the versions of their schemas."""

    def __init__(self, config: ShareCoordinatorConfig, port: AppendPort, topics: TopicView, prune: LogPruning) -> None:
        self._environment = Environment(config, topics, prune)
        self.write_total = 0
        """Partitions of WriteShareGroupState requests since the start."""
        super().__init__(Shards(port, self._make_shard, config.commit_timeout_ms))

    def _make_handlers(self) -> Handlers:
        return {
            InitializeShareGroupStateRequest: partial(self._serve, _initialize),
            ReadShareGroupStateRequest: partial(self._serve, _read),
            WriteShareGroupStateRequest: partial(self._serve, _write),
            DeleteShareGroupStateRequest: partial(self._serve, _delete),
            ReadShareGroupStateSummaryRequest: partial(self._serve, _summarize),
        }

    def _make_shard(self, shard: Shard) -> ShareStateShard:
        return ShareStateShard(shard, self._environment)

    @property
    def config(self) -> ShareCoordinatorConfig:
        """Settings; assign new ones to change them at runtime. Running timers are not changed."""
        return self._environment.config

    @config.setter
    def config(self, config: ShareCoordinatorConfig) -> None:
        self._environment.config = config

    def topics_deleted(self, topic_ids: Iterable[UUID], now_ms: int) -> None:
        """Delete the states of deleted topics, in later ticks."""
        deleted = tuple(topic_ids)
        for _, state in self.shards.active(now_ms):
            forget_topics(state, deleted)

    def _serve(self, act: Act, request: Any, context: RequestContext, respond: Respond, now_ms: int) -> None:
        answers = ANSWERS[request.API_KEY]
        if is_empty(request):
            respond(answers.response())
            return
        if act is _write:
            self.write_total += sum(len(topic.partitions) for topic in request.topics)

        def done(results: list[Any]) -> None:
            left = iter(results)
            respond(answers.response(results=[
                answers.topic(topic_id=topic.topic_id, partitions=[next(left) for _ in topic.partitions])
                for topic in request.topics]))

        gather: Gather[Any] = Gather(sum(len(topic.partitions) for topic in request.topics), done)
        place = 0
        for topic in request.topics:
            for each in topic.partitions:
                key = ShareKey(request.group_id, topic.topic_id, each.partition)
                self._decide(act, request.API_KEY, key, each, Answer(
                    context, gather.part(place), partial(refused_partition, request.API_KEY, each.partition)), now_ms)
                place += 1

    def _decide(self, act: Act, api_key: int, key: ShareKey, data: Any, answer: Answer[Any], now_ms: int) -> None:
        if key.partition < 0:
            answer.give(answer.refusal(ErrorCode.INVALID_REQUEST, NEGATIVE_PARTITION))
            return

        def decide(state: ShareStateShard) -> None:
            result = act(state, key, data)
            state.shard.reply(answer, ANSWERS[api_key].partition(partition=key.partition) if result is None else result)

        self.shards.run_for_key(key.text, answer, now_ms, decide)


def _initialize(state: ShareStateShard, key: ShareKey, data: Any) -> None:
    state.initialize(key, data.state_epoch, data.start_offset)


def _write(state: ShareStateShard, key: ShareKey, data: Any) -> None:
    state.write(key, data)


def _delete(state: ShareStateShard, key: ShareKey, _data: Any) -> None:
    state.delete(key)


def _read(state: ShareStateShard, key: ShareKey, data: Any) -> ReadResult:
    found = state.read(key, data.leader_epoch)
    return ReadResult(partition=key.partition, state_epoch=found.state_epoch, start_offset=found.start_offset,
                      state_batches=[ReadBatch(first_offset=each.first_offset, last_offset=each.last_offset,
                                               delivery_state=each.delivery_state, delivery_count=each.delivery_count)
                                     for each in found.batches])


def _summarize(state: ShareStateShard, key: ShareKey, _data: Any) -> SummaryResult:
    found = state.summary(key)
    if found is None:
        return SummaryResult(partition=key.partition, start_offset=NO_OFFSET)
    return SummaryResult(partition=key.partition, state_epoch=found.state_epoch, leader_epoch=found.leader_epoch,
                         start_offset=found.start_offset, delivery_complete_count=found.delivery_complete_count)
