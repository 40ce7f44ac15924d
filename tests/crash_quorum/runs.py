"""Runs that each harm a quorum under load, check that nothing was lost, and return the figures measured."""

import itertools
import math
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Self

from kraft.client.quorum import Description
from kraft.protocol.ids import id_text
from kraft_native.base.errors import KraftError
from kraft_native.segment import checkpoints
from tests.crash_quorum.load import Load
from tests.golden import REPOSITORY
from tests.integration.quorum import ControllerProcess, Quorum

CHECKS: Final = 3_000
PAUSE_SECONDS: Final = 0.02
FETCH_TIMEOUT_SECONDS: Final = 2.0
CHANGE_SECONDS: Final = 2.0
STEPS_SECONDS: Final = 60.0
COMMAND_SECONDS: Final = 10


class Gaps(NamedTuple):
    """Seconds without a commit around each event."""

    seconds: list[float]

    def __str__(self) -> str:
        ordered = sorted(self.seconds)
        return (f"{len(ordered)} events: p50 {statistics.median(ordered) * 1000:.0f} ms, "
                f"p90 {ordered[math.ceil(len(ordered) * 0.9) - 1] * 1000:.0f} ms, max {ordered[-1] * 1000:.0f} ms")


def wait_until(done: Callable[[], bool], what: str) -> None:
    """Wait, counting checks instead of seconds: the machine itself may be stopped for a while."""
    for _ in range(CHECKS):
        if done():
            return
        time.sleep(PAUSE_SECONDS)
    raise AssertionError(f"not after {CHECKS} looks: {what}")


def settled(quorum: Quorum) -> Description:
    """Wait until every running node has everything that is committed."""
    def all_have_it() -> bool:
        found = quorum.describe()
        have = {each.node_id for each in found.replicas if each.log_end_offset >= found.high_watermark}
        return have >= {node.node_id for node in quorum.nodes.values() if node.running}
    wait_until(all_have_it, "every node has what is committed")
    return quorum.describe()


def finish(quorum: Quorum, load: Load) -> int:
    """Check the logs of all nodes, which are running. Return how many proposals were committed."""
    return load.check(quorum.nodes.values(), settled(quorum).high_watermark)


# --- without a leader -------------------------------------------------------------------------------------------------


def failover(quorum: Quorum, events: int, *, graceful: bool) -> tuple[Gaps, int]:
    """Kill the leader or stop it cleanly, `events` times. A gap is the time from its last commit, or with kill -9 from
    the kill, to the first commit of the next leader. Return the gaps and how many proposals were committed."""
    gaps = []
    with Load(quorum.nodes.values()) as load:
        for _ in range(events):
            leader = quorum.nodes[settled(quorum).leader]
            count = len(load.answers())
            wait_until(lambda count=count: len(load.answers()) > count, "the load continues")
            gaps.append(_stop(load, leader) if graceful else _kill(load, leader))
            leader.start()
    return Gaps(gaps), finish(quorum, load)


def _kill(load: Load, leader: ControllerProcess) -> float:
    os.kill(leader.pid, signal.SIGKILL)
    killed = time.monotonic()
    leader.kill()
    wait_until(lambda: load.first_answer_after(killed) is not None, "somebody leads")
    found = load.first_answer_after(killed)
    assert found is not None
    return found - killed


def _stop(load: Load, leader: ControllerProcess) -> float:
    """Return the longest time between two commits, from before the signal until the node has ended and others
    commit."""
    began = time.monotonic()
    leader.stop()
    ended = time.monotonic()
    wait_until(lambda: load.first_answer_after(ended) is not None, "somebody leads")
    answers = [each for each in load.answers() if each >= began - 1]
    return max(after - before for before, after in itertools.pairwise(answers) if after > began)


# --- nodes that return ----------------------------------------------------------------------------------------------


def returning(quorum: Quorum, rounds: int) -> int:
    """Return a follower to the quorum after it was killed, paused for longer than its time-outs, or given a new disk:
    the epoch does not change. Nor does it change when a previous leader wakes up. Return how many nodes returned."""
    count = 0
    with Load(quorum.nodes.values()) as load:
        for _ in range(rounds):
            for harm in (_killed, _paused, _wiped):
                before = settled(quorum)
                harm(quorum, next(node for node in quorum.others if _votes(before, node)))
                _follows_on(quorum, before.epoch)
                count += 1
            leader = quorum.leader
            os.kill(leader.pid, signal.SIGSTOP)
            moment = time.monotonic()
            wait_until(lambda moment=moment: load.first_answer_after(moment) is not None, "others lead")
            after = quorum.client([node for node in quorum.nodes.values() if node is not leader]).describe()
            os.kill(leader.pid, signal.SIGCONT)
            _follows_on(quorum, after.epoch)
            count += 1
    finish(quorum, load)
    return count


def _votes(found: Description, node: ControllerProcess) -> bool:
    return node.node_id in [each.node_id for each in found.voters]


