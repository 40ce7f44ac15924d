"""Send the same requests to both nodes, row after row, and report where the answers differ."""

import random
import time
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from kraft.protocol.apis import API_BY_NAME
from kraft.protocol.error_codes import ErrorCode
from tests.compare.node import NO_ANSWER, Requests
from tests.compare.questions import Question, Questions

NOT_YET: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
SETTLE_SECONDS: Final = 5.0
AGAIN_SECONDS: Final = 2.0
PAUSE_SECONDS: Final = 0.02
CHANGES: Final = frozenset({
    "CreateTopics", "DeleteTopics", "CreatePartitions", "IncrementalAlterConfigs", "AlterConfigs", "ElectLeaders",
    "AlterPartitionReassignments", "AlterClientQuotas", "AlterUserScramCredentials"})
"""Answered when the metadata has them; the broker may learn of it later."""
READS_ONLY: Final = frozenset({
    "Metadata", "ListOffsets", "Fetch", "OffsetFetch", "DescribeGroups", "ListGroups", "DescribeConfigs",
    "DescribeCluster", "FindCoordinator", "DescribeTopicPartitions", "OffsetForLeaderEpoch", "DescribeClientQuotas",
    "ListPartitionReassignments", "DescribeUserScramCredentials", "DescribeLogDirs", "ListTransactions",
    "ListConfigResources", "DescribeQuorum"})

REPEATED: Final = READS_ONLY | {"DeleteRecords"}
"""Change nothing, or the second time nothing more."""

LEFT_OUT: Final = frozenset({
    "AddRaftVoter", "RemoveRaftVoter", "UpdateFeatures", "UnregisterBroker", "SaslHandshake", "SaslAuthenticate",
    "ApiVersions", "CreateDelegationToken", "DescribeTransactions", "DescribeProducers"})
"""APIs that cannot be compared.

Some would change the node for all rows. Some behave differently in each node when security is off. Some report
transactions, which only one of the two has, or when producers were last seen.
"""


class Difference(NamedTuple):
    """`number`: of the question in its row; -1 before the first."""

    row: int
    number: int
    question: Question
    ours: Any
    theirs: Any

    def __str__(self) -> str:
        lines = "\n".join(f"    {path}: ours {ours!r:.400}, Kafka's {theirs!r:.400}"
                          for path, ours, theirs in different("", self.ours, self.theirs))
        api, version, values = self.question
        return f"row {self.row}, question {self.number}: {api} v{version} {values!r:.1500}\n{lines}"

    @property
    def kind(self) -> str:
        """Key that differences of one cause mostly share."""
        path, ours, theirs = next(different("", self.ours, self.theirs))
        return f"{self.question.api} {path} {ours!r:.60} {theirs!r:.60}"


