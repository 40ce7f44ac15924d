"""Deaths that no cluster could survive. The faults leave them out, so that every loss is a bug.

With page-cache durability, a broker that loses power loses records that it has acknowledged to others. KIP-966 promises
to survive `min.insync.replicas` - 1 such deaths at a time. Without eligible leader replicas nothing is promised.

So the guard allows one such death at a time, while all other brokers live and are registered. Until the broker is in
sync again, no broker dies uncleanly. If records count only when they are on disk, any broker may die.
"""

from collections.abc import Callable, Sequence

from kraft.metadata.image import MetadataImage
from kraft.testing.brokers.node import BrokerNode
from kraft.testing.brokers.replica import PAGE_CACHE
from kraft.testing.sim.options import Options


class Guard:
    def __init__(self, nodes: Callable[[], Sequence[BrokerNode]], image: Callable[[], MetadataImage],
                 options: Callable[[], Options]) -> None:
        self._nodes = nodes
        self._image = image
        self._options = options
        self._lost: dict[int, int] = {}     # broker id -> epoch of the registration from before the loss

    def is_exempt(self, broker_id: int) -> bool:
        """Return whether the broker lost records and the controller does not know it yet."""
        broker = self._image().brokers.get(broker_id)
        return broker_id in self._lost and broker is not None and broker.epoch == self._lost[broker_id]

    def registered(self) -> None:
        """Check after a metadata change which brokers are whole again."""
        for broker_id in list(self._lost):
            if not self.is_exempt(broker_id) and all(
                    broker_id in partition.isr for _, _, partition in self._image().partitions()
                    if broker_id in partition.replicas):
                del self._lost[broker_id]

    @property
    def allows_losses(self) -> bool:
        """True when a broker may lose records in this run while the controller counts it as in sync or eligible."""
        options = self._options()
        loses_power = (options.power_every_ms or options.blackout_every_ms or options.relocate_every_ms
                       or options.reboot_every_ms) > 0
        loses_directories = options.directories > 1 and options.directory_every_ms > 0
        has_losses = loses_directories or (loses_power and options.durability == PAGE_CACHE)
        return has_losses and self._promises_survival

    @property
    def _promises_survival(self) -> bool:
        return self._options().elr and self._options().min_insync > 1

    def may_die(self, node: BrokerNode, *, power: bool) -> bool:
        """Return whether the node may die, and note the death that follows."""
        if not node.is_up or not node.has_broker:
            return True
        if self._lost:
            return False
        broker = self._image().brokers.get(node.id)
        if power and broker is not None and self._options().durability == PAGE_CACHE:
            if not (self._promises_survival and self._others_have_everything(node.id)):
                return False
            self._lost[node.id] = broker.epoch
        return True

    def may_lose_directory(self, node: BrokerNode, *, replaced: bool) -> bool:
        """Return whether a log directory may fail, and note the failure. Its unflushed records are lost, or all of them
        when it is replaced."""
        broker = self._image().brokers.get(node.id)
        if self._lost or broker is None:
            return False
        if replaced or self._options().durability == PAGE_CACHE:
            if not (self._promises_survival and self._others_have_everything(node.id)):
                return False
            self._lost[node.id] = broker.epoch
        return True

    def _others_have_everything(self, broker_id: int) -> bool:
        others = [node for node in self._nodes() if node.has_broker and node.id != broker_id]
        if not all(self._takes_part(node) for node in others):
            return False
        for _topic, _index, partition in self._image().partitions():
            members = (*partition.isr, *partition.elr)
            is_known = broker_id in members or broker_id in partition.last_known_elr
            if is_known and all(each == broker_id for each in members):
                return False
        return True

    def _takes_part(self, node: BrokerNode) -> bool:
        """Return whether the node runs as the registered process. A broker that died uncleanly is considered to have
        lost records."""
        broker = self._image().brokers.get(node.id)
        return (node.is_up and node.broker is not None and broker is not None and broker.active
                and node.broker.incarnation_id == broker.incarnation_id)
