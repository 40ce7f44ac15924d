"""quorum-state in both versions; Kafka's own files are written back byte for byte."""

from pathlib import Path
from uuid import UUID

import pytest

from kraft.protocol.ids import id_of, id_text
from kraft.runtime.quorum.state_file import NAME, QuorumStateFile, read_quorum_state, write_quorum_state
from kraft_native.base.errors import CorruptFileError
from tests.golden import golden, needs_golden

DIRECTORIES = [("quorum", kind, f"node-{node}", "__cluster_metadata-0")
               for kind in ("dynamic", "static") for node in (1, 2, 3)]


@needs_golden
@pytest.mark.parametrize("parts", [*DIRECTORIES, ("node", "data", "__cluster_metadata-0")])
def test_kafkas_files(parts: tuple[str, ...]) -> None:
    state = read_quorum_state(golden(*parts))
    assert state is not None
    assert state.encode() == golden(*parts, NAME).read_bytes()
    assert state.voters == ((1, 2, 3) if "static" in parts else ())


@pytest.mark.parametrize("state", [
    QuorumStateFile(leader_id=3, leader_epoch=9),
    QuorumStateFile(leader_epoch=2, voted_id=5, voted_directory_id=UUID(int=7)),
    QuorumStateFile(leader_id=1, leader_epoch=4, version=0, voters=(1, 2)),
])
def test_a_written_state_is_read_back(tmp_path: Path, state: QuorumStateFile) -> None:
    assert read_quorum_state(tmp_path) is None
    write_quorum_state(tmp_path, QuorumStateFile())
    write_quorum_state(tmp_path, state)
    assert read_quorum_state(tmp_path) == state


@pytest.mark.parametrize("text", [
    "", "{", "[]", "3", "{}", '{"leaderId":1,"leaderEpoch":5,"votedId":-1,"data_version":2}',
    '{"leaderId":1,"leaderEpoch":5,"votedId":-1,"votedDirectoryId":"AAAA","data_version":1}',
    '{"leaderId":1,"leaderEpoch":"x","votedId":-1,"data_version":0}',
])
def test_unreadable_files_and_unknown_versions_are_refused(tmp_path: Path, text: str) -> None:
    """Hazards 20 and 21: the node stops and does not vote again."""
    (tmp_path / NAME).write_text(text)
    with pytest.raises(CorruptFileError, match=NAME):
        read_quorum_state(tmp_path)


def test_ids_are_kafkas_text() -> None:
    assert id_text(UUID(int=1)) == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert id_of("AAAAAAAAAAAAAAAAAAAAAQ") == UUID(int=1)
