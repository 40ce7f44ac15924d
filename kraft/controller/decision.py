"""Building blocks of decisions: their inputs, their results, their refusals."""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar, TypeVarTuple, Unpack
from uuid import UUID

from kraft.controller.commit import QuorumState
from kraft.controller.sessions import BrokerSessions, Doubt, Found
from kraft.metadata.image import BROKER_RESOURCE, CLUSTER_DEFAULT, MetadataImage, Resource
from kraft.metadata.snapshot import Record
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.error_names import bounded
from kraft.security.principal import ANONYMOUS, Principal
from kraft.structs import immutable
from kraft_native.base.errors import OperationError

# Maximum of records, and of partitions, that one request may create (Kafka has the same two limits).
RECORDS_PER_DECISION_MAX: Final = 10_000
RECORDS_PER_BATCH_MAX: Final = 2_000
"""Records of one batch where a decision needs no more of them to be atomic. A part that was decided is appended and
replicated while the next one is decided."""
PARTITIONS_PER_REQUEST_MAX: Final = 10_000

NAMED_MAX: Final = 10
"""Names that an error lists at most: a request may have a thousand of them, each of 32 kB."""

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
UNCLEAN_LEADER_ELECTION: Final = "unclean.leader.election.enable"

Response_co = TypeVar("Response_co", covariant=True)
Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")


class RefusedError(OperationError):
    """An answer that is an error: Kafka's code, and a sentence for the client (None: the code says everything)."""

    def __init__(self, code: ErrorCode, message: str | None = None):
        super().__init__(message)
        self.code = int(code)
        self.error = code
        self.message = message


@immutable
class Fencing:
    """A broker that is fenced without having requested it: for the node's log and its flight recorder.

    `found` shows that the `doubt` was right. Without a doubt the broker was unresponsive for longer than its session.
    """

    broker_id: int
    session_ms: int
    doubt: Doubt | None = None
    found: Found | None = None

    @property
    def because(self) -> str:
        """The reason in words."""
        if self.doubt is None or self.found is None:
            return f"it was silent for longer than its session of {self.session_ms} ms"
        return f"{self.doubt.value}, and {self.found.value}"


Steps = Generator[None]
"""Work that yields after each part of well below a millisecond."""

STEP: Final = 32
"""Partitions or records of one such part."""

VISITS_OF_A_STEP: Final = 32
"""Partitions that can be inspected in the time in which one is decided."""

Stream = Iterator[Record | None]
"""Records of a decision about any number of partitions, one after the other. They are appended in batches, each while
the next one is decided, so every prefix of them must leave a valid state. None ends a part of the work (see `Steps`)
and is no record."""


@immutable
class Decision(Generic[Response_co]):
    """Records to append, and the response once they are committed.

    - `atomic`: the records take effect together or not at all, so they go into one batch. A stream never is.
    - `kraft_version`: that level is written before them, in the quorum's own records.
    - `fencing`: the broker that the records fence without a request for it.
    - `appended`: receives the offset of the last record.
    """

    response: Response_co
    records: Sequence[Record] | Stream = ()
    atomic: bool = True
    kraft_version: int | None = None
    fencing: Fencing | None = None
    appended: Callable[[int], None] = lambda _offset: None


def parts(records: Iterable[Record], step: int) -> Stream:
    """Return records that are at hand as a stream."""
    for number, record in enumerate(records, 1):
        yield record
        if number % step == 0:
            yield None


class EffectiveConfig(NamedTuple):
    """A setting as in responses to CreateTopics and DescribeConfigs. `source` is Kafka's ConfigSource id."""

    name: str
    value: str | None
    source: int
    read_only: bool = False
    sensitive: bool = False


class ConfigRules(Protocol):
    """Knowledge about settings: names, types, defaults. Pure: the results depend on the arguments alone."""

    def check(self, resource: Resource, proposed: Mapping[str, str], existing: Mapping[str, str]) -> None:
        """Check `proposed`, everything that would then be set for the resource. Raises `RefusedError` when it is not
        allowed (INVALID_CONFIG), or the resource's type or name is not (INVALID_REQUEST)."""

    def is_list(self, resource_type: int, name: str) -> bool:
        """Return whether values can be appended and subtracted."""

    def default(self, resource_type: int, name: str) -> str | None:
        """Return the value where none is set; None when it has none or the name is unknown."""

    def topic_value(
        self, name: str, topic: Mapping[str, str], broker: Mapping[str, str], cluster: Mapping[str, str]
    ) -> str:
        """Return the value in force of a topic setting, given the settings of the topic, of this node and of all
        nodes."""

    def topic_values(
        self, topic: Mapping[str, str], broker: Mapping[str, str], cluster: Mapping[str, str]
    ) -> Sequence[EffectiveConfig]:
        """Return the same for every topic setting, by name. Internal ones only where they are set for the topic."""


