"""FindCoordinator (key 10), versions 0 to 6: the broker that serves a group, a transactional id or, from version 6, a
share partition. From version 4 for several keys at once.

The first request creates the topic of the coordinator and is answered with COORDINATOR_NOT_AVAILABLE; the client
retries. Concurrent first requests create it once. The key of a share partition is `group:topic id:partition`; other
keys of that type get INVALID_REQUEST. So do all of them while share groups are off.
"""

from typing import Final, NamedTuple

from kraft.broker.api import Answer, RequestContext, Steps, each_step
from kraft.broker.broker import Broker
from kraft.broker.coordinator.hashing import partition_of
from kraft.broker.internal_topics import (
    CREATE_TOPICS_VERSION,
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_TOPIC,
    own_topic,
)
from kraft.broker.topic_views import endpoint_of
from kraft.metadata.versions import SHARE_VERSION
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.ids import id_of
from kraft.protocol.message import Message
from kraft.protocol.messages.create_topics_request import CreateTopicsRequest
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2
TOPICS: Final = {GROUP: OFFSETS_TOPIC, TRANSACTION: TRANSACTION_TOPIC, SHARE: SHARE_STATE_TOPIC}
FIRST_BATCH_VERSION: Final = 4
FIRST_SHARE_VERSION: Final = 6
PARTITION_MAX: Final = 2**31 - 1


class _Found(NamedTuple):
    error: ErrorCode
    node_id: int = -1
    host: str = ""
    port: int = -1


def find_coordinator(broker: Broker, request: FindCoordinatorRequest, context: RequestContext, answer: Answer) -> Steps:
    """Answer with one coordinator per key; a key that is named twice is answered twice, as in Kafka. A coordinator
    whose process has ended is not available (`kraft.broker.leader_checks`)."""
    keys = request.coordinator_keys if context.version >= FIRST_BATCH_VERSION else [request.key]
    name = _topic_of(broker, request.key_type, context)
    topic = broker.image.topic(name)
    if topic is None and name and (request.key_type != SHARE or any(map(is_share_key, keys))):
        create(broker, name, context.now_ms)
    leaders: dict[int, None] = {}
    if topic is not None:
        for key in keys:
            leaders[topic.partitions[partition_of(key, len(topic.partitions))].leader] = None
            yield
    broker.leaders.submit(leaders, lambda ended: context.run(_respond(broker, request, context, answer, ended)))


def _respond(broker: Broker, request: FindCoordinatorRequest, context: RequestContext, answer: Answer,
             ended: tuple[int, ...]) -> Steps:
    if context.version >= FIRST_BATCH_VERSION:
        coordinators = yield from each_step(
            lambda key: _coordinator(key, _find(broker, key, request.key_type, context, ended)),
            request.coordinator_keys)
        answer(FindCoordinatorResponse(coordinators=coordinators))
        return
    found = _find(broker, request.key, request.key_type, context, ended)
    message = "NONE" if found.error == ErrorCode.NONE else found.error.message
    answer(FindCoordinatorResponse(error_code=found.error, error_message=message, node_id=found.node_id,
                                   host=found.host, port=found.port))


def _coordinator(key: str, found: _Found) -> Coordinator:
    return Coordinator(key=key, node_id=found.node_id, host=found.host, port=found.port, error_code=found.error)


def _find(broker: Broker, key: str, key_type: int, context: RequestContext, ended: tuple[int, ...]) -> _Found:
    name = _topic_of(broker, key_type, context)
    if not name or (key_type == SHARE and not is_share_key(key)):
        return _Found(ErrorCode.INVALID_REQUEST)
    topic = broker.image.topic(name)
    if topic is not None:
        node_id = topic.partitions[partition_of(key, len(topic.partitions))].leader
    else:
        return _Found(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    leader = broker.image.brokers.get(node_id)
    address = None if leader is None or leader.fenced or node_id in ended else endpoint_of(leader, context.listener)
    if leader is None or address is None:
        return _Found(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return _Found(ErrorCode.NONE, leader.broker_id, *address)


def _topic_of(broker: Broker, key_type: int, context: RequestContext) -> str:
    """Return the topic of a type of coordinator; "" for a type that the request may not have."""
    if key_type == SHARE and (context.version < FIRST_SHARE_VERSION or not broker.image.features.get(SHARE_VERSION)):
        return ""
    return TOPICS.get(key_type, "")


def is_share_key(key: str) -> bool:
    """Return whether `key` names a share partition: `group:topic id:partition`."""
    group_id, _, rest = key.rpartition(":")[0].rpartition(":")
    partition = key.rpartition(":")[2]
    try:
        id_of(rest)
    except ValueError:
        return False
    return bool(group_id.strip()) and partition.isascii() and partition.isdigit() and int(partition) <= PARTITION_MAX


def create(broker: Broker, name: str, now_ms: int) -> None:
    """Request a coordinator's topic from the controller. One that exists by then is left as it is, so repeated requests
    are harmless."""
    def created(_response: Message) -> None:
        """Do nothing: the client's next request finds the topic."""

    definition = own_topic(broker, name)
    assert definition is not None, f"{name} is no coordinator's topic"
    broker.submit(CreateTopicsRequest(topics=[definition], timeout_ms=30_000), CREATE_TOPICS_VERSION, now_ms, created)