def _follows_on(quorum: Quorum, epoch: int) -> None:
    """Check that all nodes continue and that the epoch stays the same for longer than any time-out."""
    settled(quorum)
    time.sleep(FETCH_TIMEOUT_SECONDS)
    found = settled(quorum)
    assert found.epoch == epoch, f"the epoch went from {epoch} to {found.epoch}"


def _killed(_quorum: Quorum, node: ControllerProcess) -> None:
    node.kill_and_start()


def _paused(_quorum: Quorum, node: ControllerProcess) -> None:
    os.kill(node.pid, signal.SIGSTOP)
    time.sleep(2 * FETCH_TIMEOUT_SECONDS)
    os.kill(node.pid, signal.SIGCONT)


def _wiped(quorum: Quorum, node: ControllerProcess) -> None:
    """Start the node with a new disk, as an observer, and make it a voter again in place of the lost disk."""
    lost = next(each for each in quorum.describe().voters if each.node_id == node.node_id)
    node.kill()
    shutil.rmtree(node.directory)
    node.format("--no-initial-controllers")
    node.start()
    time.sleep(FETCH_TIMEOUT_SECONDS)
    quorum.client().remove(node.node_id, lost.directory_id)
    add_voter(quorum, node)


# --- voters -----------------------------------------------------------------------------------------------------------


def add_voter(quorum: Quorum, node: ControllerProcess) -> None:
    """Wait until a node follows the log with its current disk, and make it a voter."""
    properties = checkpoints.read_meta_properties(node.directory)
    assert properties is not None
    assert properties.directory_id is not None
    directory_id = properties.directory_id
    wait_until(lambda: directory_id in [each.directory_id for each in quorum.describe().observers],
               f"node {node.node_id} follows")
    quorum.client().add(node.node_id, directory_id, [("CONTROLLER", "127.0.0.1", node.controller_port)])


class Changes:
    """Removes and adds voters all the time, one of three at random. A context manager."""

    def __init__(self, quorum: Quorum, seed: int) -> None:
        self.done = 0
        self.refused = 0
        self._quorum = quorum
        self._random = random.Random(seed)
        self._going = True
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._going = False
        self._thread.join(120)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        while self._going:
            try:
                client = self._quorum.client(seconds=CHANGE_SECONDS)
                found = client.describe()
                if found.observers and len(found.voters) < len(self._quorum.nodes):
                    new = self._random.choice(found.observers)
                    node = self._quorum.nodes[new.node_id]
                    client.add(new.node_id, new.directory_id, [("CONTROLLER", "127.0.0.1", node.controller_port)])
                elif len(found.voters) == len(self._quorum.nodes):
                    old = self._random.choice(found.voters)
                    client.remove(old.node_id, old.directory_id)
                self.done += 1
            except KraftError:
                self.refused += 1
            time.sleep(self._random.random() * 0.3)


def chaos(quorum: Quorum, events: int, seed: int, report: Callable[[str], None]) -> str:
    """Apply kill -9 and pauses to one node or two of three, while voters come and go."""
    chance = random.Random(seed)
    kills = pauses = reported = 0
    with Load(quorum.nodes.values()) as load, Changes(quorum, seed + 1) as changes:
        while kills + pauses < events:
            killed = []
            for node in chance.sample(list(quorum.nodes.values()), chance.choice((1, 1, 1, 2))):
                if chance.random() < 0.5:
                    node.kill()
                    killed.append(node)
                    kills += 1
                else:
                    os.kill(node.pid, signal.SIGSTOP)
                    pauses += 1
            time.sleep(chance.choice((0.0, 0.05, 0.3, 3.0)) * chance.random())
            for node in quorum.nodes.values():
                if node in killed:
                    node.launch()
                else:
                    assert node.running, f"node {node.node_id} ended by itself:\n{node.log()}"
                    os.kill(node.pid, signal.SIGCONT)
            moment = time.monotonic()
            if chance.random() < 0.5:
                wait_until(lambda moment=moment: load.first_answer_after(moment) is not None, "somebody leads")
            time.sleep(chance.choice((0.0, 0.1, 0.5, 1.0)) * chance.random())
            if kills + pauses >= reported + 50:
                reported = kills + pauses
                report(f"{kills} kills, {pauses} pauses, {changes.done} changes of voters, "
                       f"{len(load.answers())} commits")
    committed = finish(quorum, load)
    return (f"{kills} kills and {pauses} pauses, {changes.done} changes of voters ({changes.refused} refused or "
            f"unanswered), {committed} of {len(load.history)} proposals committed, none lost or reordered")