@immutable
class ControllerSettings:
    """Settings of the node's configuration, with Kafka's names:

    - `num.partitions`, `default.replication.factor`, `delete.topic.enable`, `min.insync.replicas`.
    - `broker.session.timeout.ms`; kraft.broker.disconnect.grace.ms is `disconnect_grace_ms`.
    - `metadata.max.idle.interval.ms`; 0: an idle leader writes nothing.
    - `leader.imbalance.check.interval.seconds`; 0: preferred leaders are not elected automatically.
    - `unclean.leader.election.interval.ms`.
    - `authorizer.class.name`: `has_authorizer`.
    - `controller.quota.window.num` and `.size.seconds` are `mutation_samples` and `mutation_sample_ms`.
    - `delegation.token.secret.key` is `token_secret`, empty without delegation tokens.
    - `delegation.token.max.lifetime.ms`, `.expiry.time.ms` and `.expiry.check.interval.ms` are `token_life_max_ms`,
      `token_renewal_ms` and `token_sweep_ms`.

    `step`: partitions or records of one part of work in steps.
    `bootstrap`: the records that an empty log begins with. `features`: lowest and highest level of each feature that
    this node supports.
    """

    node_id: int
    cluster_id: str
    bootstrap: tuple[Record, ...] = ()
    default_partitions: int = 1
    default_replication_factor: int = 1
    delete_topics: bool = True
    broker_session_timeout_ms: int = 9_000
    disconnect_grace_ms: int = 200
    balance_interval_ms: int = 300_000
    unclean_interval_ms: int = 300_000
    idle_interval_ms: int = 500
    min_insync_replicas: str = "1"
    mutation_samples: int = 11
    mutation_sample_ms: int = 1_000
    token_secret: bytes = b""
    token_life_max_ms: int = 604_800_000
    token_renewal_ms: int = 86_400_000
    token_sweep_ms: int = 3_600_000
    features: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    has_authorizer: bool = False
    step: int = STEP

    @property
    def visited_step(self) -> int:
        """Partitions of one part of work that are only inspected."""
        return self.step * VISITS_OF_A_STEP


class Kept:
    """Results that decisions need again and again. The last one of each pure function is kept, with its arguments,
    which must not change."""

    def __init__(self) -> None:
        self._known: dict[object, tuple[tuple[object, ...], Any]] = {}

    def result(self, compute: Callable[[Unpack[Arguments]], Result], *arguments: *Arguments) -> Result:
        """Return `compute(*arguments)`. The same object as the last time if the arguments are equal."""
        known = self._known.get(compute)
        if known is None or known[0] != arguments:
            known = self._known[compute] = arguments, compute(*arguments)
        result: Result = known[1]
        return result


@immutable
class Context:
    """Everything that a decision may read besides the request.

    - `image` holds all decisions, committed or not.
    - `next_offset` is the offset of the decision's first record, unless the quorum appends records of its own while it
      is decided in steps.
    - `end_offset` returns the end of the log now.
    - `sessions` is soft state; decisions about brokers write to it.
    - `new_id` draws a random id.
    - `quorum` returns the state of the quorum.
    - `charge` takes a number of partitions, to be created or deleted, from the client's quota; it refuses when that is
      used up.
    - `forwarded`: a broker has sent the request and checked what only it can check. False: a client has sent it to this
      controller itself.
    - `principal`: the client.
    - `kept`: results of earlier decisions.
    """

    image: MetadataImage
    settings: ControllerSettings
    rules: ConfigRules
    sessions: BrokerSessions
    now_ms: int
    next_offset: int
    end_offset: Callable[[], int]
    api_version: int
    new_id: Callable[[], UUID]
    quorum: Callable[[], QuorumState]
    charge: Callable[[int], None] = lambda _partitions: None
    forwarded: bool = True
    principal: Principal = ANONYMOUS
    kept: Kept = field(default_factory=Kept)

    def node_config(self) -> Mapping[str, str]:
        """Return the runtime settings of this node."""
        return self.image.config(Resource(BROKER_RESOURCE, str(self.settings.node_id)))

    def topic_value(self, topic: str, name: str) -> str:
        """Return the setting in force for a topic."""
        return self.rules.topic_value(
            name, self.image.topic_config(topic), self.node_config(), self.image.config(CLUSTER_DEFAULT))

    def min_isr(self, topic: str, replicas: int) -> int:
        """Return min.insync.replicas in force, at most the number of replicas."""
        return min(int(self.topic_value(topic, MIN_INSYNC_REPLICAS)), replicas)

    def is_active(self, broker_id: int) -> bool:
        """Return whether the broker is registered, not fenced and not in controlled shutdown."""
        broker = self.image.brokers.get(broker_id)
        return broker is not None and broker.active


def text_of(code: ErrorCode, message: str | None) -> str | None:
    """Return the message for a code in an answer: none with success."""
    if code == ErrorCode.NONE:
        return None
    return bounded(message or code.message)
