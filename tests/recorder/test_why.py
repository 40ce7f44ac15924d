"""Explanations of quorums whose state is known."""

from collections.abc import Callable

from kraft.raft.messages import AddVoterRequest, ReassignVotersRequest
from kraft.raft.transitions import Role
from kraft.recorder.entry import STATE
from kraft.recorder.ring import Recorder
from kraft.recorder.state import state_values
from kraft.recorder.timeline import merged
from kraft.recorder.why import Answer, Situation, answers
from tests.raft.world import World, voter

IDS = (1, 2, 3, 4, 5)


class Scene:
    """A quorum whose nodes record."""

    def __init__(self, voters: tuple[int, ...] = (1, 2, 3), observers: tuple[int, ...] = (), **settings: int) -> None:
        self.recorders = {node_id: Recorder(node_id) for node_id in IDS}
        self.world = World(
            voters, observers,
            record=lambda node_id, now_ms, event: self.recorders[node_id].record(now_ms, event), **settings)

    def situation(self) -> Situation:
        """Return the situation that the running nodes report."""
        nodes = self.world.nodes
        entries = [entry for node_id, node in nodes.items() if node.raft is not None for entry in (
            *self.recorders[node_id].entries(),
            self.recorders[node_id].unstored(self.world.now_ms, STATE, state_values(node.raft)))]
        return Situation(merged(entries), [node_id for node_id, node in nodes.items() if node.raft is not None],
                         {node_id: "cannot connect" for node_id, node in nodes.items() if node.raft is None})

    def answers(self) -> dict[tuple[str, int], Answer]:
        return {(each.about, each.node_id): each for each in answers(self.situation())}

    def text(self) -> str:
        return " ".join(each.text for each in answers(self.situation()) if not each.is_well)


def led(*arguments: tuple[int, ...]) -> Scene:
    scene = Scene(*arguments)
    scene.world.elect(1)
    scene.world.pass_time(1000)
    return scene


def until(scene: Scene, done: Callable[[], bool]) -> None:
    for _ in range(200):
        if done():
            return
        scene.world.pass_time(100)
    raise AssertionError("it does not come to that")


def test_all_is_well() -> None:
    scene = led()
    assert scene.text() == ""
    assert sorted(scene.answers()) == [("change", 1), ("leader", 1), ("voter", 2), ("voter", 3)]
    assert "Node 1 leads epoch 1 since" in scene.answers()["leader", 1].text
    assert scene.answers()["voter", 2].text == "Voter 2 is caught up."


def test_too_few_voters_are_up() -> None:
    scene = led()
    scene.world.crash(2)
    scene.world.crash(3)
    until(scene, lambda: scene.world.role(1) is not Role.LEADER)
    assert scene.text() == ("There is no leader: 1 of 3 voters answers, 2 are needed; node 2: cannot connect; node 3: "
                            "cannot connect.")


def test_voters_do_not_hear_each_other() -> None:
    scene = Scene()
    scene.world.partition((1,), (2,), (3,))
    scene.world.time_out(1)
    assert scene.text() == ("There is no leader: node 1 requests pre-votes in epoch 0 (the election time-out expired), "
                            "no answer from 2, 3.")


def test_a_vote_is_refused_for_a_short_log() -> None:
    scene = led()
    scene.world.crash(3)
    scene.world.propose(1, "a")
    scene.world.pass_time(1000)
    scene.world.crash(1)
    scene.world.start(3)
    scene.world.disconnect(3, 1)
    scene.world.time_out(3)
    scene.world.deliver()
    assert "node 3 requests pre-votes in epoch 1" in scene.text()
    assert "refused by 2 (the log here ends at 4@1), no answer from 1" in scene.text()


def test_no_node_knows_the_voters() -> None:
    scene = Scene((), (1, 2))
    assert scene.text().startswith("There is no leader: no controller that answers knows the voters")