def membership(quorum: Quorum, report: Callable[[str], None]) -> str:
    """Grow one voter to three and to five. Replace all five; cancel that half-way and request it again. Shrink to one.
    The leader dies in each step. Of the ten nodes the first is the first voter. All changes are made by `kraft
    quorum`."""
    steps = 0
    with Load(quorum.nodes.values()) as load:
        def reported(what: str) -> None:
            report(f"{what}: {steps} changes, {len(load.answers())} commits")
        for node_id in (2, 3, 4, 5):
            _step(quorum, node_id, adds=True)
            steps += 1
        reported("grown to five")
        quorum.nodes[10].kill()    # the reassignment cannot complete without it, once the leader counts it as lagging
        wait_until(lambda: _is_missed(quorum, 10), "10 is missed")
        steps += _reassign(quorum, (6, 7, 8, 9, 10), lambda voters: len({6, 7, 8} & voters) == 3)
        wait_until(lambda: _command(quorum, ["cancel"]) == 0, "the reassignment is cancelled")
        halfway = _voters(quorum)
        reported(f"cancelled half-way, voters {sorted(halfway)}")
        quorum.nodes[10].start()
        steps += _reassign(quorum, (6, 7, 8, 9, 10), lambda voters: voters == {6, 7, 8, 9, 10})
        reported("all five replaced")
        for node_id in (10, 9, 8, 7):
            _step(quorum, node_id, adds=False)
            steps += 1
        reported("shrunk to one")
        assert _voters(quorum) == {6}
    return (f"{steps} changes of voters, cancelled with {sorted(halfway)}, each with a leader killed, "
            f"{finish(quorum, load)} proposals, none lost")


def _is_missed(quorum: Quorum, node_id: int) -> bool:
    """Return whether the leader counts the node as lagging."""
    found = quorum.describe()
    caught_up_ms = {each.node_id: each.caught_up_ms for each in found.replicas}
    return caught_up_ms[node_id] < caught_up_ms[found.leader] - 2000


def _voters(quorum: Quorum) -> set[int]:
    return {each.node_id for each in quorum.describe().voters}


def _reassign(quorum: Quorum, targets: Sequence[int], is_done: Callable[[set[int]], bool]) -> int:
    """Request a reassignment and kill the leader after each of its steps that is seen. Return the number of steps."""
    words = ["reassign", *map(str, targets), "--force", "--no-wait"]
    seen, steps, changing = _voters(quorum), 0, threading.Thread()
    deadline = time.monotonic() + STEPS_SECONDS
    while not is_done(seen):
        assert time.monotonic() < deadline, f"the reassignment continues from {seen}"
        if not changing.is_alive() and quorum.describe().targets is None and not is_done(_voters(quorum)):
            changing = threading.Thread(target=_command, args=(quorum, words))
            changing.start()
        now = _voters(quorum)
        if now != seen:
            seen = now
            steps += 1
            if not is_done(seen):
                quorum.leader.kill_and_start()
    if changing.ident is not None:
        changing.join()
    return steps


def _step(quorum: Quorum, node_id: int, *, adds: bool) -> None:
    """Make one change. Kill the leader as soon as the change shows in its voters, committed or not. Then send the
    request again until the change is done."""
    node = quorum.nodes[node_id]
    if adds:
        wait_until(lambda: any(each.node_id == node_id for each in quorum.describe().observers), f"{node_id} follows")
    properties = checkpoints.read_meta_properties(node.directory)
    assert properties is not None
    assert properties.directory_id is not None
    words = (["add", str(node_id), id_text(properties.directory_id), f"CONTROLLER://{node.controller_address}"]
             if adds else ["remove", str(node_id)])
    changing = threading.Thread(target=_command, args=(quorum, words))
    changing.start()
    while changing.is_alive() and (node_id in _voters(quorum)) != adds:
        pass
    quorum.leader.kill_and_start()
    changing.join()

    def is_done() -> bool:
        if (node_id in _voters(quorum)) == adds:
            return True
        _command(quorum, words)
        return False
    wait_until(is_done, f"{words}")


def _command(quorum: Quorum, words: Sequence[str]) -> int:
    """Run `kraft quorum` and discard its output. A caller that finds that the command failed runs it again."""
    addresses = ",".join(node.controller_address for node in quorum.nodes.values())
    return subprocess.run(
        [sys.executable, "-m", "kraft", "quorum", *words, "--bootstrap", addresses, "--timeout", str(COMMAND_SECONDS)],
        cwd=REPOSITORY, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode


# --- idle -------------------------------------------------------------------------------------------------------------


def idle(quorum: Quorum, seconds: float) -> dict[int, float]:
    """Return the share of one processor that each node uses while it receives no requests; the leader comes first."""
    leader = settled(quorum).leader
    nodes = sorted(quorum.nodes.values(), key=lambda node: node.node_id != leader)
    before = [processor_seconds(node) for node in nodes]
    time.sleep(seconds)
    return {node.node_id: (processor_seconds(node) - began) / seconds
            for node, began in zip(nodes, before, strict=True)}


def processor_seconds(node: ControllerProcess) -> float:
    """Return the processor time of all threads of a process, with the resolution of a nanosecond."""
    times = [Path(f"/proc/{node.pid}/task/{thread}/schedstat").read_text("ascii").split()[0]
             for thread in os.listdir(f"/proc/{node.pid}/task")]
    return sum(map(int, times)) / 1e9
