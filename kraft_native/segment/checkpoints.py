"""Kafka's small text files, and the state file of a stand-alone log.

| file | where | content |
|---|---|---|
| `leader-epoch-checkpoint` | partition | `0`, count, then `epoch start-offset` lines |
| `recovery-point-offset-checkpoint` and three like it | log dir | `0`, count, then `topic partition offset` lines |
| `partition.metadata` | partition | `version: 0`, `topic_id: <base64url>`, no newline at the end |
| `meta.properties` | log dir | Java properties: version, node.id, cluster.id, directory.id |
| `.kafka_cleanshutdown` | log dir | JSON: version, brokerEpoch; empty when written before Kafka 3.8 |
| `kraft-log-state` | partition | ours, see `write_log_state` |

Every `read_` function accepts bytes as they are in the file, or raises `CorruptFileError` with the file, the line and
what is wrong. A missing file is a `StorageError` (errno ENOENT), unless the function's text says otherwise. Every
`write_` function replaces the file durably and as a whole (`file_io.write_atomic`). Cold paths; any thread.
"""

import errno
import json
import os
import re
import uuid
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Final, TypeAlias

from kraft_native.base.crc import checksum
from kraft_native.base.errors import CorruptFileError, InvalidArgumentError, StorageError
from kraft_native.file.file_io import read_file, write_atomic

Path: TypeAlias = str | bytes | PathLike[str]

LOG_STATE_FILE: Final = "kraft-log-state"
CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
PARTITION_METADATA_FILE: Final = "partition.metadata"
META_PROPERTIES_FILE: Final = "meta.properties"

INT64_MAX_VALUE = 0x7FFFFFFFFFFFFFFF
INT32_MAX_VALUE: Final = 0x7FFFFFFF

DECIMAL: Final = re.compile(r"-?[0-9]{1,19}")
ID_TEXT: Final = re.compile(r"([A-Za-z0-9_-]{22})(==)?")
STATE_KEY: Final = re.compile(r"[a-z][a-z0-9_]*")
STATE_VALUE: Final = re.compile(r"[ -~]*")
STATE_KEYS: Final = frozenset({"log_start", "recovery_point", "log_end", "clean", "crc"})


def corrupt(path: str, line: int, what: str) -> CorruptFileError:
    return CorruptFileError(f"{path}: line {line}: {what}" if line > 0 else f"{path}: {what}")


def number(path: str, line: int, name: str, text: str, low: int, high: int) -> int:
    """A decimal integer within [low, high]. `int()` alone would accept spaces, underscores and other scripts'
    digits."""
    if DECIMAL.fullmatch(text) is None:
        raise corrupt(path, line, f"{name}: {text!r} is not a decimal number")
    value = int(text)
    if not low <= value <= high:
        raise corrupt(path, line, f"{name}: {text} is outside {low} to {high}")
    return value


