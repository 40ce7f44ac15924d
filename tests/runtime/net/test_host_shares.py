"""Order of batch checks: hosts share the thread by the time that they have used of it."""

from collections.abc import Sequence
from typing import NamedTuple

from kraft.runtime.net.host_shares import HostShares


class Work(NamedTuple):
    peer_host: str
    number: int = 0


def order(shares: HostShares[Work], costs_ns: dict[str, int], count: int = 1000) -> str:
    """Return the hosts of the next pieces of work, one letter each, while some wait."""
    served = ""
    while shares and len(served) < count:
        work = shares.take()
        shares.charge(work, costs_ns[work.peer_host])
        served += work.peer_host
    return served


def shares_of(hosts: Sequence[str]) -> HostShares[Work]:
    shares = HostShares[Work]()
    for number, host in enumerate(hosts):
        shares.add(Work(host, number))
    return shares


def test_work_of_one_host_goes_in_the_order_in_which_it_came():
    shares = shares_of("aaaa")
    taken = []
    while shares:
        taken.append(shares.take())
        shares.charge(taken[-1], 10)
    assert [work.number for work in taken] == [0, 1, 2, 3]


def test_one_that_comes_late_goes_before_the_others_of_a_greedy_host():
    shares = shares_of("a" * 100)
    order(shares, {"a": 300}, 50)
    shares.add(Work("b"))
    assert order(shares, {"a": 300, "b": 1}, 2) in ("ab", "ba")


def test_hosts_share_the_time_and_not_the_requests():
    shares = shares_of("a" * 100 + "b" * 100)
    served = order(shares, {"a": 300, "b": 100}, 40)
    assert (served.count("a"), served.count("b")) == (10, 30)


def test_nothing_is_saved_up_by_waiting_for_nothing():
    shares = shares_of("a" * 100)
    order(shares, {"a": 300}, 50)
    for _ in range(50):
        shares.add(Work("b"))
    served = order(shares, {"a": 300, "b": 300}, 40)
    assert abs(served.count("a") - served.count("b")) <= 1


def test_a_host_that_returns_soon_keeps_its_count():
    shares = shares_of("baaaaa")
    assert order(shares, {"b": 1000}, 1) == "b"
    shares.add(Work("b"))
    assert order(shares, {"a": 1, "b": 1000}) == "aaaaab"


def test_a_departed_host_is_forgotten():
    shares = shares_of("a" * 1000)
    for number in range(900):
        shares.add(Work(f"host-{number}"))
        for _ in range(2):
            shares.charge(shares.take(), 10)
        assert len(shares._due_ns) < 10
