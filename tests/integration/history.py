"""Proposals to a quorum whose fate can be read from its logs. Each sets a quota of a user of its own, whose name is in
the record. Controllers of kraft and of Kafka accept them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from kraft.client.connection import Connection
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from kraft.protocol.messages.alter_client_quotas_response import AlterClientQuotasResponse
from kraft.protocol.messages.client_quota_record import ClientQuotaRecord
from kraft.protocol.messages.register_controller_record import RegisterControllerRecord
from kraft.protocol.record_frames import decode_record
from kraft.runtime.storage.metadata_directory import DIRECTORY_NAME
from kraft_native.batch.batch import Batch, walk
from kraft_native.batch.records import records

QUOTA: Final = "producer_byte_rate"


class Proposal(NamedTuple):
    """A proposal; its times are by one clock. `answered` is None if its fate is unknown: it may be in the log, or
    appear later."""

    name: str
    sent: float
    answered: float | None


def propose(connection: Connection, name: str, timeout: float | None = None) -> ErrorCode:
    """Propose `name` and wait until it is committed or refused."""
    request = AlterClientQuotasRequest(validate_only=False, entries=[EntryData(
        entity=[EntityData(entity_type="user", entity_name=name)], ops=[OpData(key=QUOTA, value=1000.0)])])
    answer = connection.send(request, AlterClientQuotasResponse, timeout=timeout)
    return ErrorCode(answer.entries[0].error_code)  # type: ignore[call-arg]


def log_batches(directory: Path, end_offset: int) -> Iterator[Batch]:
    """Read the batches below `end_offset`, which is committed, in the metadata log of a node's directory. The node may
    be running: what follows may be half written."""
    for path in sorted((directory / DIRECTORY_NAME).glob("*.log")):
        for batch in walk(path.read_bytes()):
            if batch.base_offset >= end_offset:
                return
            yield batch
            if batch.next_offset >= end_offset:
                return


def log_messages(batches: Iterable[Batch]) -> Iterator[tuple[int, Message]]:
    """Return the offset and the content of each metadata record."""
    for batch in batches:
        for record in [] if batch.is_control else records(batch):
            yield record.offset, decode_record(record.value or b"")[0]


def proposed(batches: Iterable[Batch]) -> dict[str, int]:
    """Return the offset of each name that was proposed. Raise AssertionError if a name occurs twice."""
    found: dict[str, int] = {}
    for offset, message in log_messages(batches):
        if isinstance(message, ClientQuotaRecord):
            name = message.entity[0].entity_name or ""
            assert name not in found, f"{name} at {found[name]} and again at {offset}"
            found[name] = offset
    return found


def registered(directory: Path, end_offset: int) -> dict[int, list[RegisterControllerRecord]]:
    """Return the registrations of each controller below `end_offset`, oldest first."""
    found: dict[int, list[RegisterControllerRecord]] = {}
    for _, message in log_messages(log_batches(directory, end_offset)):
        if isinstance(message, RegisterControllerRecord):
            found.setdefault(message.controller_id, []).append(message)
    return found


def check_history(history: Sequence[Proposal], offsets: Mapping[str, int]) -> None:
    """Check that every answered proposal is in the log, and that it precedes each proposal that was sent after its
    answer."""
    answered = [each for each in history if each.answered is not None]
    lost = [each.name for each in answered if each.name not in offsets]
    assert not lost, f"{len(lost)} committed proposals are lost: {lost[:5]}"
    events = sorted([(each.sent, 1, each) for each in history if each.name in offsets]
                    + [(each.answered, 0, each) for each in answered if each.answered is not None])
    highest = (-1, "")
    for _, is_question, each in events:
        if is_question:
            assert offsets[each.name] > highest[0], f"{each.name} is before {highest[1]}, which was committed earlier"
        else:
            highest = max(highest, (offsets[each.name], each.name))


def check_same_logs(directories: Sequence[Path], committed: int) -> int:
    """Check that the logs agree byte for byte below `committed`. Return how many batches each has up to there."""
    logs = [[bytes(batch) for batch in log_batches(each, committed)] for each in directories]
    for directory, log in zip(directories[1:], logs[1:], strict=True):
        for number, (one, other) in enumerate(zip(logs[0], log, strict=False)):
            assert one == other, f"batch {number}: {directories[0]} has {one.hex()}, {directory} has {other.hex()}"
        assert len(log) == len(logs[0]), f"{directories[0]} has {len(logs[0])} batches, {directory} has {len(log)}"
    return len(logs[0])
