"""Placement of new partitions on brokers, by the rules of Kafka's striped placement:

- Fenced brokers are included: a topic may have as many replicas as brokers are registered. Brokers in controlled
  shutdown are not, until they are fenced; nor are brokers whose directories are all cordoned (KIP-1066).
- A partition is on as many racks as possible (KIP-36). Its racks have equally many replicas, or one more.
- Within a rack a fenced broker gets a replica only if every unfenced one has got one. The first replica, which leads,
  is on an unfenced broker.
- Replicas and leaders are even: two unfenced brokers differ by one replica, except where racks of unequal sizes force
  more.

Each rack uses its brokers in rounds, each round in another order, so that the load of a failed broker falls on all
others. `rotation` is the starting point: callers vary it, so that small topics do not all begin at one broker.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from functools import lru_cache
from math import gcd, lcm
from operator import attrgetter
from typing import Final

from kraft.controller.decision import STEP, RefusedError
from kraft.metadata.image import BrokerRegistration, PartitionRegistration
from kraft.protocol.error_codes import ErrorCode

SPREAD: Final = 2_654_435_761
"""An odd factor: consecutive rotations, in any step, begin at brokers all over the ring."""

_key_of = attrgetter("key")
_id_of = attrgetter("broker_id")


class Ring:
    """The brokers that can get replicas, by rack; kept until a broker changes. The ids are in order."""

    __slots__ = ("count", "known", "period", "racks", "unfenced")

    def __init__(self, brokers: Iterable[BrokerRegistration]) -> None:
        self.count = 0
        self.unfenced: list[int] = []
        by_rack: dict[str, tuple[list[int], list[int]]] = {}
        for broker in sorted(brokers, key=_id_of):
            unfenced, fenced = by_rack.setdefault(broker.rack or "", ([], []))
            (fenced if broker.fenced else unfenced).append(broker.broker_id)
            self.count += 1
            if not broker.fenced:
                self.unfenced.append(broker.broker_id)
        self.racks = [by_rack[name] for name in sorted(by_rack)]
        """The unfenced and the fenced brokers of each rack, by its name."""
        sizes = [len(ids) for rack in self.racks for ids in rack if ids]
        self.period = max(1, len(self.racks)) * lcm(*sizes)
        """Places at which `place` can begin. Topics that begin at the same place get the same brokers."""
        self.known: dict[tuple[int, int, int], tuple[PartitionRegistration, ...]] = {}
        """New partitions of small topics, by their number, their replicas, and where they begin."""

    def place_of(self, rotation: int) -> int:
        """Return at which place of the ring a topic begins."""
        return _start(rotation) % self.period


def ring_of(brokers: Mapping[int, BrokerRegistration]) -> Ring:
    """Return the brokers that can get replicas."""
    return Ring(broker for broker in brokers.values()
                if (broker.fenced or not broker.in_controlled_shutdown) and not all_cordoned(broker))


def all_cordoned(broker: BrokerRegistration) -> bool:
    """Return whether no directory of the broker may get new replicas (KIP-1066)."""
    cordoned = broker.cordoned_log_dirs or ()
    return bool(broker.log_dirs) and all(directory in cordoned for directory in broker.log_dirs)


def _start(rotation: int) -> int:
    return rotation * SPREAD >> 16


class _Rounds:
    """Brokers of one rack, in rounds. `count` is their number; `taken` counts all replicas given to them."""

    __slots__ = ("_brokers", "_queue", "_rotation", "_round", "count", "taken")

    def __init__(self, brokers: Sequence[int], rotation: int) -> None:
        self._brokers = brokers
        self._rotation = rotation
        self._round = 0
        self._queue: list[int] = []
        self.count = len(brokers)
        self.taken = 0

    def take(self, chosen: Sequence[int]) -> int:
        """Return the next broker that is not in `chosen`, which must not contain all of these brokers."""
        while True:
            for place, broker_id in enumerate(self._queue):
                if broker_id not in chosen:
                    del self._queue[place]
                    self.taken += 1
                    return broker_id
            self._queue += self._next_round()

    def _next_round(self) -> list[int]:
        count = self.count
        strides = _strides_of(count)
        stride = strides[self._round % len(strides)]
        start = self._rotation + self._round
        self._round += 1
        return [self._brokers[(start + number * stride) % count] for number in range(count)]


@lru_cache(maxsize=64)
def _strides_of(count: int) -> list[int]:
    """Return the strides that visit each of so many brokers once."""
    return [stride for stride in range(1, count + 1) if gcd(stride, count) == 1]


class _Rack:
    """One rack. `key` orders racks by their replicas of the current partition, by the replicas of their next broker,
    and by their average replicas. The rack with the least key is next."""

    __slots__ = ("_fenced", "_unfenced", "_used", "key", "may_lead")

    def __init__(self, unfenced: Sequence[int], fenced: Sequence[int], rotation: int) -> None:
        self._unfenced = _Rounds(unfenced, rotation)
        self._fenced = _Rounds(fenced, rotation)
        self.may_lead = len(unfenced) > 0
        self.begin()

    def begin(self) -> None:
        """Begin the next partition."""
        self._used = 0
        self._set_key()

    def _set_key(self) -> None:
        rounds = self._unfenced if self.may_lead else self._fenced
        is_full = self._used == self._unfenced.count + self._fenced.count
        self.key = (is_full, self._used, rounds.taken // rounds.count, rounds.taken / rounds.count)

    def take(self, chosen: Sequence[int]) -> int:
        rounds = self._unfenced if self._used < self._unfenced.count else self._fenced
        self._used += 1
        broker_id = rounds.take(chosen)
        self._set_key()
        return broker_id


def place(
    ring: Ring, partitions: int, replicas: int, rotation: int
) -> Generator[None, None, list[tuple[int, ...]]]:
    """Return the replicas of each partition on the brokers of the ring; the first is on an unfenced broker and will
    lead. Works in steps. INVALID_REPLICATION_FACTOR when there are too few brokers, or none is unfenced."""
    if replicas > ring.count:
        raise RefusedError(ErrorCode.INVALID_REPLICATION_FACTOR,
                           f"replication factor {replicas}: only {ring.count} broker(s) can take replicas")
    leaders = dict.fromkeys(ring.unfenced, 0)
    if not leaders:
        raise RefusedError(ErrorCode.INVALID_REPLICATION_FACTOR, "all brokers are fenced")
    racks = _racks_of(ring, _start(rotation))
    leading = [rack for rack in racks if rack.may_lead]
    found: list[tuple[int, ...]] = []
    for number in range(partitions):
        if number % STEP == STEP - 1:
            yield
        chosen = _choose(racks, leading, replicas)
        leader = min((broker_id for broker_id in chosen if broker_id in leaders), key=leaders.__getitem__)
        leaders[leader] += 1
        found.append(_led_by(leader, chosen))
    while _move_leader(found, leaders):
        if partitions > STEP:
            yield
    return found


def _led_by(leader: int, replicas: Sequence[int]) -> tuple[int, ...]:
    return (leader, *(broker_id for broker_id in replicas if broker_id != leader))


def _move_leader(found: list[tuple[int, ...]], leaders: dict[int, int]) -> bool:
    """Move one leadership from a broker that leads most to one that leads at least two fewer, by a chain of partitions
    that each change leaders. Return whether one was moved."""
    most = max(leaders.values())
    if most - min(leaders.values()) <= 1:
        return False
    led: dict[int, list[int]] = {broker_id: [] for broker_id in leaders}
    for number, replicas in enumerate(found):
        led[replicas[0]].append(number)
    reached = {broker_id: -1 for broker_id, count in leaders.items() if count == most}    # by which partition
    queue = list(reached)
    for giver in queue:
        for number in led[giver]:
            for taker in found[number]:
                if taker in leaders and taker not in reached:
                    reached[taker] = number
                    queue.append(taker)
                    if leaders[taker] <= most - 2:
                        _change_leaders(found, leaders, taker, reached)
                        return True
    return False


def _change_leaders(found: list[tuple[int, ...]], leaders: dict[int, int], taker: int,
                    reached: Mapping[int, int]) -> None:
    leaders[taker] += 1
    while (number := reached[taker]) >= 0:
        giver = found[number][0]
        found[number] = _led_by(taker, found[number])
        taker = giver
    leaders[taker] -= 1


def _racks_of(ring: Ring, start: int) -> list[_Rack]:
    first = start % len(ring.racks)
    rotation = start // len(ring.racks)
    return [_Rack(unfenced, fenced, rotation) for unfenced, fenced in (*ring.racks[first:], *ring.racks[:first])]


def _choose(racks: Sequence[_Rack], leading: Sequence[_Rack], replicas: int) -> list[int]:
    """Return the brokers of one partition, the first of them from a rack that may lead."""
    chosen: list[int] = []
    used: list[_Rack] = []
    while len(chosen) < replicas:
        rack = min(racks if chosen else leading, key=_key_of)
        chosen.append(rack.take(chosen))
        used.append(rack)
    for rack in used:
        rack.begin()
    return chosen