def different(path: str, ours: Any, theirs: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in sorted(ours.keys() | theirs.keys()):
            yield from different(f"{path}.{name}", ours.get(name), theirs.get(name))
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, pair in enumerate(zip(ours, theirs, strict=True)):
            yield from different(f"{path}[{number}]", *pair)
    elif isinstance(ours, list) and isinstance(theirs, list):
        yield (f"{path}, in one only", [each for each in ours if each not in theirs],
               [each for each in theirs if each not in ours])
    elif ours != theirs:
        yield path, ours, theirs


class Comparison:
    """`requested`: number of requests. `given_up`: rows that ended because Kafka had its own fault or did not
    answer."""

    def __init__(self, ours: Requests, theirs: Requests, apis: list[str], *, trace: bool = False) -> None:
        self.ours, self.theirs = ours, theirs
        self.apis = apis
        self.trace = trace
        self.requested = self.given_up = 0

    def row(self, seed: int, count: int) -> Iterator[Difference]:
        """Send `count` requests. After a difference in an API that may have changed something, the row is over."""
        questions = Questions(random.Random(seed), f"s{seed}", self.apis)
        self.begin(seed, questions)
        for number in range(count):
            question = questions.next()
            ours, theirs = self.both(question)
            if self.trace:
                print(number, question.api, question.version, question.values, "\n   ", ours)
            if is_fault(theirs):
                self.given_up += 1
                return
            if ours != theirs:
                yield Difference(seed, number, question, ours, theirs)
                if question.api not in READS_ONLY:
                    return
            if question.api in CHANGES and (difference := self.settle(seed, number, questions.topics)):
                yield difference
                return

    def begin(self, seed: int, questions: Questions) -> None:
        """Create two topics in both nodes."""
        made = Question("CreateTopics", 7, {"timeout_ms": 10_000, "topics": [
            {"name": name, "num_partitions": partitions, "replication_factor": 1}
            for name, partitions in zip(questions.topics, (3, 1), strict=False)]})
        for node in (self.ours, self.theirs):
            node.forget()
            self.await_coordinators(node, questions.groups)
            node.call(made)
        self.settle(seed, -1, questions.topics)

    def both(self, question: Question) -> tuple[Any, Any]:
        """Return both answers.

        Kafka's broker may learn of a change shortly after it was answered, or apply a topic's settings to its log. A
        request that changes nothing more is therefore repeated before the answers count as different.
        """
        self.requested += 1
        until = time.monotonic() + (AGAIN_SECONDS if question.api in REPEATED else 0)
        while True:
            ours, theirs = self.ours.call(question), self.theirs.call(question)
            if ours == theirs or time.monotonic() > until:
                return ours, theirs
            time.sleep(PAUSE_SECONDS)

    def await_coordinators(self, node: Requests, groups: list[str]) -> None:
        """Wait until the node assigns producer ids and serves groups."""
        while node.call(Question("InitProducerId", 4, {"transactional_id": None}))["error_code"] != ErrorCode.NONE:
            time.sleep(PAUSE_SECONDS)
        for group in groups:
            node.call(Question("FindCoordinator", 0, {"key": group}))
            while node.call(Question("Heartbeat", 3, {"group_id": group}))["error_code"] in NOT_YET:
                time.sleep(PAUSE_SECONDS)

    def settle(self, seed: int, number: int, topics: list[str]) -> Difference | None:
        """Wait until both know, and serve, the same topics."""
        question = Question("Metadata", 12, {
            "topics": [{"name": each} for each in topics], "allow_auto_topic_creation": False})
        until = time.monotonic() + SETTLE_SECONDS
        while True:
            ours, theirs = self.ours.call(question), self.theirs.call(question)
            same = ours == theirs and self.all_lead(ours)
            if same or time.monotonic() > until:
                return None if same else Difference(seed, number, question, ours, theirs)
            time.sleep(PAUSE_SECONDS)

    def all_lead(self, description: Any) -> bool:
        """True when both nodes serve these partitions; Kafka's metadata has them a little earlier."""
        topics = [{"name": topic["name"], "partitions": [
            {"partition_index": each["partition_index"], "timestamp": -1} for each in topic["partitions"]]}
            for topic in description["topics"] if topic["partitions"]]
        question = Question("ListOffsets", 7, {"replica_id": -1, "topics": topics})
        return all(partition["error_code"] == ErrorCode.NONE for node in (self.ours, self.theirs)
                   for topic in node.call(question)["topics"] for partition in topic["partitions"])


def is_fault(answer: Any) -> bool:
    """True when the node did not answer, or with UNKNOWN_SERVER_ERROR somewhere."""
    if isinstance(answer, dict):
        return answer.get("error_code") == ErrorCode.UNKNOWN_SERVER_ERROR or any(map(is_fault, answer.values()))
    return any(map(is_fault, answer)) if isinstance(answer, list) else str(answer).startswith(NO_ANSWER)


def comparable(left: Requests, right: Requests) -> list[str]:
    """APIs that both serve and that do not affect the other rows."""
    return [name for name, api in API_BY_NAME.items()
            if name not in LEFT_OUT and not api.cluster_action and not api.private
            and left.serves(api.key) and right.serves(api.key)]
