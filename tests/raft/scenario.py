"""Scenario files: a story in commands, and the replicas' actions line by line.

    # KIP-996, "Pre-Vote request handling": the sentence that the story shows.

    elect 1
    ----
    1 becomes role=Prospective ...

A block consists of one or more commands, `----`, and what they must print, up to an empty line. `quietly` before a
command marks it as mere preparation; `fails` means that the node must stop. Lines with `#` are comments. After a change
of behaviour `python -m tests.raft.scenario --rewrite` writes the current output into the files. Read the difference,
and keep it only if you understand the origin of every line.
"""

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from kraft.raft.address_book import Known
from kraft.raft.errors import NotLeaderError, UpgradeRefusedError
from kraft.raft.messages import (
    HIGH_WATERMARK_UNREPORTED,
    AddVoterRequest,
    BeginQuorumEpochRequest,
    DiscoverRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    Loss,
    ReassignVotersRequest,
    RemoveVoterRequest,
    Request,
    UpdateVoterRequest,
    VersionsRequest,
    VoteRequest,
)
from kraft.raft.types import ANYBODY, Endpoint, OffsetAndEpoch, ReplicaKey
from kraft.raft.voters import VersionRange, Voter
from kraft.testing.memory_log import Batch, Record
from tests.raft.world import CLUSTER, Packet, World, address, describe, key

DIRECTORY = Path(__file__).parent / "scenarios"
PROMPT = "----"