def decoded(path: str, data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise corrupt(path, data.count(b"\n", 0, error.start) + 1, f"not {encoding}: {error.reason}") from None


def read_if_present(path: Path) -> bytes | None:
    """Read a file; None when it does not exist."""
    try:
        return read_file(path)
    except StorageError as error:
        if error.errno != errno.ENOENT:
            raise
        return None


# Checkpoints of lines ------------------------------------------------------------------------------------------------

def checkpoint_lines(path: str, data: bytes, fields: int) -> list[tuple[int, list[str]]]:
    """(line number, fields) of each entry of a checkpoint file. An empty file, as Kafka creates it, has none.

    Stricter than Kafka in one point: the last line must be terminated, or a cut number would pass for a smaller one.
    """
    if not data:
        return []
    lines = decoded(path, data, "utf-8").split("\n")
    entries = []
    if lines.pop() != "":
        raise corrupt(path, len(lines) + 1, "the line is not ended: the file was cut")
    if len(lines) < 2:
        raise corrupt(path, len(lines), "version and count expected: the file was cut")
    number(path, 1, "version", lines[0], 0, 0)
    if number(path, 2, "count", lines[1], 0, INT32_MAX_VALUE) != len(lines) - 2:
        raise corrupt(path, 2, f"{lines[1]} entries announced, {len(lines) - 2} found")
    for line, text in enumerate(lines[2:], 3):
        parts = text.split()
        if len(parts) != fields:
            raise corrupt(path, line, f"{fields} fields expected: {text!r}")
        entries.append((line, parts))
    return entries


def checkpoint_bytes(lines: list[str]) -> bytes:
    return "".join([f"{line}\n" for line in ("0", str(len(lines)), *lines)]).encode()


def read_leader_epochs(path: Path) -> list[tuple[int, int]]:
    """(epoch, start offset) pairs of a `leader-epoch-checkpoint`; both must strictly increase."""
    name = os.fsdecode(path)
    entries: list[tuple[int, int]] = []
    for line, (epoch_text, start_text) in checkpoint_lines(name, read_file(path), 2):
        epoch = number(name, line, "epoch", epoch_text, 0, INT32_MAX_VALUE)
        start_offset = number(name, line, "start offset", start_text, 0, INT64_MAX_VALUE)
        if entries and (epoch <= entries[-1][0] or start_offset <= entries[-1][1]):
            raise corrupt(name, line, f"{epoch} {start_offset} does not follow on {entries[-1][0]} {entries[-1][1]}")
        entries.append((epoch, start_offset))
    return entries


def write_leader_epochs(path: Path, entries: Iterable[tuple[int, int]]) -> None:
    """Write (epoch, start offset) pairs, oldest first, in Kafka's format."""
    write_atomic(path, checkpoint_bytes([f"{epoch} {start_offset}" for epoch, start_offset in entries]))


def read_offsets(path: Path) -> dict[tuple[str, int], int]:
    """(topic, partition) -> offset of an offset checkpoint, in file order."""
    name = os.fsdecode(path)
    offsets: dict[tuple[str, int], int] = {}
    for line, (topic, partition_text, offset_text) in checkpoint_lines(name, read_file(path), 3):
        partition = number(name, line, "partition", partition_text, 0, INT32_MAX_VALUE)
        offset = number(name, line, "offset", offset_text, 0, INT64_MAX_VALUE)
        if (topic, partition) in offsets:
            raise corrupt(name, line, f"{topic} {partition} occurs a second time")
        offsets[topic, partition] = offset
    return offsets


class SharedOffsets:
    """Offset checkpoints with entries for many logs, parsed once for all logs of a directory instead of once for each.
    For one pass over the directory: later writes are not seen. Any threads."""

    def __init__(self) -> None:
        self._parsed: dict[str, dict[tuple[str, int], int] | None] = {}

    def read(self, path: Path) -> dict[tuple[str, int], int] | None:
        """Like `read_offsets`; None when the file does not exist. Do not change the result."""
        name = os.fsdecode(path)
        if name not in self._parsed:
            self._parsed[name] = read_offsets(name) if os.path.exists(name) else None
        return self._parsed[name]


def write_offsets(path: Path, offsets: Mapping[tuple[str, int], int], *, modified_ns: int = -1) -> None:
    """Write (topic, partition) -> offset as an offset checkpoint, in the mapping's order. `modified_ns`: as for
    `write_atomic`."""
    lines = []
    for (topic, partition), offset in offsets.items():
        if not topic or topic.split() != [topic]:
            raise InvalidArgumentError(f"topic: {topic!r} cannot be a field of a checkpoint line")
        lines.append(f"{topic} {partition} {offset}")
    write_atomic(path, checkpoint_bytes(lines), modified_ns=modified_ns)


# Topic and directory ids ---------------------------------------------------------------------------------------------

def parse_uuid(path: str, line: int, name: str, text: str) -> uuid.UUID:
    """Parse an id: Kafka writes 22 characters of base64url, and reads them with padding too."""
    found = ID_TEXT.fullmatch(text)
    if found is not None:
        value = uuid.UUID(bytes=urlsafe_b64decode(found[1] + "=="))
        if format_uuid(value) == found[1]:
            return value
    raise corrupt(path, line, f"{name}: {text!r} is not an id of 22 base64url characters")


def format_uuid(value: uuid.UUID) -> str:
    return urlsafe_b64encode(value.bytes).decode().rstrip("=")


def read_partition_metadata(directory: Path) -> uuid.UUID | None:
    """The topic id in the directory's `partition.metadata`; None when the file is missing or empty. A power loss may
    leave it empty where the log had no record yet."""
    path = os.path.join(os.fsdecode(directory), PARTITION_METADATA_FILE)
    data = read_if_present(path)
    fields: dict[str, tuple[int, str]] = {}
    if data is None or not data.strip(b"\0"):
        return None
    for line, text in enumerate(decoded(path, data, "utf-8").splitlines(), 1):
        key, separator, value = text.partition(":")
        if not separator or key in fields or key not in ("version", "topic_id"):
            raise corrupt(path, line, f"`version: 0` or `topic_id: <id>` expected: {text!r}")
        fields[key] = (line, value.strip())
    if len(fields) != 2:
        raise corrupt(path, 0, "version and topic_id expected")
    number(path, fields["version"][0], "version", fields["version"][1], 0, 0)
    topic_id = parse_uuid(path, fields["topic_id"][0], "topic_id", fields["topic_id"][1])
    if topic_id.int == 0:
        raise corrupt(path, fields["topic_id"][0], "topic_id: the zero id is no topic's")
    return topic_id


def write_partition_metadata(directory: Path, topic_id: uuid.UUID) -> None:
    """Write `partition.metadata` for the topic id (a `uuid.UUID`), without a flush: the log in the directory does that
    before its first record."""
    if topic_id.int == 0:
        raise InvalidArgumentError("topic_id: the zero id is no topic's")
    write_atomic(os.path.join(os.fsdecode(directory), PARTITION_METADATA_FILE),
                 f"version: 0\ntopic_id: {format_uuid(topic_id)}".encode(), durable=False)


# Java properties -----------------------------------------------------------------------------------------------------

def logical_lines(text: str) -> list[tuple[int, str]]:
    """(line number, logical line) pairs: comments and blank lines dropped, continued lines joined.

    A line is continued when it ends with an odd number of backslashes; the next one's leading blanks are dropped, and
    it may not be a comment. Lines end with newline, return, or both (java.util.Properties, `load`).
    """
    found = []
    joined = ""
    first = 0
    for line, natural in enumerate(re.split(r"\r\n|\n|\r", text), 1):
        natural = natural.lstrip(" \t\f")
        if not first:
            if natural == "" or natural[0] in "#!":
                continue
            first = line
        backslashes = len(natural) - len(natural.rstrip("\\"))
        if backslashes % 2 == 1:
            joined += natural[:-1]
            continue
        found.append((first, joined + natural))
        joined = ""
        first = 0
    if first and joined:
        found.append((first, joined))
    return found


def unescape(path: str, line: int, text: str) -> str:
    pieces = []
    at = 0
    while True:
        escape = text.find("\\", at)
        if escape < 0 or escape + 1 == len(text):
            pieces.append(text[at:] if escape < 0 else text[at:escape])
            break
        pieces.append(text[at:escape])
        letter = text[escape + 1]
        at = escape + 2
        if letter == "u":
            digits = text[at:at + 4]
            if re.fullmatch("[0-9a-fA-F]{4}", digits) is None:
                raise corrupt(path, line, f"malformed escape \\u{digits}")
            pieces.append(chr(int(digits, 16)))
            at += 4
        else:
            pieces.append({"t": "\t", "n": "\n", "r": "\r", "f": "\f"}.get(letter, letter))
    # \u escapes are UTF-16 units: halves of a pair become one character.
    return "".join(pieces).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def split_property(text: str) -> tuple[str, str]:
    """Key and value, still escaped: the key ends at the first unescaped `=`, `:` or blank."""
    at = 0
    size = len(text)
    while at < size and text[at] not in "=: \t\f":
        at += 2 if text[at] == "\\" else 1
    at = min(at, size)
    value = text[at:].lstrip(" \t\f")
    if value[:1] in ("=", ":"):
        value = value[1:].lstrip(" \t\f")
    return text[:at], value


def escape_property(text: str, *, key: bool) -> str:
    pieces = []
    for at, character in enumerate(text):
        if character in "\\=:#!":
            pieces.append("\\" + character)
        elif character in "\t\n\r\f":
            pieces.append({"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}[character])
        elif character == " " and (key or at == 0):
            pieces.append("\\ ")
        elif " " <= character <= "~":
            pieces.append(character)
        else:
            units = character.encode("utf-16-be", "surrogatepass")
            pieces.extend([f"\\u{units[i:i + 2].hex().upper()}" for i in range(0, len(units), 2)])
    return "".join(pieces)


def property_lines(path: str, data: bytes) -> dict[str, tuple[int, str]]:
    """key -> (line, value). A repeated key replaces the one before."""
    properties = {}
    for line, text in logical_lines(data.decode("latin-1")):
        key, value = split_property(text)
        properties[unescape(path, line, key)] = (line, unescape(path, line, value))
    return properties


def read_properties(path: Path) -> dict[str, str]:
    """Read a file of Java properties, as java.util.Properties reads it from a stream (ISO 8859-1)."""
    return {key: value for key, (_, value) in property_lines(os.fsdecode(path), read_file(path)).items()}


def write_properties(path: Path, properties: Mapping[str, str]) -> None:
    """Write Java properties in the mapping's order: ASCII, all else as \\u escapes."""
    write_atomic(path, "".join([
        f"{escape_property(key, key=True)}={escape_property(value, key=False)}\n" for key, value in properties.items()
    ]).encode("ascii"))


@dataclass(frozen=True)
class MetaProperties:
    """Owner of a log directory, in `meta.properties`.

    Version 1: `cluster_id` and `node_id` are present, `directory_id` usually. Version 0, of ZooKeeper times: all may be
    None.
    """

    node_id: int | None
    cluster_id: str | None
    directory_id: uuid.UUID | None = None
    version: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        if self.version not in (0, 1):
            raise InvalidArgumentError(f"version: {self.version} is not 0 or 1")
        if self.version == 1 and (self.node_id is None or self.cluster_id is None):
            raise InvalidArgumentError("node_id, cluster_id: version 1 needs both")
        if self.node_id is not None and not 0 <= self.node_id <= INT32_MAX_VALUE:
            raise InvalidArgumentError(f"node_id: {self.node_id} is outside 0 to {INT32_MAX_VALUE}")


def read_meta_properties(directory: Path) -> MetaProperties | None:
    """The directory's `meta.properties`; None when the file does not exist. Other keys are ignored."""
    path = os.path.join(os.fsdecode(directory), META_PROPERTIES_FILE)
    data = read_if_present(path)
    if data is None:
        return None
    found = property_lines(path, data)
    line, text = found.get("version", (0, "0"))
    version = number(path, line, "version", text, 0, 1)
    node_key = "node.id" if version == 1 else "broker.id"
    if version == 1:
        for key in ("node.id", "cluster.id"):
            if key not in found:
                raise corrupt(path, 0, f"{key} is missing")
    node_id = cluster_id = directory_id = None
    if node_key in found:
        line, text = found[node_key]
        node_id = number(path, line, node_key, text, 0, INT32_MAX_VALUE)
    if "cluster.id" in found:
        cluster_id = found["cluster.id"][1]
    if "directory.id" in found:
        line, text = found["directory.id"]
        directory_id = parse_uuid(path, line, "directory.id", text)
    return MetaProperties(node_id, cluster_id, directory_id, version=version)


def write_meta_properties(directory: Path, properties: MetaProperties) -> None:
    """Write the directory's `meta.properties`."""
    found = {"version": str(properties.version)}
    if properties.node_id is not None:
        found["node.id" if properties.version == 1 else "broker.id"] = str(properties.node_id)
    if properties.cluster_id is not None:
        found["cluster.id"] = properties.cluster_id
    if properties.directory_id is not None:
        found["directory.id"] = format_uuid(properties.directory_id)
    write_properties(os.path.join(os.fsdecode(directory), META_PROPERTIES_FILE), found)


# The marks of a clean stop -------------------------------------------------------------------------------------------

def read_clean_shutdown(directory: Path) -> int | None:
    """The broker epoch in the log directory's `.kafka_cleanshutdown`; -1 when the file names none (empty before Kafka
    3.8). None when the file does not exist: the last stop was not clean. Remove the file before the first write."""
    path = os.path.join(os.fsdecode(directory), CLEAN_SHUTDOWN_FILE)
    data = read_if_present(path)
    if data is None:
        return None
    if not data:
        return -1
    try:
        content = json.loads(data)
    except ValueError as error:
        raise corrupt(path, 0, f"not JSON: {error}") from None
    if not isinstance(content, dict) or type(content.get("version")) is not int:
        raise corrupt(path, 0, "an object with a number `version` expected")
    broker_epoch = content.get("brokerEpoch", -1)
    if type(broker_epoch) is not int or not -1 <= broker_epoch <= INT64_MAX_VALUE:
        raise corrupt(path, 0, f"brokerEpoch: {broker_epoch!r} is not a number from -1 to {INT64_MAX_VALUE}")
    return broker_epoch


def write_clean_shutdown(directory: Path, broker_epoch: int) -> None:
    """Mark the log directory as cleanly stopped: after every log in it is flushed and closed."""
    write_atomic(os.path.join(os.fsdecode(directory), CLEAN_SHUTDOWN_FILE),
                 b'{"version":0,"brokerEpoch":%d}' % broker_epoch)


@dataclass(frozen=True)
class LogState:
    """State that a stand-alone log keeps in `kraft-log-state` beside its segments.

    `log_start`: first offset that readers may see. `recovery_point`: everything below it is known to be on the disk.
    `clean`: the log was closed cleanly with `log_end` as its end, and its files can be trusted; else `log_end` is -1.
    `extra`: further `key: value` strings, kept for other users of the file. Immutable; `InvalidArgumentError` when the
    numbers contradict each other.
    """

    log_start: int
    recovery_point: int
    log_end: int = -1
    clean: bool = False
    extra: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.log_start < 0 or self.recovery_point < 0:
            raise InvalidArgumentError(f"log_start, recovery_point: {self.log_start}, {self.recovery_point}: neither "
                                       "below 0")
        if self.clean and self.log_end < max(self.log_start, self.recovery_point):
            raise InvalidArgumentError(f"log_end: {self.log_end} is below log_start {self.log_start} or recovery_point "
                                       f"{self.recovery_point}")
        if not self.clean and self.log_end != -1:
            raise InvalidArgumentError(f"log_end: {self.log_end} is known of a cleanly closed log only")
        for key, value in self.extra.items():
            if STATE_KEY.fullmatch(key) is None or key in STATE_KEYS or STATE_VALUE.fullmatch(value) is None:
                raise InvalidArgumentError(f"extra: {key!r}: {value!r} cannot be a line of the state file")


def read_log_state(directory: Path) -> LogState | None:
    """The log directory's own state; None when the file does not exist (a new log, or one that Kafka wrote)."""
    path = log_state_path(directory)
    data = read_if_present(path)
    fields: dict[str, tuple[int, str]] = {}
    if data is None:
        return None
    body = data[:data.rfind(b"crc=")] if b"crc=" in data else b""
    lines = decoded(path, data, "ascii").split("\n")
    if lines[0] != "kraft-log-state 1":
        raise corrupt(path, 1, f"`kraft-log-state 1` expected: {lines[0]!r}")
    if data != body + b"crc=%08x\n" % checksum(body):
        raise corrupt(path, max(len(lines) - 1, 1), "the checksum is missing or does not fit the lines before it")
    for line, text in enumerate(lines[1:-2], 2):
        key, separator, value = text.partition("=")
        if not separator or key in fields:
            raise corrupt(path, line, f"`key=value` with a new key expected: {text!r}")
        fields[key] = (line, value)
    numbers = []
    for key, low, high in (("log_start", 0, INT64_MAX_VALUE), ("recovery_point", 0, INT64_MAX_VALUE),
                           ("log_end", -1, INT64_MAX_VALUE), ("clean", 0, 1)):
        if key not in fields:
            raise corrupt(path, 0, f"{key} is missing")
        line, value = fields.pop(key)
        numbers.append(number(path, line, key, value, low, high))
    try:
        log_start, recovery_point, log_end, clean = numbers
        return LogState(log_start, recovery_point, log_end, bool(clean),
                        {key: value for key, (_, value) in fields.items()})
    except InvalidArgumentError as error:
        raise corrupt(path, 0, str(error)) from None


def log_state_path(directory: Path) -> str:
    """The state file of the log in the directory."""
    return os.path.join(os.fsdecode(directory), LOG_STATE_FILE)


def write_log_state(directory: Path, state: LogState) -> None:
    """Write the state durably."""
    write_atomic(log_state_path(directory), log_state_bytes(state))


def log_state_bytes(state: LogState) -> bytes:
    """The content of the state file: a line `kraft-log-state 1` (name and version), `key=value` lines, and the CRC-32C
    of all that in a last line `crc=<8 hex digits>`."""
    lines = [
        "kraft-log-state 1", f"log_start={state.log_start}", f"recovery_point={state.recovery_point}",
        f"log_end={state.log_end}", f"clean={int(state.clean)}",
        *[f"{key}={value}" for key, value in state.extra.items()],
    ]
    body = "".join([f"{line}\n" for line in lines]).encode("ascii")
    return body + b"crc=%08x\n" % checksum(body)
