"""Checks whether partitions are in a producer's transaction, on their way to the coordinator on one broker (KIP-890).

One request is on its way at a time; what comes meanwhile waits and shares the next one. A request holds each
transactional id once, because its response names results by it. So a second check of the same id waits for its turn.
The coordinator decides which of two producers with the same id is the current one.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kraft.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse

CHECKS_PER_REQUEST: Final = 256
CHECKS_WAITING_MAX: Final = 10_000

TopicPartition = tuple[str, int]


class TransactionCheck(NamedTuple):
    """One check. With `adds` the coordinator adds the partitions to the transaction. `done` gets an error per
    partition. After `expires` nobody waits for the answer; `begun` and `expires` are times of one clock."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    adds: bool
    done: Callable[[Sequence[int]], None]
    begun: float
    expires: float

    def refuse(self, code: ErrorCode) -> None:
        """Answer with one error for all partitions."""
        self.done([code] * len(self.partitions))


class CheckQueue:
    """Checks that wait for the coordinator on one broker."""

    def __init__(self) -> None:
        self._waiting: deque[TransactionCheck] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, check: TransactionCheck) -> None:
        """Queue a check. It is refused with COORDINATOR_NOT_AVAILABLE, which clients retry, when too many wait."""
        if len(self._waiting) >= CHECKS_WAITING_MAX:
            check.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        else:
            self._waiting.append(check)

    def take(self, now: float) -> list[TransactionCheck]:
        """Remove the checks of the next request, oldest first. Those that waited too long are refused."""
        taken: dict[str, TransactionCheck] = {}
        later: list[TransactionCheck] = []
        while self._waiting and len(taken) < CHECKS_PER_REQUEST and len(later) < CHECKS_PER_REQUEST:
            check = self._waiting.popleft()
            if check.expires <= now:
                check.refuse(ErrorCode.NETWORK_EXCEPTION)
            elif check.transactional_id in taken:
                later.append(check)
            else:
                taken[check.transactional_id] = check
        self._waiting.extendleft(reversed(later))
        return list(taken.values())


def request_of(checks: Sequence[TransactionCheck]) -> AddPartitionsToTxnRequest:
    """Return the request of a broker (version 4 or higher) for these checks."""
    return AddPartitionsToTxnRequest(transactions=[AddPartitionsToTxnTransaction(
        transactional_id=each.transactional_id, producer_id=each.producer_id, producer_epoch=each.producer_epoch,
        verify_only=not each.adds, topics=_topics(each.partitions)) for each in checks])


def _topics(partitions: Sequence[TopicPartition]) -> list[AddPartitionsToTxnTopic]:
    topics: dict[str, dict[int, None]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, {})[index] = None
    return [AddPartitionsToTxnTopic(name=topic, partitions=list(indexes)) for topic, indexes in topics.items()]


def errors_of(checks: Sequence[TransactionCheck], response: AddPartitionsToTxnResponse) -> list[list[int]]:
    """Return the errors of each check's partitions. A partition that the response leaves out is not confirmed."""
    if response.error_code != ErrorCode.NONE:
        refused = (ErrorCode.INVALID_TXN_STATE if response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                   else response.error_code)
        return [[refused] * len(each.partitions) for each in checks]
    found = {(result.transactional_id, topic.name, part.partition_index): part.partition_error_code
             for result in response.results_by_transaction
             for topic in result.topic_results for part in topic.results_by_partition}
    return [[found.get((each.transactional_id, topic, index), ErrorCode.NETWORK_EXCEPTION)
             for topic, index in each.partitions] for each in checks]