class Story:
    """Executes the commands of one file."""

    def __init__(self) -> None:
        self.out: list[str] = []
        self.world = World((), trace=self._trace)
        self.shows_messages = False

    def run(self, line: str) -> list[str]:
        """Return what one command prints."""
        self.out = []
        if line.startswith("fails "):
            return self._run_failing(line.removeprefix("fails "))
        name, *arguments = line.removeprefix("quietly ").split()
        words = [word for word in arguments if "=" not in word]
        options = dict(word.split("=", 1) for word in arguments if "=" in word)
        command = COMMANDS.get(name)
        if command is None:
            raise ValueError(f"unknown command {name!r}")
        command(self, words, options)
        return [] if line.startswith("quietly ") else self.out

    def _run_failing(self, line: str) -> list[str]:
        """Run a command that must break an invariant."""
        try:
            self.run(line)
        except AssertionError as error:
            # Where the package is installed, pytest adds lines of its own to the text of an assertion.
            return [f"the node stops: {str(error).splitlines()[0]}"]
        raise ValueError(f"nothing was broken by: {line}")

    def _trace(self, node_id: int, text: str) -> None:
        if not text.startswith("started"):
            self.out.append(f"{node_id} {text}")

    def say(self, text: object) -> None:
        self.out.append(str(text))

    # --- commands; `words` are those without "=", `options` those with

    def quorum(self, words: list[str], options: dict[str, str]) -> None:
        """quorum 1 2 3 [observers=4,5] [kraft=0] [servers=1] [fetch_timeout_ms=...]: create and start a formatted
        quorum. `servers`: its voters have bootstrap servers, too."""
        observers = _ids(options.pop("observers", ""))
        settings = {name: int(value) for name, value in options.items() if name not in ("kraft", "servers")}
        self.world = World(tuple(map(int, words)), observers, kraft_version=int(options.get("kraft", "1")),
                           trace=self._trace, queries_servers="servers" in options, **settings)
        self.world.watch = self._show
        self.world.deliver()  # every node queries the others for a leader first

    def messages(self, words: list[str], options: dict[str, str]) -> None:
        """messages on|off: whether messages are printed when they are delivered."""
        self.shows_messages = words == ["on"]

    def time_out(self, words: list[str], options: dict[str, str]) -> None:
        """time-out N: move time to the time-out of N's role; call N only."""
        self.world.time_out(int(words[0]))

    def elect(self, words: list[str], options: dict[str, str]) -> None:
        """elect N: N's time-out, and deliver everything that follows; N must lead then."""
        self.world.elect(int(words[0]))

    def deliver(self, words: list[str], options: dict[str, str]) -> None:
        """deliver [a->b ...]: deliver all messages and those that follow, or only those on these links."""
        links = [_link(word) for word in words]

        self.world.deliver(lambda packet: not links or (packet.sender, packet.receiver) in links)

    def one(self, words: list[str], options: dict[str, str]) -> None:
        """one a->b ...: deliver on each of these links the message that has waited longest."""
        for link in map(_link, words):
            packet = next(each for each in self.world.wire if (each.sender, each.receiver) == link)
            self.world.wire.remove(packet)
            self.world.deliver_one(packet)

    def _show(self, packet: Packet) -> None:
        if not self.shows_messages:
            return
        lost = " (cut)" if (packet.sender, packet.receiver) in self.world.cut else ""
        self.say(f"{packet.sender}->{packet.receiver}{lost} {describe(packet.message)}")

    def lose(self, words: list[str], options: dict[str, str]) -> None:
        """lose a->b [reason]: lose the waiting messages; the requesting side notices."""
        reason = Loss(" ".join(words[1:])) if len(words) > 1 else Loss.DISCONNECTED
        self.world.lose(*_link(words[0]), reason)

    def disconnect(self, words: list[str], options: dict[str, str]) -> None:
        """disconnect a->b ...: break a's connection to b; a notices."""
        for word in words:
            self.world.disconnect(*_link(word))

    def drop(self, words: list[str], options: dict[str, str]) -> None:
        """drop a->b ...: lose the waiting messages; no node notices."""
        links = [_link(word) for word in words]
        self.world.wire = [each for each in self.world.wire if (each.sender, each.receiver) not in links]

    def propose(self, words: list[str], options: dict[str, str]) -> None:
        """propose N value ...: propose one batch."""
        try:
            self.say(f"{words[0]} appends up to {self.world.propose(int(words[0]), *words[1:])}")
        except NotLeaderError as error:
            self.say(error)

    def pass_time(self, words: list[str], options: dict[str, str]) -> None:
        """pass MS: move time, call every node in time; messages take no time."""
        self.world.pass_time(int(words[0]))

    def wait(self, words: list[str], options: dict[str, str]) -> None:
        """wait MS: move time, deliver nothing and call no node."""
        self.world.now_ms += int(words[0])

    def tick(self, words: list[str], options: dict[str, str]) -> None:
        """tick N: call N now."""
        self.world.tick(int(words[0]))

    def cut(self, words: list[str], options: dict[str, str]) -> None:
        """cut a->b ...: deliver nothing on these links from now on."""
        self.world.cut += [_link(word) for word in words]

    def partition(self, words: list[str], options: dict[str, str]) -> None:
        """partition 1,2 3: let only nodes of one group reach each other."""
        self.world.partition(*map(_ids, words))

    def heal(self, words: list[str], options: dict[str, str]) -> None:
        self.world.heal()

    def hold(self, words: list[str], options: dict[str, str]) -> None:
        """hold N ...: do not end the flushes of these nodes."""
        for word in words:
            self.world.hold_flushes(int(word))

    def release(self, words: list[str], options: dict[str, str]) -> None:
        """release N ...: end them."""
        for word in words:
            self.world.release_flushes(int(word))

    def crash(self, words: list[str], options: dict[str, str]) -> None:
        """crash N [kept=K]: end the process; what is not durable is lost, except for K records."""
        self.world.crash(int(words[0]), int(options.get("kept", "0")))

    def start(self, words: list[str], options: dict[str, str]) -> None:
        self.world.start(int(words[0]))

    def restart_all(self, words: list[str], options: dict[str, str]) -> None:
        """restart-all: end every process and start it again."""
        for node_id in self.world.nodes:
            self.world.crash(node_id)
        for node_id in self.world.nodes:
            self.world.start(node_id)

    def node(self, words: list[str], options: dict[str, str]) -> None:
        """node N [disk=K]: create a node with an empty disk."""
        self.world.make(int(words[0]), int(options.get("disk", "0")))

    def old(self, words: list[str], options: dict[str, str]) -> None:
        """old N ...: these nodes do not know pre-votes; a peer finds out when it encodes one."""
        self.world.old += map(int, words)

    def resign(self, words: list[str], options: dict[str, str]) -> None:
        raft = self.world.raft(int(words[0]))
        raft.resign(raft.replica.epoch, self.world.now_ms)
        self.world.settle(int(words[0]))

    def upgrade(self, words: list[str], options: dict[str, str]) -> None:
        """upgrade N LEVEL: let the leader N raise kraft.version."""
        raft = self.world.raft(int(words[0]))
        try:
            raft.upgrade(int(words[1]), raft.replica.epoch, self.world.now_ms)
        except UpgradeRefusedError as error:
            self.say(error)
        self.world.settle(int(words[0]))

    def snapshot(self, words: list[str], options: dict[str, str]) -> None:
        """snapshot N [at=OFFSET]: let N write a snapshot of what is committed."""
        node = self.world.nodes[int(words[0])]
        end_offset = int(options.get("at", node.up.replica.high_watermark))
        snapshot = node.up.snapshot_id(end_offset)
        node.snapshots.write(snapshot, node.up.assignment_at(end_offset))
        self.say(f"{words[0]} has snapshots {' '.join(map(str, node.snapshots.ids()))}")

    def trim(self, words: list[str], options: dict[str, str]) -> None:
        """trim N: start N's log at its latest snapshot."""
        node = self.world.nodes[int(words[0])]
        latest = node.snapshots.latest()
        assert latest is not None
        node.up.trim_log(latest)

    def move(self, words: list[str], options: dict[str, str]) -> None:
        """move N HOST: restart N at another address."""
        node = self.world.nodes[int(words[0])]
        self.world.crash(int(words[0]))
        node.config = replace(node.config, endpoints=(Endpoint("CONTROLLER", words[1], 9093),))
        self.world.start(int(words[0]))

    def state(self, words: list[str], options: dict[str, str]) -> None:
        for node_id in map(int, words) if words else self.world.nodes:
            self.say(self.world.line(node_id))

    def addresses(self, words: list[str], options: dict[str, str]) -> None:
        """addresses N: the voters' addresses in N's log."""
        voters = self.world.raft(int(words[0])).replica.voters.voters
        self.say(" ".join(f"{each.key}={','.join(endpoint.host for endpoint in each.endpoints)}" for each in voters))

    def known(self, words: list[str], options: dict[str, str]) -> None:
        """known N: the addresses of other nodes that N knows, and which address of each it would try."""
        replica = self.world.raft(int(words[0])).replica
        for node_id, each in replica.addresses.nodes.items():
            address_of = replica.address_of(node_id)
            self.say(f"{words[0]} knows {each}, tries {address_of.host if address_of else None}")

    def log(self, words: list[str], options: dict[str, str]) -> None:
        """log N ...: offsets, epochs and values."""
        for node_id in map(int, words):
            log = self.world.nodes[node_id].log
            records = [f"{offset}@{record.epoch}:{_value(record.value)}"
                       for offset, record in enumerate(log.records, log.start_offset)]
            self.say(f"{node_id}: {' '.join(records)}")

    def feed(self, words: list[str], options: dict[str, str]) -> None:
        """feed N from=L [leader=M] diverging=POSITION|snapshot=POSITION|records=v,v@EPOCH: answer N's Fetch in L's
        place."""
        node_id, sender = int(words[0]), int(options["from"])
        fetch = next(each for each in self.world.wire if (each.sender, each.receiver) == (node_id, sender)
                     and isinstance(each.message, FetchRequest))
        assert isinstance(fetch.message, FetchRequest)
        self.world.wire.remove(fetch)
        values, _, epoch = options.get("records", "").partition("@")
        records = tuple(Record(int(epoch), value) for value in values.split(",")) if values else ()
        answer = FetchResponse(
            epoch=fetch.message.epoch, leader_id=int(options.get("leader", sender)),
            high_watermark=int(options.get("hw", "-1")),
            diverging=_position(options["diverging"]) if "diverging" in options else None,
            snapshot=_position(options["snapshot"]) if "snapshot" in options else None,
            records=Batch(fetch.message.fetch_offset, records) if records else None)
        self.world.raft(node_id).step(sender, fetch.correlation, answer, self.world.now_ms)
        self.world.settle(node_id)

    def end_flush(self, words: list[str], options: dict[str, str]) -> None:
        """end-flush N: end the oldest flush of N, not the others."""
        node = self.world.nodes[int(words[0])]
        flush = node.flushes.pop(0)
        node.log.finish_flush(flush)
        node.up.log_flushed(flush, self.world.now_ms)
        self.world.settle(int(words[0]))

    def describe(self, words: list[str], options: dict[str, str]) -> None:
        view = self.world.raft(int(words[0])).describe()
        self.say(f"leader={view.leader_id} epoch={view.epoch} hw={view.high_watermark}")
        for name, replicas in (("voter", view.voters), ("target", view.targets or ()), ("observer", view.observers)):
            for each in replicas:
                self.say(f"{name} {each.key} end={each.end_offset} fetch={each.fetch_ms} caught_up={each.caught_up_ms}")

    def send(self, words: list[str], options: dict[str, str]) -> None:
        """`send N KIND ...`: send a request (see REQUESTS) from outside; print the immediate answer, or "later"."""
        node_id, kind = int(words[0]), words[1]
        answer = self.world.request(node_id, REQUESTS[kind](self, words[2:], options))
        self.say(f"{node_id} answers {describe(answer)}" if answer else f"{node_id} answers later")

    def answer(self, words: list[str], options: dict[str, str]) -> None:
        """answer: print the answer to the last `send` so far."""
        answer = self.world.answers.get(self.world.last_token)
        self.say(describe(answer) if answer else "no answer yet")


