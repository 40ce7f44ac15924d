"""The file `quorum-state` of the metadata log: who leads in which epoch, and whom this node voted for (KIP-595).

One JSON object on one line. Version 1 is of dynamic quorums (kraft.version 1), version 0 of static ones, which repeat
the configured voters. An unknown version is refused: a vote that is not understood could be given twice.
"""

import json
import os
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from kraft.immutable import immutable
from kraft.protocol.ids import id_of, id_text
from kraft_native import fileio
from kraft_native.errors import CorruptFileError

NAME: Final = "quorum-state"
NOBODY: Final = -1
NO_DIRECTORY: Final = UUID(int=0)


@immutable
class QuorumStateFile:
    """What the file says; -1 is nobody. `voters` are there in version 0 only."""

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
    """What the file in a metadata log's directory says, None without one. `CorruptFileError` for anything
    unreadable."""
    path = directory / NAME
    if not path.exists():
        return None
    try:
        return _parsed(json.loads(fileio.read_file(path)))
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptFileError(f"{os.fspath(path)}: {error!r}") from error


def _parsed(content: Any) -> QuorumStateFile:
    version = content["data_version"]
    if version not in (0, 1):
        raise ValueError(f"data_version {version!r} is not known")
    return QuorumStateFile(
        leader_id=int(content["leaderId"]), leader_epoch=int(content["leaderEpoch"]),
        voted_id=int(content["votedId"]), version=version,
        voted_directory_id=id_of(content["votedDirectoryId"]) if version == 1 else NO_DIRECTORY,
        voters=tuple(int(voter["voterId"]) for voter in content.get("currentVoters") or ()),
    )


def write_quorum_state(directory: Path, state: QuorumStateFile) -> None:
    """Replaces the file, durably: afterwards, and after any crash, it says the old thing or the new one."""
    fileio.write_atomic(directory / NAME, state.encode())
