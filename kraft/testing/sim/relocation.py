"""Restarts of three voters at new addresses, and the time until one of them leads.

A run has no other faults. The processes die in any order, with or without their unflushed data, and come back in any
order. A node may not come back at all, keep its address, or come back with a clock that was set back. The knowledge of
the new addresses differs from run to run (`Knowledge`). At the old addresses there is no listener, or another of the
three nodes.

A majority is reachable once enough running processes are connected. Two processes are connected if one of them knows
the other's address by configuration or from its log. From that moment a leader must exist within two election
time-outs.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random
from typing import Final, TextIO

from kraft.raft.events import Event
from kraft.raft.types import NOBODY, Endpoint
from kraft.testing.sim.clock import Clock
from kraft.testing.sim.cluster import endpoint, named
from kraft.testing.sim.node import Node
from kraft.testing.sim.options import MILLISECOND, SECOND, Options
from kraft.testing.sim.violation import ViolationError
from kraft.testing.sim.world import World

VOTERS: Final = 3
TIMEOUTS: Final = 2
"""Number of election time-outs after which a reachable majority must have a leader."""
LED_WITHIN: Final = "leader within"
"""Prefix of the names under which runs count the time to a leader."""
CLOCK_BACK_MS: Final = 3_600_000
SETTLE_US: Final = 10 * SECOND


class Knowledge(StrEnum):
    """Bootstrap servers of a node that comes back."""

    NAMES = "names that a name service follows"
    ADDRESSES = "the new addresses of all"
    ONE = "the new address of one, the same for all"
    RING = "the new address of the next one"
    MIXED = "the new addresses of all, between addresses without a listener"
    LOG = "none, where one voter has not moved"


@dataclass(frozen=True, slots=True)
class Relocation:
    """Events of a run, drawn from its seed."""

    knowledge: Knowledge
    rotates: bool                   # each node comes back at the address of the next one
    stays: tuple[int, ...]          # nodes that keep their addresses
    lost: tuple[int, ...]           # nodes that do not come back
    clock_back: tuple[int, ...]
    starts_ms: dict[int, int]       # when each node comes back, after the last one has died


def draw_options(random: Random) -> Options:
    """Draw the network and the disks of a run."""
    return Options(
        relocation=True, voters=VOTERS, fault_seconds=0, delay_ms=random.choice((0, 1, 5, 20)),
        jitter_ms=random.choice((1, 5, 20)), flush_us=random.choice((100, 2000, 10_000)),
        refuse_per_mille=random.choice((0, 1000)), silent_address_per_mille=random.choice((0, 500, 1000)),
        slow_address_per_mille=random.choice((0, 500)), slow_address_ms=random.choice((500, 5000)),
        snapshot_every_offsets=random.choice((0, 10)), propose_every_ms=30, turn_us=random.choice((0, 500)))


def _draw(random: Random) -> Relocation:
    nodes = list(range(1, VOTERS + 1))
    knowledge = random.choice(list(Knowledge))
    stays = (random.choice(nodes),) if knowledge is Knowledge.LOG else ()
    late_ms = random.choice((20, 500, 5000, 20_000))
    return Relocation(
        knowledge, rotates=not stays and random.random() < 0.3, stays=stays,
        lost=(random.choice([each for each in nodes if each not in stays]),) if random.random() < 0.3 else (),
        clock_back=tuple(each for each in nodes if random.random() < 0.2),
        starts_ms={each: random.randrange(late_ms) for each in nodes})


class RelocationWorld(World):
    """World of a relocation run. `elected_us`: time to a leader, from the moment at which a majority was reachable."""

    def __init__(self, seed: int, options: Options, trace: TextIO | None = None,
                 listen: Callable[[int, float, Event], None] | None = None) -> None:
        super().__init__(seed, options, trace, listen)
        self.relocation = _draw(self.cluster.random("relocation"))
        self.elected_us = -1
        self._random = self.cluster.random("deaths")
        self._logged: dict[int, Endpoint] = {}

    def run(self) -> None:
        cluster, relocation = self.cluster, self.relocation
        for node in cluster.nodes:
            self.loop.after(1, node.start)
        self.clients.start()
        self._run_until(SETTLE_US)
        self._stop_all()
        self.clients.is_on = False
        self._move()
        began_us = self.loop.now_us
        starts = sorted((relocation.starts_ms[node.id], node.id) for node in cluster.nodes
                        if node.id not in relocation.lost)
        reachable_us = -1
        for at_ms, node_id in starts:
            self._await_leader(began_us + at_ms * MILLISECOND, reachable_us)
            self._configure(cluster.node(node_id))
            cluster.node(node_id).start()
            if reachable_us < 0 and self._majority_is_connected():
                reachable_us = self.loop.now_us
        if reachable_us < 0:
            raise ViolationError("MajorityIsConnected", f"nobody can find anybody in {relocation}")
        self._await_leader(reachable_us + self._limit_us, reachable_us)
        if self.elected_us < 0:
            roles = ", ".join(f"{node} {node.raft.replica.role.role} in {node.raft.replica.epoch}"
                              for node in cluster.up())
            raise ViolationError("LeaderWithinTwoTimeouts", f"bootstrap servers are {relocation.knowledge}: {roles}")
        quarters = -(-self.elected_us * 4 // (self._limit_us // TIMEOUTS))
        self.counts[f"{LED_WITHIN} {max(1, quarters) / 4:g} election time-outs"] += 1

    @property
    def _limit_us(self) -> int:
        return TIMEOUTS * self.cluster.options.election_timeout_ms * MILLISECOND

    def _stop_all(self) -> None:
        """Kill the nodes one after the other. Meanwhile the remaining ones may elect a leader, and may learn of it or
        not."""
        for node in self._random.sample(self.cluster.nodes, VOTERS):
            voter = node.raft.replica.voters.find(node.id)
            assert voter is not None
            self._logged[node.id] = voter.endpoints[0]
            node.kill(power=self._random.random() < 0.5)
            self._run_until(self.loop.now_us + self._random.choice((1, 100, 1500, 4000)) * MILLISECOND)

    def _move(self) -> None:
        cluster, relocation = self.cluster, self.relocation
        if relocation.rotates:
            cluster.rotate_addresses(cluster.nodes)
        for node in cluster.nodes:
            if node.id not in relocation.stays and not relocation.rotates:
                cluster.move(node)
            if node.id in relocation.clock_back:
                node.clock = Clock(self.loop, start_ms=max(0, node.clock.now_ms - CLOCK_BACK_MS))

    def _known(self, node_id: int) -> tuple[Endpoint, ...]:
        """Return the bootstrap servers of a node."""
        cluster, others = self.cluster, [each for each in range(1, VOTERS + 1) if each != node_id]
        match self.relocation.knowledge:
            case Knowledge.NAMES:
                return tuple(named(each) for each in others)
            case Knowledge.ADDRESSES:
                return tuple(cluster.address_of(each) for each in others)
            case Knowledge.ONE:
                hub = next(each for each in range(1, VOTERS + 1) if each not in self.relocation.lost)
                return () if hub == node_id else (cluster.address_of(hub),)
            case Knowledge.RING:
                return (cluster.address_of(node_id % VOTERS + 1),)
            case Knowledge.MIXED:
                nowhere = [endpoint(99, number) for number in range(4)]
                return (nowhere[0], nowhere[1], cluster.address_of(others[0]), nowhere[2], nowhere[3],
                        cluster.address_of(others[1]))
            case Knowledge.LOG:
                return ()
        raise AssertionError("unknown")

    def _configure(self, node: Node) -> None:
        node.move(replace(node.config, bootstrap=self._known(node.id)))

    def _majority_is_connected(self) -> bool:
        """Return whether a majority of the voters runs and is reachable from one of them, in either direction."""
        up = [node.id for node in self.cluster.up()]
        return any(len(self._connected(each, up)) > VOTERS // 2 for each in up)

    def _connected(self, start: int, up: list[int]) -> list[int]:
        found, waiting = [start], [start]
        while waiting:
            one = waiting.pop()
            for other in up:
                if other not in found and (self._knows(one, other) or self._knows(other, one)):
                    found.append(other)
                    waiting.append(other)
        return found

    def _knows(self, one: int, other: int) -> bool:
        addresses = (*self._known(one), self._logged[other])
        return any(self.cluster.network.at(each) == other for each in addresses)

    def _await_leader(self, until_us: int, since_us: int) -> None:
        """Run until a leader exists, and at least until `until_us`."""
        while self.elected_us < 0 and self.loop.now_us < until_us:
            self._run_until(min(until_us, self.loop.now_us + MILLISECOND))
            leader = self.cluster.leader()
            if leader is not None and leader.leads_epoch != NOBODY:
                self.elected_us = self.loop.now_us - since_us if since_us >= 0 else 0
        if self.loop.now_us < until_us:
            self._run_until(until_us)
