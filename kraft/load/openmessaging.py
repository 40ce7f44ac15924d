"""Workload files of the OpenMessaging Benchmark, read as loads of this generator.

The settings are those of its `Workload` class. A file says what applications do, not how a client does it: batches,
acknowledgements and linger are options beside it, as they are settings of a driver there.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kraft.load.drain import Backlog
from kraft.load.errors import InvalidWorkloadError
from kraft.load.payload import POOL_BATCHES_MAX, RECORD_OVERHEAD_BYTES, VALUE_BYTES_MAX, parse_keys, read_file
from kraft.load.workload import Workload
from kraft_native.batch.batch import HEADER_BYTES

FILE_BYTES_MAX: Final = 1 << 20
GIBIBYTE: Final = 1 << 30
KEYS: Final = 10_000
KEYS_PER_PARTITION: Final = 64
"""Enough keys that every partition has some."""
DISTRIBUTORS: Final = {"NO_KEY": "none", "KEY_ROUND_ROBIN": "cycle", "RANDOM_NANO": "random"}


class _Missing:
    """Default of a setting that a file must have."""


REQUIRED: Final = _Missing()
Check = Callable[[Any], bool]


def _whole(low: int, high: int) -> tuple[str, Check]:
    return (f"a whole number of {low} to {high}",
            lambda value: isinstance(value, int) and not isinstance(value, bool) and low <= value <= high)


def _number(low: float, high: float) -> tuple[str, Check]:
    return (f"a number of {low:g} to {high:g}",
            lambda value: isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high)


_TEXT: Final[tuple[str, Check]] = ("a text", lambda value: isinstance(value, str))
_DISTRIBUTOR: Final[tuple[str, Check]] = (f"one of {', '.join(DISTRIBUTORS)}",
                                          lambda value: isinstance(value, str) and value in DISTRIBUTORS)
_FLAG: Final[tuple[str, Check]] = ("true or false", lambda value: isinstance(value, bool))

# Name of a setting, its default, and the allowed values.
SETTINGS: Final[Mapping[str, tuple[object, tuple[str, Check]]]] = {
    "name": ("", _TEXT),
    "topics": (REQUIRED, _whole(1, 1_000)),
    "partitionsPerTopic": (REQUIRED, _whole(1, 100_000)),
    "keyDistributor": ("NO_KEY", _DISTRIBUTOR),
    "messageSize": (REQUIRED, _whole(8, VALUE_BYTES_MAX)),
    "useRandomizedPayloads": (False, _FLAG),
    "randomBytesRatio": (0.0, _number(0, 1)),
    "randomizedPayloadPoolSize": (0, _whole(0, 10_000_000)),
    "payloadFile": ("", _TEXT),
    "subscriptionsPerTopic": (0, _whole(0, 1_000)),
    "consumerPerSubscription": (0, _whole(0, 10_000)),
    "producersPerTopic": (REQUIRED, _whole(1, 10_000)),
    "producerRate": (REQUIRED, _number(0, 100_000_000)),
    "consumerBacklogSizeGB": (0, _number(0, 1_000_000)),
    "backlogDrainRatio": (1.0, _number(0, 1)),
    "testDurationMinutes": (REQUIRED, _number(0.001, 30_000)),
    "warmupDurationMinutes": (1, _number(0, 30_000)),
}


@dataclass(frozen=True, slots=True)
class Client:
    """Settings of the producers beside the file: `acks`, requests in flight, the largest batch, and how long a batch is
    filled."""

    acks: int = -1
    in_flight: int = 5
    batch_bytes: int = 1 << 20
    linger_ms: float = 1.0
    codec: str = "none"


@dataclass(frozen=True, slots=True)
class WorkloadFile:
    """Settings of a file, by their names there. Raises `InvalidWorkloadError` for what does not fit together."""

    path: Path
    values: Mapping[str, Any]

    def __post_init__(self) -> None:
        values = self.values
        if values["useRandomizedPayloads"]:
            if not values["randomizedPayloadPoolSize"]:
                raise InvalidWorkloadError("randomizedPayloadPoolSize: 0, but useRandomizedPayloads needs at least 1")
        else:
            size = len(read_file("payloadFile", str(self.payload)))
            if size != values["messageSize"]:
                raise InvalidWorkloadError(f"payloadFile: {str(self.payload)!r} has {size} bytes, but messageSize is "
                                           f"{values['messageSize']}")
        if self.backlog_bytes and not self.groups:
            raise InvalidWorkloadError(f"consumerBacklogSizeGB: {values['consumerBacklogSizeGB']}, but there are no "
                                       "subscriptions with consumers to drain it")
        if self.backlog_bytes and not values["producerRate"]:
            raise InvalidWorkloadError("producerRate: 0 has no rate to drain consumerBacklogSizeGB beside; it must be "
                                       "above 0")
        if self.producers > 10_000:
            raise InvalidWorkloadError(f"producersPerTopic: {values['producersPerTopic']} for {values['topics']} "
                                       "topics are more than 10000 producers")

    @property
    def name(self) -> str:
        return str(self.values["name"]) or self.path.stem

    @property
    def producers(self) -> int:
        return int(self.values["topics"] * self.values["producersPerTopic"])

    @property
    def groups(self) -> int:
        """Return the subscriptions that have consumers."""
        return int(self.values["subscriptionsPerTopic"]) if self.values["consumerPerSubscription"] else 0

    @property
    def backlog_bytes(self) -> int:
        return round(float(self.values["consumerBacklogSizeGB"]) * GIBIBYTE)

    @property
    def seconds(self) -> float:
        return float(self.values["testDurationMinutes"] * 60)

    @property
    def warmup_seconds(self) -> float:
        return float(self.values["warmupDurationMinutes"] * 60)

    @property
    def payload(self) -> Path:
        """Return the payload file: the path as it stands, or seen from the file's directory or the one above it. Raises
        `InvalidWorkloadError`, which names all of them."""
        given = str(self.values["payloadFile"])
        if not given:
            raise InvalidWorkloadError("payloadFile: it is missing, and useRandomizedPayloads is not true")
        tried = [Path(given), self.path.parent / given, self.path.parent.parent / given]
        for path in tried:
            if path.is_file():
                return path
        raise InvalidWorkloadError(f"payloadFile: {given!r} does not exist; tried {', '.join(map(str, tried))}")

    def records_per_batch(self, client: Client) -> int:
        """Return the records that a producer has collected when its linger ends, as far as they fit a batch; without a
        rate those that fit."""
        keyed = 0 if self.values["keyDistributor"] == "NO_KEY" else len(parse_keys("fixed").name(0))
        size = int(self.values["messageSize"]) + RECORD_OVERHEAD_BYTES + keyed
        fitting = max(1, (client.batch_bytes - HEADER_BYTES) // size)
        if not self.values["producerRate"]:
            return fitting
        collected = int(self.values["producerRate"] / self.producers * client.linger_ms / 1000)
        return max(1, min(fitting, collected))

    def workload(self, client: Client, topic: str) -> Workload:
        """Return the load. Raises `InvalidWorkloadError`."""
        values, records = self.values, self.records_per_batch(client)
        randomized = values["useRandomizedPayloads"]
        distribution = DISTRIBUTORS[values["keyDistributor"]]
        keys = max(KEYS, KEYS_PER_PARTITION * values["partitionsPerTopic"])
        return Workload(
            "end-to-end" if self.groups else "produce", self.producers, client.in_flight,
            values["producerRate"] / records, values["messageSize"],
            HEADER_BYTES + records * (values["messageSize"] + RECORD_OVERHEAD_BYTES) if records > 1 else 0, client.acks,
            client.codec, topic=topic, topics=values["topics"], groups=max(1, self.groups), spread=True,
            keys=distribution if distribution == "none" else f"{distribution}:{keys}",
            payload_file="" if randomized else str(self.payload), whole_file=not randomized,
            random_share=float(values["randomBytesRatio"]) if randomized else 1.0,
            pool=min(POOL_BATCHES_MAX, -(-values["randomizedPayloadPoolSize"] // records)) if randomized else 0)

    def backlog(self) -> Backlog | None:
        """Return the backlog to drain, None without one. Building it may take twice as long as the rate needs, draining
        it ten times as long beyond the duration of the test."""
        if not self.backlog_bytes:
            return None
        needed = self.backlog_bytes / (self.values["producerRate"] * self.values["messageSize"])
        return Backlog(self.backlog_bytes, float(self.values["backlogDrainRatio"]), 60 + 2 * needed,
                       self.seconds + 10 * needed)


def read_workload(path: Path) -> WorkloadFile:
    """Read a file. Raises `InvalidWorkloadError` with the name of a setting, its value and what is allowed."""
    import yaml

    with path.open("rb") as file:
        data = file.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise InvalidWorkloadError(f"{path}: larger than {FILE_BYTES_MAX} bytes")
    try:
        found = yaml.safe_load(data)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidWorkloadError(f"{path}: no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(found, dict):
        raise InvalidWorkloadError(f"{path}: {type(found).__name__} is not a mapping of settings to values")
    for name, value in found.items():
        if name not in SETTINGS:
            raise InvalidWorkloadError(f"{name}: {value!r} is of a setting that is not supported; allowed are "
                                       f"{', '.join(SETTINGS)}")
        allowed, check = SETTINGS[name][1]
        if value is not None and not check(value):
            raise InvalidWorkloadError(f"{name}: {value!r} is not {allowed}")
    values = {name: default if found.get(name) is None else found[name] for name, (default, _) in SETTINGS.items()}
    missing = [name for name, value in values.items() if value is REQUIRED]
    if missing:
        raise InvalidWorkloadError(f"{missing[0]}: it is missing; it must be {SETTINGS[missing[0]][1][0]}")
    return WorkloadFile(path, values)
