"""The file `quorum-state` of the metadata log: the leader of an epoch, and the vote of this node (KIP-595).

One JSON object on one line. Version 1 is of dynamic quorums (kraft.version 1), version 0 of static ones, which repeat
the configured voters. An unknown version is refused: a vote that is not understood could be given twice.
"""

import json
import os
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from kraft.protocol.ids import id_of, id_text
from kraft.structs import immutable
from kraft_native.base.errors import CorruptFileError
from kraft_native.file import file_io

NAME: Final = "quorum-state"
NOBODY: Final = -1
NO_DIRECTORY: Final = UUID(int=0)


@immutable
class QuorumStateFile:
    """Content of the file; -1 is nobody. Only version 0 has `voters`."""

    leader_id: int = NOBODY
    leader_epoch: int = 0
    voted_id: int = NOBODY
    voted_directory_id: UUID = NO_DIRECTORY
    version: int = 1
    voters: tuple[int, ...] = ()

    def encode(self) -> bytes:
        if self.version == 0:
            content: dict[str, Any] = {
                "clusterId": "", "leaderId": self.leader_id, "leaderEpoch": self.leader_epoch,
                "votedId": self.voted_id, "appliedOffset": 0,
                "currentVoters": [{"voterId": voter} for voter in self.voters],
            }
        else:
            content = {"leaderId": self.leader_id, "leaderEpoch": self.leader_epoch, "votedId": self.voted_id,
                       "votedDirectoryId": id_text(self.voted_directory_id)}
        return json.dumps({**content, "data_version": self.version}, separators=(",", ":")).encode()


def read_quorum_state(directory: Path) -> QuorumStateFile | None:
    """Read the file in a metadata log's directory; None without one. Raises `CorruptFileError`, which names the field,
    for anything but a state file: a vote that is not understood could be given twice."""
    path = directory / NAME
    if not path.exists():
        return None
    try:
        return _parsed(file_io.read_file(path))
    except ValueError as error:
        raise CorruptFileError(f"{os.fspath(path)}: {error}; restore the file from a copy of this node's directory, or "
                               "remove this controller from the quorum and format its directory again") from error


def _parsed(data: bytes) -> QuorumStateFile:
    if not data.strip(b"\0 \r\n\t"):
        raise ValueError("the file is empty")
    try:
        content = json.loads(data)
    except ValueError as error:
        raise ValueError(f"it is not JSON ({error})") from None
    if not isinstance(content, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 - of a file, not of an argument
    version = _number(content, "data_version")
    if version not in (0, 1):
        raise ValueError(f"data_version: {version} is not 0 or 1")
    return QuorumStateFile(
        leader_id=_number(content, "leaderId"), leader_epoch=_number(content, "leaderEpoch"),
        voted_id=_number(content, "votedId"), version=version,
        voted_directory_id=_directory_id(content) if version == 1 else NO_DIRECTORY, voters=_voters(content))


def _field(content: dict[str, Any], name: str) -> Any:
    if name not in content:
        raise ValueError(f"{name} is missing")
    return content[name]


def _number(content: dict[str, Any], name: str) -> int:
    value = _field(content, name)
    if type(value) is not int or not NOBODY <= value < 1 << 31:
        raise ValueError(f"{name}: {value!r} is not a whole number from {NOBODY} to {(1 << 31) - 1}")
    return value


def _directory_id(content: dict[str, Any]) -> UUID:
    value = _field(content, "votedDirectoryId")
    try:
        return id_of(value)
    except (ValueError, TypeError):
        raise ValueError(f"votedDirectoryId: {value!r} is not an id of 22 base64url characters") from None


def _voters(content: dict[str, Any]) -> tuple[int, ...]:
    voters = content.get("currentVoters") or []
    if not isinstance(voters, list) or not all(isinstance(voter, dict) for voter in voters):
        raise ValueError("currentVoters: it is not a list of objects")
    return tuple(_number(voter, "voterId") for voter in voters)


def write_quorum_state(directory: Path, state: QuorumStateFile) -> None:
    """Replace the file, durably: after any crash it has either the old or the new content."""
    file_io.write_atomic(directory / NAME, state.encode())
