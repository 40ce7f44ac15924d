"""Frames to send; each is a function of the seed and its number alone."""

import json
import random
import struct
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.headers import decode_request, encode_request_header
from kraft.protocol.message import Struct
from kraft_native.base.errors import KraftError
from kraft_native.batch.records import BatchBuilder
from tests.fuzz.mutate import correct_batches, mutate
from tests.golden import golden, golden_root
from tests.protocol.json_form import schemas
from tests.protocol.samples import sample

TOPICS: Final = ("fuzz-events", "fuzz-state")
PARTITIONS: Final = 3
GROUPS: Final = ("fuzz-group-1", "fuzz-group-2")
# Strings of these fields mostly name something that exists, to get behind the first check.
TOPIC_FIELDS: Final = frozenset({"topic", "topic_name", "name", "resource_name"})
GROUP_FIELDS: Final = frozenset({"group_id", "group", "key"})
PARTITION_FIELDS: Final = frozenset({"partition", "partition_index", "partition_id", "index"})
WAIT_FIELDS: Final = frozenset({"max_wait_ms", "timeout_ms", "rebalance_timeout_ms", "validate_only"})
# A request that creates very many things is a load test, not a malformed request.
COUNT_FIELDS: Final = frozenset({"num_partitions", "count"})
UNSERVED_SHARE: Final = 0.1
# Frames per step: this many of one API and version, so that each listener gets at least one of them.
TURN_FRAMES: Final = 4
BIG_LENGTHS: Final = (-1, -(2**31), 2**31 - 1, 100 * 1024 * 1024 + 1, 100 * 1024 * 1024, 0, 1, 3, 7)


class Frame(NamedTuple):
    """A frame: `data` as sent, with the length in front. `intact`: key, version and correlation id match `api_key`
    and `version`, so that any reply must be one of that API."""

    data: bytes
    api_key: int
    version: int
    correlation_id: int
    intact: bool


def framed(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


class Corpus:
    """Source of frames. `topic_ids` are those of `TOPICS` on the fed node. `served` has the APIs that the node
    announces, with their lowest and highest versions."""

    def __init__(self, seed: int, topic_ids: tuple[UUID, ...], served: Mapping[int, tuple[int, int]]) -> None:
        self.seed = seed
        self.topic_ids = topic_ids
        self.schemas = schemas()
        self.targets = [(api.key, version) for api in API_BY_KEY.values() for version in api.versions]
        self.served_targets = [(key, version) for key, version in self.targets
                               if key in served and served[key][0] <= version <= served[key][1]]
        self.golden = _golden_bodies()

    def frame(self, number: int) -> Frame:
        """Build frame `number`. The served APIs and versions follow one after the other. The first frame of each is
        a message that can be decoded, so that a reply must come."""
        source = random.Random(f"wire {self.seed} {number}")
        turn = number // TURN_FRAMES
        key, version = self.served_targets[turn % len(self.served_targets)]
        if turn < len(self.served_targets):
            return Frame(framed(_header(key, version, number) + self._sampled(source, key, version)), key, version,
                         number, intact=True)
        kind = source.random()
        if kind < 0.03:
            return Frame(_noise(source), -1, -1, number, intact=False)
        if source.random() < UNSERVED_SHARE:
            key, version = source.choice(self.targets)
        if kind < 0.06:
            key, version = source.choice((-1, 99, 2000, 32767, key)), source.choice((-1, 99, 32767, version))
        body = self._body(source, key, version)
        header = _header(key, version, number)
        if source.random() < 0.05:
            return Frame(framed(mutate(source, header + body)), key, version, number, intact=False)
        return Frame(framed(header + body), key, version, number, intact=True)

    def _body(self, source: random.Random, key: int, version: int) -> bytes:
        captured = self.golden.get((key, version))
        if captured and source.random() < 0.3:
            body = source.choice(captured)
        else:
            body = self._sampled(source, key, version)
        if source.random() < 0.35:
            return body
        return mutate(source, body)

    def _sampled(self, source: random.Random, key: int, version: int) -> bytes:
        api = API_BY_KEY.get(key)
        if api is None or version not in api.versions:
            return source.randbytes(source.randrange(40))
        message = sample(self.schemas[f"{api.name}Request"], version, source)
        plain: bytes = message.encode(version)
        self._steer(source, message)
        try:
            return message.encode(version)
        except KraftError:  # this version has no field for one of the values
            return plain

    def _steer(self, source: random.Random, message: Struct) -> None:
        for name in message.__slots__:
            value = getattr(message, name)
            if isinstance(value, list):
                for index, each in enumerate(value):
                    if isinstance(each, Struct):
                        self._steer(source, each)
                    else:
                        value[index] = self._steered(source, name.removesuffix("s"), each)
            elif isinstance(value, Struct):
                self._steer(source, value)
            else:
                setattr(message, name, self._steered(source, name, value))

    def _steered(self, source: random.Random, name: str, value: Any) -> Any:
        if name in WAIT_FIELDS and type(value) is int:
            return min(value, 20)
        if name in COUNT_FIELDS and type(value) is int:
            return min(value, 8)
        if name == "isolation_level":  # any other value closes the connection, and nothing behind it is read
            return value & 1
        if source.random() < 0.25:
            return value
        if isinstance(value, str):
            known = TOPICS if name in TOPIC_FIELDS else GROUPS if name in GROUP_FIELDS else (value,)
            return source.choice(known)
        if isinstance(value, UUID):
            return source.choice(self.topic_ids)
        if type(value) is int and name in PARTITION_FIELDS:
            return source.randrange(PARTITIONS)
        if isinstance(value, bytes) and name == "records":
            return _batch(source)
        return value


def _header(key: int, version: int, number: int) -> bytes:
    """Encode a header whose client id holds the number, so that a line in the node's log leads back to the frame."""
    api = API_BY_KEY.get(key)
    if api is not None:
        return encode_request_header(api, version, number, f"frame-{number}")
    name = f"frame-{number}".encode()
    return struct.pack(">hhih", key, version, number, len(name)) + name


def _noise(source: random.Random) -> bytes:
    if source.random() < 0.5:
        return source.randbytes(source.randrange(1, 400))
    return struct.pack(">i", source.choice(BIG_LENGTHS)) + source.randbytes(source.randrange(200))


def _batch(source: random.Random) -> bytes:
    codec = source.choice(("none", "gzip", "snappy", "lz4", "zstd"))
    builder = BatchBuilder(codec)
    for _ in range(source.randrange(1, 20)):
        builder.append(source.randbytes(source.randrange(100)), source.choice((None, b"key", source.randbytes(8))),
                       timestamp_ms=-1)      # the same frames at any time
    data = builder.build()
    damaged = mutate(source, data) if source.random() < 0.7 else data
    return correct_batches(damaged) if source.random() < 0.7 else damaged


def _golden_bodies() -> dict[tuple[int, int], list[bytes]]:
    """Return bodies of requests that real clients sent, by API and version; none where the golden data is missing."""
    found: dict[tuple[int, int], list[bytes]] = {}
    if golden_root() is None:
        return found
    for path in sorted(golden("wire").glob("*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            frame = json.loads(line)
            if frame.get("request_hex"):
                _, _, body = decode_request(bytes.fromhex(frame["request_hex"]))
                found.setdefault((frame["api"], frame["version"]), []).append(bytes(body))
    return found
