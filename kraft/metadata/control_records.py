"""Control records of the metadata log that concern the quorum: leader changes, kraft.version, voters (KIP-853)."""

from typing import Final

from kraft.metadata.errors import MetadataLogError
from kraft.protocol.message import Message
from kraft.protocol.messages.kraft_version_record import KRaftVersionRecord
from kraft.protocol.messages.leader_change_message import LeaderChangeMessage
from kraft.protocol.messages.snapshot_footer_record import SnapshotFooterRecord
from kraft.protocol.messages.snapshot_header_record import SnapshotHeaderRecord
from kraft.protocol.messages.voters_record import VotersRecord
from kraft.structs import mutable

LEADER_CHANGE: Final = 2
SNAPSHOT_HEADER: Final = 3
SNAPSHOT_FOOTER: Final = 4
KRAFT_VERSION_RECORD: Final = 5
VOTERS: Final = 6

_MESSAGES: Final[dict[int, type[Message]]] = {
    LEADER_CHANGE: LeaderChangeMessage,
    SNAPSHOT_HEADER: SnapshotHeaderRecord,
    SNAPSHOT_FOOTER: SnapshotFooterRecord,
    KRAFT_VERSION_RECORD: KRaftVersionRecord,
    VOTERS: VotersRecord,
}
_TYPES: Final = {message: kind for kind, message in _MESSAGES.items()}


def encode_control(message: Message) -> tuple[int, bytes]:
    """Return type and value of a control record; each is written at version 0, which its first field repeats."""
    return _TYPES[type(message)], message.encode(0)


def control_message(kind: int, value: bytes) -> Message:
    """Return the message of a control record of the metadata log; its first two bytes are its version."""
    message = _MESSAGES.get(kind)
    if message is None:
        raise MetadataLogError(f"control record type {kind} does not belong into the metadata log")
    return message.decode(value, int.from_bytes(value[:2], "big"))


@mutable
class QuorumRecords:
    """Newest record of each kind, committed or not: voters are in force from the moment they are in the log (KIP-853).

    `voters` is None at kraft.version 0, where the voters are configured. `voters_offset` is -1 where the value comes
    from the snapshot that `format` wrote, or is not known.
    """

    kraft_version: int = 0
    voters: VotersRecord | None = None
    voters_offset: int = -1

    def apply(self, message: Message, offset: int) -> None:
        """Apply one control record; ignore those that do not concern the quorum."""
        if isinstance(message, KRaftVersionRecord):
            self.kraft_version = message.kraft_version
        elif isinstance(message, VotersRecord):
            self.voters = message
            self.voters_offset = offset

    def messages(self) -> list[Message]:
        """Return the control records that reproduce this state."""
        found: list[Message] = [KRaftVersionRecord(version=0, kraft_version=self.kraft_version)]
        if self.voters is not None:
            found.append(self.voters)
        return found

    def voter_ids(self) -> list[int]:
        return [] if self.voters is None else [voter.voter_id for voter in self.voters.voters]