def test_a_voter_is_down_and_one_is_cut_off() -> None:
    scene = led((1, 2, 3, 4, 5))
    scene.world.crash(2)
    scene.world.partition((1, 4, 5), (3,))
    until(scene, lambda: scene.world.raft(3).replica.leader_id == 1 and scene.world.role(3) is Role.PROSPECTIVE)
    scene.world.pass_time(2000)
    found_answers = scene.answers()
    assert found_answers["leader", 1].is_well
    assert found_answers["voter", 2].text == "Voter 2 is not caught up: it does not answer (cannot connect)."
    assert "Voter 3 is not caught up: it has not fetched" in found_answers["voter", 3].text or (
        "it fetched" in found_answers["voter", 3].text)
    assert found_answers["voter", 4].is_well


def test_a_voter_follows_nobody() -> None:
    scene = led()
    scene.world.crash(3)
    scene.world.nodes[3].hard_state = scene.world.nodes[3].hard_state._replace(leader_id=-1)
    scene.world.partition((1, 2), (3,))
    scene.world.start(3)
    scene.world.pass_time(1500)
    assert "and knows no leader, while 1 leads epoch 1: the two do not reach each other" in (
        scene.answers()["voter", 3].text)


def test_a_voter_waits_for_its_disk() -> None:
    scene = led()
    scene.world.hold_flushes(3)
    scene.world.propose(1, "a")
    scene.world.pass_time(1500)
    assert scene.answers()["voter", 3].text == (
        "Voter 3 is not caught up: it waits for its disk: its log ends at 4 and is durable to 3.")


def test_a_disk_was_replaced() -> None:
    scene = led()
    scene.world.crash(3)
    scene.world.make(3, disk=1)
    scene.world.pass_time(1500)
    assert "it runs on the disk 3:d103, and 3:d003 is the one that votes: remove that voter and add this one." in (
        scene.answers()["voter", 3].text)


def test_a_change_waits_for_a_voter_that_does_not_run() -> None:
    scene = led()
    scene.world.request(1, AddVoterRequest(voter=voter(4), timeout_ms=60_000))
    assert scene.text() == ("A change of the voters is pending, adding voter 4:d004: it waits for node 4:d004 to "
                            "report its versions, at node4:9093.")


def test_a_reassignment_waits_for_a_lagging_voter() -> None:
    scene = led((1, 2, 3), (4,))
    scene.world.crash(4)
    scene.world.pass_time(3000)
    scene.world.request(1, ReassignVotersRequest(targets=(1, 2, 4)))
    scene.world.pass_time(100)
    assert ("reassigning the voters to 1:d001, 2:d002, 4:d004: it waits for node 4:d004 to catch up: it lacked 1 of 4 "
            "records when it fetched 3.0 s ago") in scene.text()


def test_a_reassignment_waits_for_remaining_voters() -> None:
    scene = led()
    scene.world.crash(3)
    scene.world.pass_time(1200)
    scene.world.request(1, ReassignVotersRequest(targets=(1, 3)))
    scene.world.pass_time(100)
    assert ("reassigning the voters to 1:d001, 3:d003: it waits for a majority of the voters without 2:d002 "
            "to be reachable and caught up: 2 of 2 are needed, not yet 3:d003.") in scene.text()


def test_a_reassignment_waits_for_an_address() -> None:
    """Apache Kafka's controllers do not report their addresses."""
    scene = led((1, 2, 3), (4,))
    scene.world.pass_time(1000)
    scene.world.raft(1).replica.addresses.nodes.pop(4)
    scene.world.request(1, ReassignVotersRequest(targets=(1, 2, 4)))
    scene.world.pass_time(100)
    assert "it waits for node 4:d004 to report its address (DiscoverBrokers" in scene.text()


def test_a_change_waits_for_a_majority() -> None:
    scene = led((1, 2, 3), (4,))
    scene.world.partition((1,), (2, 3), (4,))
    scene.world.request(1, ReassignVotersRequest(targets=(1, 2, 4)))
    assert ("it waits for the record of the voters at offset 3 to be committed: 1 of 3 voters have it, 2 are needed, "
            "not yet 2:d002, 3:d003.") in scene.text()


def test_files_alone_give_the_last_known_state() -> None:
    scene = led()
    live = scene.situation()
    found = answers(Situation([each for each in live.entries if each.what != STATE]))
    assert [(each.about, each.node_id) for each in found] == [("leader", 1), ("voter", 2), ("voter", 3), ("change", 1)]
    assert found[1].text == "Voter 2: the files of the leader do not contain its progress."