def _ids(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split(",") if word)


def _link(text: str) -> tuple[int, int]:
    sender, receiver = text.split("->")
    return int(sender), int(receiver)


def _position(text: str) -> OffsetAndEpoch:
    offset, epoch = text.split("@")
    return OffsetAndEpoch(int(offset), int(epoch))


def _value(value: object) -> str:
    return value if isinstance(value, str) else type(value).__name__


# --- requests ---------------------------------------------------------------------------------------------------------


def _sender(story: Story, options: dict[str, str], name: str = "from") -> ReplicaKey:
    node_id = int(options[name])
    return ReplicaKey(node_id) if story.world.kraft_version == 0 else key(node_id, int(options.get("disk", "0")))


def _cluster(options: dict[str, str]) -> str | None:
    cluster = options.get("cluster", CLUSTER)
    return None if cluster == "none" else cluster


def _vote(story: Story, words: list[str], options: dict[str, str], *, pre_vote: bool = False) -> Request:
    voter = ANYBODY
    if "voter" in options:
        voter = key(int(options["voter"]), int(options.get("voter_disk", "0")))
    return VoteRequest(
        cluster_id=_cluster(options), candidate=_sender(story, options), epoch=int(options["epoch"]),
        log_end=_position(options["end"]), voter=voter, pre_vote=pre_vote)


