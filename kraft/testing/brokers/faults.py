"""What breaks brokers, besides what breaks a quorum."""

from collections.abc import Callable
from random import Random

from kraft.testing.brokers.admin import Admin
from kraft.testing.brokers.guard import Guard
from kraft.testing.brokers.node import BrokerNode
from kraft.testing.sim.cluster import Cluster
from kraft.testing.sim.faults import Faults
from kraft.testing.sim.node import Node
from kraft.testing.sim.operator import Operator


class BrokerFaults(Faults):
    """Deaths that no cluster could survive are left out (`guard`)."""

    def __init__(self, cluster: Cluster, operator: Operator, random: Random, admin: Admin, guard: Guard) -> None:
        super().__init__(cluster, operator, random)
        self._admin = admin
        self._guard = guard

    def kinds(self) -> tuple[tuple[int, Callable[[], None]], ...]:
        options = self._cluster.options
        return (*super().kinds(), (options.shutdown_every_ms, self._shut_down),
                (options.topic_every_ms, self._admin.change_topic), (options.move_every_ms, self._admin.move),
                (options.elect_every_ms, self._admin.elect), (options.delete_every_ms, self._admin.delete_records))

    def _stop(self, node: Node, *, power: bool, down_ms: int | None = None) -> None:
        assert isinstance(node, BrokerNode)
        if self._guard.may_die(node, power=power):
            super()._stop(node, power=power, down_ms=down_ms)
        else:
            self._count("death put off")

    def _shut_down(self) -> None:
        node = self._anyone_up()
        if isinstance(node, BrokerNode) and not node.is_leaving:
            node.stop()
            life = node.life

            def again() -> None:
                if not node.is_up:
                    self._operator.start(node)
                elif node.life == life:
                    self._cluster.loop.after(self._about_us(self._cluster.options.down_ms), again)

            self._cluster.loop.after(self._about_us(self._cluster.options.down_ms), again)
