"""Fault injection. Faults of each kind occur at random times, at the average rate of the options, until `stop`."""

from collections.abc import Callable
from errno import EIO, ENOSPC
from random import Random
from typing import Final

from kraft.testing.sim.cluster import Cluster
from kraft.testing.sim.node import Moment, Node
from kraft.testing.sim.operator import Operator
from kraft.testing.sim.options import MILLISECOND

FLAPS: Final = 8


class Faults:
    def __init__(self, cluster: Cluster, operator: Operator, random: Random) -> None:
        self._cluster = cluster
        self._operator = operator
        self._random = random
        self._is_on = True

    def start(self) -> None:
        for every_ms, fault in self.kinds():
            if every_ms:
                self._schedule(every_ms, fault)

    def kinds(self) -> tuple[tuple[int, Callable[[], None]], ...]:
        """Return each fault and its mean interval in milliseconds, 0 for never."""
        options = self._cluster.options
        return (
            (options.cut_every_ms, self._cut), (options.part_every_ms, self._part),
            (options.isolate_every_ms, self._isolate), (options.flap_every_ms, self._flap),
            (options.kill_every_ms, self._kill), (options.power_every_ms, self._power),
            (options.blackout_every_ms, self._blackout), (options.pause_every_ms, self._pause),
            (options.relocate_every_ms, self._relocate), (options.roll_every_ms, self._roll),
            (options.jump_every_ms, self._jump),
            (options.fail_flush_every_ms, self._fail_flush), (options.fail_write_every_ms, self._fail_write),
            (options.fail_state_every_ms, self._fail_state), (options.rot_every_ms, self._rot),
            (options.wipe_every_ms, self._wipe), (options.newer_every_ms, self._newer),
            (options.garble_every_ms, self._garble),
            (options.change_every_ms, self._change),
            (options.reassign_every_ms, self._reassign), (options.resign_every_ms, self._operator.resign),
        )

    def stop(self) -> None:
        self._is_on = False

    def _schedule(self, every_ms: int, fault: Callable[[], None]) -> None:
        def strike() -> None:
            if self._is_on:
                fault()
                self._schedule(every_ms, fault)

        self._cluster.loop.after(self._about_us(every_ms), strike)

    def _about_us(self, mean_ms: int) -> int:
        return 1 + int(self._random.expovariate(1 / (mean_ms * MILLISECOND)))

    def _count(self, name: str) -> None:
        self._cluster.counts[name] += 1

    def _anyone_up(self) -> Node | None:
        up = self._cluster.up()
        return up[self._random.randrange(len(up))] if up else None

    # --- links -------------------------------------------------------------------------------------------------------

    def _cut_links(self, links: list[tuple[int, int]], healed: Callable[[], None] = lambda: None) -> None:
        network = self._cluster.network
        for source, target in links:
            network.cut(source, target)

        def heal() -> None:
            for source, target in links:
                network.heal(source, target)
            healed()

        self._cluster.loop.after(self._about_us(self._cluster.options.cut_ms), heal)

    def _ids(self) -> list[int]:
        return [node.id for node in self._cluster.nodes]

    def _cut(self) -> None:
        ids = self._ids()
        if len(ids) > 1:
            self._count("link cut one way")
            source, target = self._random.sample(ids, 2)
            self._cut_links([(source, target)])

    def _part(self) -> None:
        ids = self._ids()
        self._random.shuffle(ids)
        if len(ids) > 1:
            self._count("network parted")
            size = 1 + self._random.randrange(len(ids) - 1)
            self._cut_links([pair for a in ids[:size] for b in ids[size:] for pair in ((a, b), (b, a))])

    def _isolate(self) -> None:
        leader = self._cluster.leader()
        node = leader if leader is not None and self._random.random() < 0.5 else self._anyone_up()
        if node is None:
            return
        self._count("node isolated")
        others = [each for each in self._ids() if each != node.id]
        kind = self._random.randrange(3)
        links = [(each, node.id) for each in others] if kind != 1 else []
        links += [(node.id, each) for each in others] if kind != 2 else []

        def usurp() -> None:
            """Kill the new leader, in some runs, when the old one is reachable again."""
            successor = self._cluster.leader()
            if node is leader and successor not in (None, node) and self._random.random() < 0.5 and self._is_on:
                assert successor is not None
                self._count("successor killed")
                self._stop(successor, power=False)

        self._cut_links(links, usurp)

    def _flap(self) -> None:
        ids = self._ids()
        if len(ids) < 2:
            return
        self._count("link flapping")
        source, target = self._random.sample(ids, 2)
        network, period_us = self._cluster.network, self._about_us(self._cluster.options.cut_ms // 4)
        for number in range(FLAPS):
            self._cluster.loop.after(number * period_us, network.heal if number % 2 else network.cut, source, target)

    # --- processes and machines --------------------------------------------------------------------------------------

    def _stop(self, node: Node, *, power: bool, down_ms: int | None = None) -> None:
        node.kill(power=power)
        down_us = self._about_us(self._cluster.options.down_ms if down_ms is None else down_ms)
        self._cluster.loop.after(down_us, self._operator.start, node)

    def _kill(self) -> None:
        node = self._anyone_up()
        if node is not None:
            self._count("process killed")
            self._stop(node, power=False)

    def _power(self) -> None:
        """Let a node lose power, now or at its next critical moment."""
        node = self._anyone_up()
        if node is None:
            return

        def strike(down_ms: int) -> None:
            if self._is_on:
                self._count("power lost")
                self._stop(node, power=True, down_ms=down_ms)

        down_ms = self._cluster.options.down_ms
        kind = self._random.randrange(2 * len(Moment))
        if kind < len(Moment):
            # Back soon, so that messages sent before the failure find it.
            node.at_next[list(Moment)[kind]] = lambda: strike(self._random.choice((1, 30, down_ms)))
        else:
            strike(down_ms)

    def _blackout(self) -> None:
        self._count("power lost everywhere")
        for node in self._cluster.up():
            self._stop(node, power=True)

    def _relocate(self) -> None:
        """Kill every process. Each machine comes back at another address: a new one, or that of another node."""
        nodes = self._cluster.nodes
        self._count("nodes relocated")
        for node in nodes:
            if node.is_up:
                self._stop(node, power=self._random.random() < 0.5)
        if len(nodes) > 1 and self._random.random() < 0.3:
            self._cluster.rotate_addresses(nodes)
            return
        for node in nodes:
            self._cluster.move(node)

    def _pause(self) -> None:
        node = self._anyone_up()
        if node is None or node.is_paused:
            return
        self._count("process paused")
        node.pause()
        life = node.life

        def resume() -> None:
            if node.life == life and node.is_paused:
                node.resume()

        self._cluster.loop.after(self._about_us(self._cluster.options.pause_ms), resume)

    def _roll(self) -> None:
        self._count("rolling restart")
        self._operator.roll()

    def _jump(self) -> None:
        node = self._anyone_up()
        if node is not None:
            self._count("clock jumped")
            node.clock.jump(1 + self._random.randrange(2 * self._cluster.options.jump_ms))
            node.wake()

    # --- disks -------------------------------------------------------------------------------------------------------

    def _revive_later(self, node: Node) -> None:
        """Start the node later: it may die of its disk at its next call."""
        self._cluster.loop.after(self._about_us(self._cluster.options.down_ms) * 3, self._operator.start, node)

    def _fail_flush(self) -> None:
        node = self._anyone_up()
        if node is not None:
            self._count("flush fails")
            node.disk.fail_flush = True
            self._revive_later(node)

    def _fail_write(self) -> None:
        node = self._anyone_up()
        if node is not None:
            self._count("write fails")
            node.disk.fail_write = self._random.choice((EIO, ENOSPC))
            self._revive_later(node)

    def _fail_state(self) -> None:
        node = self._anyone_up()
        if node is not None:
            self._count("quorum-state write fails")
            node.disk.fail_quorum_state = True
            self._revive_later(node)

    def _rot(self) -> None:
        """Flip one bit of what was once flushed. It is found when the log is opened the next time."""
        node = self._anyone_up()
        if node is None or not self._operator.may_lose(node):
            return
        flipped = node.log.flip_bit(self._random)
        if flipped:
            self._count("bit flipped")
            self._cluster.dead.append(node.key)

    def _wipe(self) -> None:
        node = self._anyone_up()
        if node is not None and self._operator.may_lose(node):
            self._count("disk wiped")
            node.kill(power=True)
            self._cluster.replace_disk(node)
            self._cluster.loop.after(self._about_us(self._cluster.options.down_ms), self._operator.start, node)

    def _garble(self) -> None:
        """Flip bits of quorum-state. A node that cannot read its vote must not start, and gets another disk."""
        node = self._anyone_up()
        if node is None or node.disk.quorum_state.durable is None or not self._operator.may_lose(node):
            return
        self._count("quorum-state damaged")
        self._cluster.dead.append(node.key)
        node.disk.quorum_state.is_damaged = True
        self._stop(node, power=False)

    def _newer(self) -> None:
        """Start a node after a downgrade: it cannot read the file and must not start. Later it starts with the right
        release."""
        node = self._anyone_up()
        if node is None:
            return
        self._count("quorum-state of a later release")
        node.kill(power=False)
        disk = node.disk
        disk.quorum_state.is_newer = True
        self._operator.start(node)

        def upgrade() -> None:
            disk.quorum_state.is_newer = False
            self._operator.start(node)

        self._cluster.loop.after(self._about_us(self._cluster.options.down_ms), upgrade)

    def _change(self) -> None:
        self._operator.change()

    def _reassign(self) -> None:
        self._operator.reassign()