def _begin(story: Story, words: list[str], options: dict[str, str]) -> Request:
    voter = key(int(options["voter"]), int(options.get("voter_disk", "0"))) if "voter" in options else ANYBODY
    return BeginQuorumEpochRequest(
        cluster_id=_cluster(options), leader_id=int(options["from"]), epoch=int(options["epoch"]), voter=voter)


def _end(story: Story, words: list[str], options: dict[str, str]) -> Request:
    return EndQuorumEpochRequest(
        cluster_id=_cluster(options), leader_id=int(options["from"]), epoch=int(options["epoch"]),
        preferred=tuple(map(key, _ids(options.get("preferred", "")))))


def _fetch(story: Story, words: list[str], options: dict[str, str]) -> Request:
    position = _position(options["at"])
    return FetchRequest(
        cluster_id=_cluster(options), replica=_sender(story, options), epoch=int(options["epoch"]),
        fetch_offset=position.offset, last_fetched_epoch=position.epoch, max_wait_ms=int(options.get("wait", "0")),
        high_watermark=int(options.get("hw", HIGH_WATERMARK_UNREPORTED)), is_follower="follower" in words)


def _fetch_snapshot(story: Story, words: list[str], options: dict[str, str]) -> Request:
    return FetchSnapshotRequest(
        cluster_id=_cluster(options), replica=_sender(story, options), epoch=int(options["epoch"]),
        snapshot=_position(options["snapshot"]), position=int(options.get("position", "0")))


def _add(story: Story, words: list[str], options: dict[str, str]) -> Request:
    node_id = int(words[0])
    return AddVoterRequest(
        cluster_id=_cluster(options), voter=Voter(key(node_id, int(options.get("disk", "0"))), address(node_id)),
        timeout_ms=int(options.get("timeout", "1000")), ack_when_committed="early" not in words)


def _remove(story: Story, words: list[str], options: dict[str, str]) -> Request:
    return RemoveVoterRequest(
        cluster_id=_cluster(options), voter=key(int(words[0]), int(options.get("disk", "0"))))


