"""Facts as a cluster reports them in each incident of `incidents.toml`, made by hand."""

from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import UUID

from kraft.client.groups import DescribedGroup, Member
from kraft.client.quorum import Description, Replica
from kraft.client.reassignments import Ongoing
from kraft.client.state import BrokerState, LogDirectory, Storage
from kraft.console.sources import Recordings
from kraft.console.state.groups import GroupDetail, Place
from kraft.console.state.what_if import Placed
from kraft.console.why.facts import Facts, red_of
from kraft.console.why.history import FENCED, STOPPED, BrokerEvent, History
from kraft.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, MetadataImage, Resource
from kraft.recorder.entry import STATE, Entry
from kraft.recorder.why import Answer

NOW: Final = 1_800_000_000_000
ZERO: Final = UUID(int=0)
REFUSED: Final = "localhost:9: cannot connect: [Errno 111] Connection refused"
TIMED_OUT: Final = "localhost:9: ApiVersionsRequest: timed out"
UP: Final = tuple(BrokerState(each, f"localhost:{each}", None, False, None) for each in (1, 2, 3))
WELL: Final = (Placed(("t", 0), 1, (1, 2, 3), (1, 2, 3)),)
WITHOUT_2: Final = (Placed(("t", 0), 1, (1, 2, 3), (1, 3)),)


def down(problem: str = "fenced", *, fenced: bool = True, node_id: int = 2) -> tuple[BrokerState, ...]:
    return tuple(each._replace(fenced=fenced, problem=problem) if each.node_id == node_id else each for each in UP)


def quorum(*voters: int, leader: int = 3001) -> Description:
    return Description(leader, 5, 100, tuple(Replica(each, ZERO, True, 100, 0, NOW, NOW) for each in voters))


def facts(**values: Any) -> Facts:
    """Facts of a cluster of three brokers and three controllers that is well, but for the given ones."""
    placed = values.get("placed", WELL)
    given = {"now_ms": NOW, "brokers": UP, "placed": placed, "red": red_of(placed), "image": MetadataImage(),
             "quorum": quorum(3001, 3002, 3003)}
    return Facts(**{**given, **values})


def explained(about: str, node_id: int, text: str, *, is_well: bool = False) -> list[tuple[tuple[str, int], Answer]]:
    return [(("t", 0), Answer(about, node_id, is_well, text))]


def group(state: str = "Stable", members: int = 1, *, idle: int = 0, committed: int = 0, start: int = 0,
          end: int = 0) -> list[GroupDetail]:
    members_of = tuple(Member(f"m{each}", None, f"client-{each}", "/127.0.0.1", () if each < idle else (("t", 0),))
                for each in range(members))
    place = Place(("t", 0), committed, start, end, "", "")
    return [GroupDetail(DescribedGroup("g", "classic", state, "consumer", "range", members_of), (place,), None)]


def history(what: str) -> History:
    return History({2: BrokerEvent(NOW - 60_000, what)})


def image(**values: Any) -> MetadataImage:
    return MetadataImage(**values)


def setting(kind: int, name: str, key: str, value: str) -> MetadataImage:
    return MetadataImage(configs={Resource(kind, name): {key: value}})


def fencing(because: str) -> Recordings:
    return Recordings([Entry(NOW - 60_000, 3001, 1, "fences", {"broker": 2, "because": because})])


def moving(**values: Any) -> Facts:
    move = Ongoing(("t", 0), (1, 2, 3), (3,), (2,))
    return facts(moves={("t", 0): move}, placed=(Placed(("t", 0), 1, (1, 2, 3), (1, 2)),), **values)


THROTTLED: Final = MetadataImage(configs={
    Resource(TOPIC_RESOURCE, "t"): {"leader.replication.throttled.replicas": "*"},
    Resource(BROKER_RESOURCE, "1"): {"leader.replication.throttled.rate": "1000"}})

