"""The two nodes: each is queried, and its answers are translated to a common form."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from kraft.client.connection import Connection, ConnectionFailedError
from kraft.protocol.api import Api
from kraft.protocol.apis import API_BY_NAME
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import ZERO_UUID
from kraft_native.base.errors import KraftError
from tests.compare.batches import comparable
from tests.compare.questions import IDENTITY, Name, Question
from tests.integration.process import NodeProcess
from tests.peer.kafka import kafka_node
from tests.protocol.json_form import JsonForm

AS_KAFKA: Final = {
    "group.min.session.timeout.ms": "6000", "offsets.topic.num.partitions": "50", "num.partitions": "1",
    "log.retention.check.interval.ms": "300000", "log.cleaner.backoff.ms": "15000"}
SECONDS: Final = 8.0
NO_ANSWER: Final = "no answer"
OWN: Final = frozenset({
    "throttle_time_ms", "error_message", "host", "port", "cluster_id", "log_append_time_ms", "documentation",
    "total_bytes", "usable_bytes", "log_dir", "rack", "batch_index_error_message", "partition_size", "timestamp_ms",
    "last_timestamp"})
"""Attributes that differ between nodes."""
REQUESTED_IDS_MAX: Final = 1 << 100
"""Ids up to this one are never assigned."""
GIVEN: Final = frozenset({"session_id", "producer_id"})


def order(row: Any) -> str:
    """Key that sorts the elements of a list equally for both nodes: most lists are sets."""
    return repr([row[name] for name in IDENTITY if name in row] if isinstance(row, dict) else row)


def merged(rows: list[Any]) -> list[Any]:
    """Merge the rows of one topic into one."""
    found: dict[str, Any] = {}
    for row in rows:
        known = found.get(order(row))
        if known is not None and isinstance(row, dict) and isinstance(row.get("partitions"), list):
            known["partitions"] = sorted(known["partitions"] + row["partitions"], key=order)
        else:
            found[order(row) if known is None else f"{order(row)} {len(found)}"] = row
    return list(found.values())


class Requests:
    """A node, on loopback. One thread uses it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.given: dict[Name, Any] = {}
        """Values that the node assigned."""
        self._names: dict[Any, str] = {}
        self._connection: Connection | None = None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def forget(self) -> None:
        """Forget the values of the previous row."""
        self.given.clear()
        self._names.clear()

    def serves(self, key: int) -> bool:
        return key in self.connection().versions

    def connection(self) -> Connection:
        """The existing connection, or a new one."""
        if self._connection is None:
            self._connection = Connection("127.0.0.1", self.port, timeout=SECONDS)
        return self._connection

    def learn(self, kind: str, key: str, value: Any) -> None:
        self.given[Name(kind, key)] = value
        if isinstance(value, str | UUID) and value not in self._names:
            self._names[value] = f"<topic {key}>" if kind == "topic" else f"<{kind} {len(self._names)}>"

    def resolve(self, name: Name) -> Any:
        missing: dict[str, Any] = {"topic": UUID(int=1 << 99), "member": "", "generation": 1, "producer": 5}
        return self.given.get(name, missing[name.kind])

    def call(self, question: Question) -> Any:
        """Return the answer as values, or how the connection ended."""
        api = API_BY_NAME[question.api]
        connection = self.connection()
        try:
            request = question.request(self.resolve)
            answer = connection.send(request, api.response, version=question.version)
        except ConnectionFailedError as error:
            self.close()
            return "closed" if "closed" in str(error) or "reset" in str(error) else f"{NO_ANSWER}: {error}"
        except KraftError as error:
            self.close()
            return f"unreadable: {error}"
        self._note(question, answer)
        return self._values(api, question, answer)

    def _note(self, question: Question, answer: Any) -> None:
        if question.api == "JoinGroup" and answer.member_id:
            if answer.member_id != self.given.get(Name("member", "newest")):
                self.given[Name("member", "older")] = self.given.get(Name("member", "newest"), "")
                self.learn("member", "newest", answer.member_id)
            if answer.generation_id > 0:
                self.given[Name("generation", "newest")] = answer.generation_id
        if question.api == "InitProducerId" and answer.error_code == ErrorCode.NONE:
            self.given[Name("producer", "newest")] = answer.producer_id
        if question.api == "Metadata":
            for topic in answer.topics:
                if topic.error_code == ErrorCode.NONE and topic.topic_id != ZERO_UUID:
                    self.learn("topic", topic.name, topic.topic_id)

    def _values(self, api: Api, question: Question, answer: Any) -> Any:
        form = JsonForm(f"{api.name}Response", question.version)
        return self._common(form, form.schema.message, answer)

    def _common(self, form: JsonForm, struct: Any, value: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for field in struct.fields:
            if form.version not in field.versions:
                continue
            each = getattr(value, field.attribute)
            if field.attribute in OWN:
                continue
            if field.kind == "records":
                found[field.attribute] = comparable(each)
            elif isinstance(each, list | tuple):
                rows = [self._one(form, field, one) for one in each]
                found[field.attribute] = sorted(merged(rows), key=order) if field.is_struct or field.kind == "string" \
                    else rows
            elif field.attribute in GIVEN:
                found[field.attribute] = each if each <= 0 else "<given>"
            else:
                found[field.attribute] = self._one(form, field, each)
        return found

    def _one(self, form: JsonForm, field: Any, value: Any) -> Any:
        if value is None:
            return None
        if field.is_struct:
            return self._common(form, form.structs[field.kind], value)
        if isinstance(value, UUID):
            return self._names.get(value, str(value) if value.int <= REQUESTED_IDS_MAX else "<another>")
        if isinstance(value, str):
            return self._names.get(value, value)
        return "<recent>" if isinstance(value, int) and 1_750_000_000_000 < value < 2_500_000_000_000 else value


@contextmanager
def both_nodes(directory: Path) -> Iterator[tuple[Requests, Requests]]:
    """Run our node and Kafka's, with the same settings, for the duration of the block."""
    with ExitStack() as stack:
        kafka = stack.enter_context(kafka_node(directory / "kafka"))
        kafka.start()
        node = NodeProcess(directory / "node", AS_KAFKA)
        stack.callback(node.stop)
        node.start()
        nodes = Requests(node.port), Requests(kafka.port)
        for each in nodes:
            stack.callback(each.close)
        yield nodes
