"""Topics that a broker has created for a feature, at the request of many clients at once."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kraft.broker.api import RequestContext, Steps
from kraft.broker.internal_topics import CREATE_TOPICS_VERSION
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kraft.protocol.messages.create_topics_response import CreateTopicsResponse

if TYPE_CHECKING:
    from kraft.broker.broker import Broker

TIMEOUT_MS: Final = 30_000
FAILURE_MS: Final = 10_000
"""Time for which the failure of a creation is reported, and the topic is not requested again."""
FAILURES_MAX: Final = 1_000


class Failure(NamedTuple):
    """Refusal of a creation by the controller. `until_ms` is the end of its report."""

    reason: str
    until_ms: int


class TopicCreations:
    """Creations that are under way or have failed, by topic. Loop thread only."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._pending: dict[str, None] = {}
        self._failures: dict[str, Failure] = {}

    def failures(self, names: Sequence[str], now_ms: int) -> list[str]:
        """Return why creations of these topics failed a short time ago."""
        return [f"{name} ({self._failures[name].reason})" for name in names if self._has_failed(name, now_ms)]

    def _has_failed(self, name: str, now_ms: int) -> bool:
        failure = self._failures.get(name)
        return failure is not None and now_ms < failure.until_ms

    def create(self, topics: Sequence[CreatableTopic], context: RequestContext) -> Steps:
        """Request from the controller those of the topics that no request is under way for, in steps."""
        wanted = []
        for topic in topics:
            if topic.name not in self._pending and not self._has_failed(topic.name, context.now_ms):
                self._pending[topic.name] = None
                wanted.append(topic)
            yield
        if not wanted:
            return

        def created(response: Message) -> None:
            assert isinstance(response, CreateTopicsResponse)
            for name in [topic.name for topic in wanted]:
                self._pending.pop(name, None)
            for each in response.topics:
                if each.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    self._note_failure(each.name, each.error_message or f"error {each.error_code}",
                                       context.now_ms)

        yield from self._broker.submit_steps(
            CreateTopicsRequest(topics=wanted, timeout_ms=TIMEOUT_MS), context, created,
            CREATE_TOPICS_VERSION)

    def _note_failure(self, name: str, reason: str, now_ms: int) -> None:
        while len(self._failures) >= FAILURES_MAX:
            del self._failures[next(iter(self._failures))]
        self._failures.pop(name, None)
        self._failures[name] = Failure(reason, now_ms + FAILURE_MS)
