"""Controllers agree on which of them writes a snapshot (KIP-631): standbys on request, the active controller after it
handed over."""

from kraft.runtime.storage.metadata_directory import DIRECTORY_NAME
from kraft.runtime.storage.snapshot_files import list_snapshots
from tests.integration.admin import wait_until
from tests.integration.quorum import ControllerProcess, MakeQuorum


def snapshots(node: ControllerProcess) -> list[int]:
    return [each.end_offset for each in list_snapshots(node.directory / DIRECTORY_NAME) if each.end_offset > 0]


def test_the_active_controller_hands_over_before_it_writes(new_quorum: MakeQuorum) -> None:
    quorum = new_quorum(3)
    for node in quorum.nodes.values():
        node.settings["metadata.log.max.snapshot.interval.ms"] = "2000"
    quorum.start()
    before = quorum.describe()
    wait_until(lambda: all(map(snapshots, quorum.nodes.values())), "each has a snapshot")
    assert quorum.describe().epoch > before.epoch
    log = quorum.nodes[before.leader].log()
    resigned = log.index("this node is Resigned in epoch", log.index("hands over the leadership before it writes"))
    assert resigned < log.index("metadata snapshot 0")
    firsts = [snapshots(node)[0] for node in quorum.nodes.values()]
    assert len(set(firsts)) == 3, "one after the other"
