"""Which brokers a new partition goes to (KIP-36's aim: every partition on as many racks as there are).

The brokers stand in a ring that alternates between racks. Each partition begins one place further, so that leaders are
spread evenly, and takes the next brokers in the ring of racks that it does not have yet; then any others. The distance
of the followers grows with every round, so that the load of a failed broker falls on all others and not on its
neighbour. `rotation` is where the first partition begins: callers vary it, so that small topics do not all begin at one
broker.
"""

from collections.abc import Mapping, Sequence
from itertools import zip_longest

from kraft.controller.decision import RefusedError
from kraft.metadata.image import BrokerRegistration
from kraft.protocol.error_codes import ErrorCode


def ring_of(brokers: Mapping[int, BrokerRegistration]) -> list[BrokerRegistration]:
    """Brokers that can get replicas, rack by rack in turn; fenced ones too, since they may come back."""
    racks: dict[str, list[BrokerRegistration]] = {}
    for broker in sorted(brokers.values(), key=lambda broker: broker.broker_id):
        if not broker.in_controlled_shutdown and not all_cordoned(broker):
            racks.setdefault(broker.rack or "", []).append(broker)
    rows = zip_longest(*(racks[rack] for rack in sorted(racks)))
    return [broker for row in rows for broker in row if broker is not None]


def all_cordoned(broker: BrokerRegistration) -> bool:
    """Whether no directory of the broker may take new replicas (KIP-1066)."""
    cordoned = broker.cordoned_log_dirs or ()
    return bool(broker.log_dirs) and all(directory in cordoned for directory in broker.log_dirs)


def place(
    ring: Sequence[BrokerRegistration], partitions: int, replicas: int, rotation: int
) -> list[tuple[int, ...]]:
    """Replicas of each partition on the brokers of `ring_of`, the first of which is alive and will lead.
    INVALID_REPLICATION_FACTOR when there are too few brokers, or none is alive."""
    if replicas > len(ring):
        raise RefusedError(ErrorCode.INVALID_REPLICATION_FACTOR,
                           f"replication factor {replicas}: only {len(ring)} broker(s) can take replicas")
    alive = [broker for broker in ring if not broker.fenced]
    if not alive:
        raise RefusedError(ErrorCode.INVALID_REPLICATION_FACTOR, "all brokers are fenced")
    return [_place_one(ring, alive, replicas, rotation + number) for number in range(partitions)]


def _place_one(
    ring: Sequence[BrokerRegistration], alive: list[BrokerRegistration], replicas: int, turn: int
) -> tuple[int, ...]:
    leader = alive[turn % len(alive)]
    if replicas == 1:
        return (leader.broker_id,)
    others = [broker for broker in ring if broker is not leader]
    start = ring.index(leader) + turn // len(alive)
    others = [others[(start + step) % len(others)] for step in range(len(others))]
    chosen, racks = [leader], [leader.rack]
    for spread in (True, False):
        for broker in others:
            if len(chosen) < replicas and broker not in chosen and not (spread and broker.rack in racks):
                chosen.append(broker)
                racks.append(broker.rack)
    return tuple(broker.broker_id for broker in chosen)