SITUATIONS: Final[Mapping[str, Callable[[], Facts]]] = {
    "broker-killed": lambda: facts(brokers=down(), probes={2: REFUSED}, placed=WITHOUT_2, history=history(FENCED),
                                   recordings=fencing("no heartbeat for 9.0 s")),
    "broker-stopped": lambda: facts(brokers=down(), probes={2: REFUSED}, placed=WITHOUT_2, history=history(STOPPED)),
    "broker-paused": lambda: facts(brokers=down(TIMED_OUT, fenced=False)),
    "broker-without-controller": lambda: facts(leases={2: "its lease ended 12 s ago"}),
    "follower-cut-from-leader": lambda: facts(placed=WITHOUT_2, about_partitions=explained(
        "replica", 2, "Broker 2 is not in sync: it is up. It cannot reach its leader, broker 1 (at 1): refused.")),
    "directory-failed": lambda: facts(directories=[LogDirectory(2, "/d", "the disk is broken", 0, 0, -1, -1)]),
    "disk-almost-full": lambda: facts(directories=[LogDirectory(2, "/d", None, 3, 80, 1000, 99)]),
    "disk-full": lambda: facts(directories=[LogDirectory(2, "/d", "No space on device", 0, 0, -1, -1)]),
    "slow-follower": lambda: facts(placed=WITHOUT_2, about_partitions=explained(
        "replica", 2, "Broker 2 is not in sync: its log has 1 MB of the leader's 9 MB; it is up, and catches up.")),
    "partition-without-leader": lambda: facts(placed=(Placed(("t", 0), -1, (1, 2), ()),), about_partitions=explained(
        "leader", -1, "Nobody leads t/0 since 12:00: broker 1 was fenced, and no other replica was in sync and up.")),
    "single-replica-offline": lambda: facts(brokers=down(), probes={2: REFUSED}, history=history(FENCED),
                                            placed=(Placed(("s", 0), -1, (2,), (2,)),)),
    "below-minimum-isr": lambda: facts(placed=(Placed(("t", 0), 1, (1, 2, 3), (1,)),), about_partitions=explained(
        "isr", 1, "In sync: 1; 2 are needed for acks=all (min.insync.replicas), so such requests are refused.")),
    "minimum-isr-above-replicas": lambda: facts(
        placed=(Placed(("t", 0), 1, (1, 2), (1, 2)),), image=setting(TOPIC_RESOURCE, "t", "min.insync.replicas", "3")),
    "unclean-election": lambda: facts(history=History(unclean={("t", 0): NOW - 5_000})),
    "records-lost": lambda: facts(storage=Storage(["broker 1: t-0 ends at 5, and 9 were acknowledged"], [])),
    "strays": lambda: facts(storage=Storage([], ["broker 2: 1 stray partition directory (kraft storage strays)"])),
    "controller-killed": lambda: facts(about_quorum=[
        Answer("voter", 3001, False, "Voter 3001 is not caught up: it does not answer (cannot connect).")]),
    "quorum-lost": lambda: facts(quorum=None, about_quorum=[
        Answer("leader", -1, False, "There is no leader: 1 of 3 voters answers, and a majority is 2.")]),
    "controller-paused": lambda: facts(about_quorum=[
        Answer("voter", 3002, False, "Voter 3002 is not caught up: it does not answer (timed out).")]),
    "voter-cut-from-leader": lambda: facts(about_quorum=[
        Answer("voter", 3002, False, "Voter 3002 is not caught up: the two do not reach each other.")]),
    "even-quorum": lambda: facts(quorum=quorum(3001, 3002)),
    "voter-change-pending": lambda: facts(about_quorum=[
        Answer("change", 3001, False, "A change of the voters is pending, add 3004: it waits for 3004.")]),
    "reassignment-stuck": lambda: moving(brokers=down(node_id=3), probes={3: REFUSED}),
    "reassignment-throttled": lambda: moving(image=THROTTLED, about_partitions=explained(
        "reassignment", -1, "A reassignment to 1, 3 is under way: it waits for broker 3 to be in sync; 1 kB copied.")),
    "throttle-left-over": lambda: facts(image=THROTTLED),
    "leaders-unbalanced": lambda: facts(placed=tuple(
        Placed(("t", each), 2, (1, 2), (1, 2)) for each in range(4))),
    "one-rack": lambda: facts(brokers=[each._replace(rack="b" if each.node_id == 3 else "a") for each in UP],
                              placed=(Placed(("t", 0), 1, (1, 2), (1, 2)),)),
    "internal-topic-one-replica": lambda: facts(placed=(Placed(("__consumer_offsets", 0), 1, (1,), (1,)),)),
    "group-without-members": lambda: facts(groups=group("Empty", 0, committed=1, end=9)),
    "group-lost-records": lambda: facts(groups=group("Empty", 0, committed=1, start=5, end=9)),
    "group-past-the-end": lambda: facts(groups=group("Empty", 0, committed=10, end=9)),
    "idle-members": lambda: facts(groups=group(members=3, idle=2)),
    "group-rebalancing": lambda: facts(groups=group("PreparingRebalance")),
    "slow-consumer": lambda: facts(groups=group(committed=1, end=11_000)),
    "open-transaction": lambda: facts(transactions=explained("transaction", 1, (
        "Readers of committed records of t/0 stop at offset 3, where an open transaction of producer 7 begins."),
        is_well=True)),
    "hanging-transaction": lambda: facts(transactions=explained("transaction", -1, (
        "Readers of committed records of t/0 stop. No coordinator knows this producer, so the transaction hangs."))),
    "prepared-transaction": lambda: facts(transactions=explained("transaction", 1, (
        "Readers of committed records of t/0 stop. It is of two-phase commit and does not expire."), is_well=True)),
    "setting-not-applied": lambda: facts(faults={2: ["ssl.keystore.location: there is no such file"]}),
    "clock-skew": lambda: facts(recordings=Recordings([
        Entry(NOW + (90_000 if each == 2 else 0), each, 1, STATE, {}) for each in (1, 2, 3)])),
    "quota-throttles-everybody": lambda: facts(image=image(quotas={(("user", None),): {"producer_byte_rate": 1000.0}})),
}