def _update(story: Story, words: list[str], options: dict[str, str]) -> Request:
    endpoint = Endpoint("CONTROLLER", options.get("host", f"node{words[0]}"), 9093)
    low, high = options.get("versions", "0-1").split("-")
    return UpdateVoterRequest(
        cluster_id=_cluster(options), epoch=int(options["epoch"]),
        voter=Voter(key(int(words[0]), int(options.get("disk", "0"))), (endpoint,), VersionRange(int(low), int(high))))


def _reassign(story: Story, words: list[str], options: dict[str, str]) -> Request:
    targets = None if words == ["none"] else tuple(map(int, words))
    return ReassignVotersRequest(
        cluster_id=_cluster(options), targets=targets, timeout_ms=int(options.get("timeout", "60000")))


def _discover(story: Story, words: list[str], options: dict[str, str]) -> Request:
    """discover from=N host=H boot=MS [epoch=E leader=L]: N announces its address and the leader that it knows."""
    sender = Known(_sender(story, options), int(options["boot"]), (Endpoint("CONTROLLER", options["host"], 9093),))
    return DiscoverRequest(cluster_id=_cluster(options), sender=sender, epoch=int(options.get("epoch", "0")),
                           leader_id=int(options.get("leader", "-1")))


REQUESTS: dict[str, Callable[[Story, list[str], dict[str, str]], Request]] = {
    "vote": _vote,
    "pre-vote": lambda story, words, options: _vote(story, words, options, pre_vote=True),
    "begin": _begin,
    "end": _end,
    "fetch": _fetch,
    "fetch-snapshot": _fetch_snapshot,
    "add": _add,
    "remove": _remove,
    "update": _update,
    "reassign": _reassign,
    "discover": _discover,
    "versions": lambda story, words, options: VersionsRequest(cluster_id=CLUSTER),
}

COMMANDS: dict[str, Callable[[Story, list[str], dict[str, str]], None]] = {
    "quorum": Story.quorum, "messages": Story.messages, "time-out": Story.time_out, "elect": Story.elect,
    "deliver": Story.deliver, "one": Story.one, "lose": Story.lose, "disconnect": Story.disconnect,
    "drop": Story.drop, "propose": Story.propose, "pass": Story.pass_time, "wait": Story.wait, "tick": Story.tick,
    "feed": Story.feed, "end-flush": Story.end_flush, "cut": Story.cut, "partition": Story.partition,
    "heal": Story.heal, "hold": Story.hold, "release": Story.release, "crash": Story.crash, "start": Story.start,
    "node": Story.node, "restart-all": Story.restart_all, "old": Story.old, "resign": Story.resign,
    "upgrade": Story.upgrade,
    "snapshot": Story.snapshot, "trim": Story.trim, "move": Story.move, "state": Story.state, "log": Story.log,
    "addresses": Story.addresses, "known": Story.known, "describe": Story.describe, "send": Story.send,
    "answer": Story.answer,
}


# --- files ------------------------------------------------------------------------------------------------------------


def files() -> list[Path]:
    return sorted(DIRECTORY.glob("*.txt"))


def played(text: str) -> str:
    """Return the file with the current output as the expected one."""
    story = Story()
    out: list[str] = []
    for block in _blocks(text):
        comment = [line for line in block if line.startswith("#")]
        commands = [line for line in block[:block.index(PROMPT) if PROMPT in block else len(block)]
                    if not line.startswith("#")]
        out += comment
        if commands:
            out += commands
            printed = [line for command in commands for line in story.run(command)]
            out += [PROMPT, *printed]
        out.append("")
    return "\n".join(out)


def _blocks(text: str) -> Iterator[list[str]]:
    for block in re.split(r"\n\s*\n", text.strip()):
        yield [line.rstrip() for line in block.splitlines()]


def main(arguments: list[str]) -> int:
    chosen = [Path(each) for each in arguments if not each.startswith("--")] or files()
    changed = [path for path in chosen if path.read_text() != played(path.read_text())]
    for path in changed:
        print(("rewritten: " if "--rewrite" in arguments else "differs: ") + path.name)
        if "--rewrite" in arguments:
            path.write_text(played(path.read_text()))
    return 0 if not changed or "--rewrite" in arguments else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
