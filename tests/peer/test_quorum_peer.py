"""One metadata quorum of controllers of ours and of Kafka's.

Each follows the other, votes with the other, and takes over from the other. The tools of either change and dump the
state of both.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from kraft.protocol.ids import id_text
from kraft.runtime.storage.metadata_directory import DIRECTORY_NAME
from kraft.runtime.storage.snapshot_files import list_snapshots
from tests.integration.admin import wait_until
from tests.integration.history import registered
from tests.peer.kafka import dump_log, require_kafka
from tests.peer.quorum import JAVA, OURS, SECONDS, MixedQuorum, metadata_quorum, mixed_quorum

pytestmark = pytest.mark.peer

OFFSET: Final = re.compile(r"(?:baseOffset|\| offset): (\d+) ")
"""Beginning of the line of a batch, and of a record, in the output of Kafka's dumper."""


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """Nothing of the engine runs in this process."""


@pytest.fixture(autouse=True)
def kafka() -> None:
    require_kafka()


@pytest.fixture
def quorum(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[MixedQuorum]:
    """A quorum of the kinds that the test's parameter names; the first of them votes alone, all run."""
    with mixed_quorum(tmp_path, request.param, voters=1) as made:
        made.launch()
        yield made


def check_dumps(quorum: MixedQuorum) -> None:
    """Stop all nodes and check that Kafka's dumper prints the same for the logs of both kinds.

    The nodes stop first because a live log file ends in zeros, which the dumper takes for damage. The comparison ends
    at the common offset: a record that a leader appends while it stops may be in no other log.
    """
    committed = quorum.await_all()
    for node in quorum.nodes.values():
        node.stop()
        assert node.alarms() == []
    dumps = [dumped(node.directory, committed) for node in quorum.nodes.values()]
    assert len(dumps[0]) > 10
    assert dumps[1:] == [dumps[0]] * (len(dumps) - 1)


def dumped(directory: Path, end_offset: int) -> list[str]:
    """Batches and records below `end_offset` of a metadata log, as Kafka's dumper prints them."""
    lines = dump_log(sorted((directory / DIRECTORY_NAME).glob("*.log"))).splitlines()
    found = [OFFSET.match(line) for line in lines]
    return [match.string for match in found if match is not None and int(match[1]) < end_offset]


@pytest.mark.parametrize("quorum", ["jo", "oj"], indirect=True)
def test_the_other_kind_follows_and_votes(quorum: MixedQuorum) -> None:
    quorum.commit()
    assert not quorum.replica(2).voter
    quorum.check_logs()
    quorum.add(2)
    assert quorum.voters() == [1, 2]
    directory = quorum.nodes[1].directory
    wait_until(lambda: set(registered(directory, quorum.describe().high_watermark)) == {1, 2},
               "both have registered with the active controller", SECONDS)
    quorum.commit()
    assert quorum.check_logs() > 10
    assert [each.log_end_offset for each in quorum.describe().voters].count(-1) == 0
    check_dumps(quorum)


@pytest.mark.parametrize("quorum", ["oj", "oo"], indirect=True)
def test_kafkas_tool_describes_and_changes_our_quorum(quorum: MixedQuorum, tmp_path: Path) -> None:
    quorum.commit()
    new = quorum.replica(2)
    ours = quorum.nodes[1].controller_address
    status = metadata_quorum(ours, "describe", "--status")
    fields = dict(re.findall(r"^(\w+):\s+(.*)$", status, re.MULTILINE))
    assert (fields["LeaderId"], fields["LeaderEpoch"]) == ("1", "1")
    assert f'"id": 1, "directoryId": "{id_text(quorum.nodes[1].directory_id)}"' in fields["CurrentVoters"]
    assert f'"endpoints": ["CONTROLLER://{ours}"]' in fields["CurrentVoters"]
    assert '"id": 2' in fields["CurrentObservers"]
    settings = tmp_path / "add.properties"
    node = quorum.nodes[2]
    settings.write_text("".join(f"{name}={value}\n" for name, value in {
        "process.roles": "controller", "node.id": "2", "controller.listener.names": "CONTROLLER",
        "listeners": f"CONTROLLER://{node.controller_address}", "log.dirs": str(node.directory),
        **quorum.settings}.items()))
    metadata_quorum(ours, "--command-config", str(settings), "add-controller")
    assert quorum.voters() == [1, 2]
    rows = [line.split() for line in metadata_quorum(ours, "describe", "--replication").splitlines()]
    assert [(row[0], row[1], row[-1]) for row in rows if row and row[0].isdigit()] == [
        ("1", id_text(quorum.nodes[1].directory_id), "Leader"), ("2", id_text(new.directory_id), "Follower")]
    metadata_quorum(ours, "remove-controller", "--controller-id", "2", "--controller-directory-id",
                    id_text(new.directory_id))
    assert quorum.voters() == [1]


@pytest.mark.timeout(1800)     # twenty kills, mostly of Kafka's processes
@pytest.mark.parametrize("kinds", ["joo", "ojj"])
def test_leaders_die_and_the_logs_stay_the_same(kinds: str, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    with mixed_quorum(tmp_path, kinds) as quorum:
        quorum.launch()
        quorum.commit()
        for _ in range(pytestconfig.getoption("--leader-kills")):
            leader = quorum.leader
            leader.kill()
            quorum.commit(2)
            leader.launch()
            quorum.commit(1)
            quorum.check_logs()
        check_dumps(quorum)


@pytest.mark.parametrize("kinds", [JAVA + OURS, OURS + JAVA])
def test_the_other_kind_begins_with_a_snapshot(kinds: str, tmp_path: Path) -> None:
    """Kafka's dumper also reads the snapshots of both."""
    with mixed_quorum(tmp_path, kinds, voters=1, metadata_log_max_record_bytes_between_snapshots="500") as quorum:
        quorum.launch([1])
        directory = quorum.nodes[1].directory / DIRECTORY_NAME

        def has_snapshot() -> bool:
            quorum.commit(5)
            return list_snapshots(directory)[-1].end_offset > 0
        wait_until(has_snapshot, "a snapshot is written", SECONDS)
        first = list_snapshots(directory)[-1]
        quorum.launch([2])
        quorum.replica(2)
        quorum.await_all()
        fetched = quorum.nodes[2].directory / DIRECTORY_NAME
        assert list_snapshots(fetched)[0] >= first
        quorum.add(2)
        quorum.commit()
        quorum.await_all()
        for node in quorum.nodes.values():
            node.stop()
        snapshots = [path / each.file_name for path in (directory, fetched) for each in list_snapshots(path)]
        text = dump_log(snapshots)
        assert text.count("SnapshotFooter") == text.count("SnapshotHeader") == len(snapshots)
