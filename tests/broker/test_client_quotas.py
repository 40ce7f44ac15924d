"""Client quotas: which quota applies to a client, and which clients share one."""

from collections.abc import Iterator
from typing import Any

import pytest

from kraft.broker.client_quotas import METERS_MAX, ClientRates, ConnectionRates
from kraft.controller.mutation_quotas import MutationQuotas
from kraft.metadata.client_quotas import (
    CONNECTION_RATE,
    CONSUMER_RATE,
    MUTATION_RATE,
    PRODUCER_RATE,
    REQUEST_PERCENTAGE,
)
from kraft.metadata.image import QuotaEntity
from kraft.protocol.messages.create_topics_request import CreateTopicsRequest
from kraft.security.principal import Client, Principal

# From the most specific to the least. The client is `app`, of the user that all clients have without security.
LEVELS: tuple[QuotaEntity, ...] = (
    (("client-id", "app"), ("user", "ANONYMOUS")), (("client-id", None), ("user", "ANONYMOUS")),
    (("user", "ANONYMOUS"),), (("client-id", "app"), ("user", None)), (("client-id", None), ("user", None)),
    (("user", None),), (("client-id", "app"),), (("client-id", None),))


def test_the_most_specific_one_holds() -> None:
    rates = ClientRates(samples=11, sample_ms=1000)
    quotas = {entity: {PRODUCER_RATE: 1000.0 + place} for place, entity in enumerate(LEVELS)}
    quotas[(("client-id", "other"),)] = {PRODUCER_RATE: 1.0}
    for place, entity in enumerate(LEVELS):
        assert rates.update(quotas)
        producing, fetching, time = rates.find(b"app")
        assert producing is not None and producing.rate == 1000 + place
        assert fetching is None and time is None
        del quotas[entity]
    assert rates.update(quotas)
    assert rates.find(b"app") == (None, None, None)


def test_a_user_has_its_own_quota_on_every_connection() -> None:
    rates = ClientRates(samples=11, sample_ms=1000)
    alice, bob = Principal.user("alice"), Principal.user("bob")
    rates.update({(("user", "alice"),): {PRODUCER_RATE: 10.0},
                  (("client-id", "app"), ("user", "bob")): {PRODUCER_RATE: 20.0}})
    assert rates.find(b"app") == (None, None, None)
    of_alice, *_ = rates.find(b"app", alice)
    assert of_alice is not None and of_alice.rate == 10 and rates.find(b"other", alice)[0] is of_alice
    of_bob, *_ = rates.find(b"app", bob)
    assert of_bob is not None and of_bob.rate == 20 and rates.find(b"other", bob)[0] is None
    quotas = {(("user", "alice"),): {MUTATION_RATE: 5.0}}
    charged = [MutationQuotas(2, 1000).charge(quotas, CreateTopicsRequest(), 7, Client("app", user), 0).bucket
               for user in (alice, bob)]
    assert charged[0] is not None and charged[1] is None


def test_clients_that_share_a_quota() -> None:
    rates = ClientRates(samples=11, sample_ms=1000)
    assert rates.update({(("user", None),): {PRODUCER_RATE: 10.0, CONSUMER_RATE: 20.0}})
    assert rates.find(b"one") == rates.find(b"two")
    rates.update({(("client-id", None),): {PRODUCER_RATE: 10.0}})
    assert rates.find(b"one") != rates.find(b"two")
    before, *_ = rates.find(b"one")
    rates.update({(("client-id", None),): {PRODUCER_RATE: 30.0}})
    after, *_ = rates.find(b"one")
    assert after is before and after is not None and after.rate == 30


def test_a_percentage_is_of_the_time_of_one_thread() -> None:
    rates = ClientRates(samples=11, sample_ms=1000)
    assert rates.update({(("user", None),): {REQUEST_PERCENTAGE: 12.5}})
    producing, fetching, time = rates.find(b"app")
    assert producing is None and fetching is None
    assert time is not None and time.rate == 125_000_000, "nanoseconds in a second"
    rates.update({(("user", None),): {REQUEST_PERCENTAGE: 1e300}})
    assert rates.find(b"app")[2] is time and time.rate == 2**63 - 1


def test_quotas_of_other_entities_are_ignored() -> None:
    rates = ClientRates(samples=11, sample_ms=1000)
    rates.update({(("ip", None),): {CONNECTION_RATE: 1.0}, (("user", None),): {"x": 1.0}})
    assert rates.find(b"app") == (None, None, None)
    assert not rates.update({})


@pytest.mark.parametrize("host", ["192.0.2.1", "::ffff:192.0.2.1"])
def test_an_address_may_connect_so_often(host: str) -> None:
    """The rate applies to all samples but one; refused connections do not count. Other addresses have the default."""
    rates = ConnectionRates(samples=3, sample_ms=1000)
    assert rates.throttle_ms(host, lambda: 10_000) == 0
    quotas = {(("ip", "192.0.2.1"),): {CONNECTION_RATE: 2.0}, (("ip", None),): {CONNECTION_RATE: 1.0},
              (("ip", "192.0.2.9"),): {"x": 1.0}}
    rates.update(quotas, quotas)
    assert [rates.throttle_ms(host, lambda: 10_000) > 0 for _ in range(6)] == [False] * 4 + [True] * 2
    assert [rates.throttle_ms("192.0.2.2", lambda: 10_000) > 0 for _ in range(3)] == [False, False, True]
    assert rates.throttle_ms("no address", lambda: 10_000) == 0
    assert 0 < rates.throttle_ms(host, lambda: 10_000) <= 1000
    assert rates.throttle_ms(host, lambda: 13_000) == 0, "its time is over"
    rates.update({}, quotas)
    assert rates.throttle_ms(host, lambda: 13_000) == 0


def test_an_address_that_quotas_spell_in_two_ways_has_the_last_rate() -> None:
    rates = ConnectionRates(samples=2, sample_ms=1000)
    quotas = {(("ip", "::1"),): {CONNECTION_RATE: 1.0}, (("ip", "0:0:0:0:0:0:0:1"),): {CONNECTION_RATE: 3.0}}
    rates.update(quotas, quotas)
    assert [rates.throttle_ms("::1", lambda: 10_000) > 0 for _ in range(4)] == [False] * 3 + [True]
    del quotas[(("ip", "0:0:0:0:0:0:0:1"),)]
    rates.update(quotas, [(("ip", "0:0:0:0:0:0:0:1"),), (("ip", "::2"), ("user", "u"))])
    assert [rates.throttle_ms("::1", lambda: 20_000) > 0 for _ in range(2)] == [False, True]


class Counted(dict[QuotaEntity, dict[str, float]]):
    """Quotas that count how many are read, and that nobody iterates over."""

    reads = 0

    def get(self, *found: Any) -> Any:
        self.reads += 1
        return super().get(*found)

    def __iter__(self) -> Iterator[QuotaEntity]:
        raise AssertionError("the time of a request would depend on the number of quotas")

    items = keys = values = __iter__  # type: ignore[assignment]


def test_a_client_among_very_many_quotas_is_found_by_its_name() -> None:
    """Each change of a quota makes the next request of each client find its quotas again."""
    quotas = Counted({(("user", f"{number}"),): {PRODUCER_RATE: 1.0} for number in range(1_000)})
    quotas[(("user", "ANONYMOUS"), ("client-id", "app"))] = {PRODUCER_RATE: 7.0, CONSUMER_RATE: float("nan")}
    rates = ClientRates(samples=2, sample_ms=1000)
    rates.update(quotas)
    producing, fetching, _ = rates.find(b"app")
    assert producing is not None and producing.rate == 7 and fetching is None
    charge = MutationQuotas(2, 1000).charge(quotas, CreateTopicsRequest(), 7, Client("app"), 0)
    assert charge.bucket is None
    addresses = ConnectionRates(samples=2, sample_ms=1000)
    addresses.update(quotas, [(("ip", "::1"),)])
    assert addresses.throttle_ms("::1", lambda: 0) == 0
    assert quotas.reads < 64


def test_all_together_may_connect_so_often() -> None:
    """Connections above the rate are accepted one after the other, as many per second as it allows; none is refused."""
    rates = ConnectionRates(samples=3, sample_ms=1000)
    assert [rates.delay_ms("A", lambda: 10_000) for _ in range(9)] == [0] * 9, "no limit"
    rates.update_all(4)
    assert [rates.delay_ms("A", lambda: 10_000) for _ in range(12)] == [0] * 8 + [250, 500, 750, 1000]
    assert rates.delay_ms("A", lambda: 10_500) == 750, "behind those that wait"
    assert rates.delay_ms("A", lambda: 14_000) == 0, "their time is over"
    rates.update_all(2**31 - 1)
    assert rates.delay_ms("A", lambda: 14_000) == 0


def test_a_listener_may_have_a_rate_of_its_own() -> None:
    """A listener has a rate besides that of the node.

    A connection that exceeds both waits for the longer time; a connection of a broker only for that of its listener.
    """
    rates = ConnectionRates(samples=3, sample_ms=1000)
    rates.limit_listeners({"A": 2})
    assert [rates.delay_ms("A", lambda: 10_000) for _ in range(6)] == [0] * 4 + [500, 1000]
    assert [rates.delay_ms("B", lambda: 10_000) for _ in range(9)] == [0] * 9, "no limit"
    rates.update_all(4)
    assert [rates.delay_ms("B", lambda: 20_000) for _ in range(9)] == [0] * 8 + [250]
    assert [rates.delay_ms("A", lambda: 20_000) for _ in range(5)] == [500, 750, 1000, 1250, 1500]
    assert rates.delay_ms("A", lambda: 20_000, is_exempt=True) == 1000
    assert rates.delay_ms("B", lambda: 20_000, is_exempt=True) == 0


def test_client_ids_without_end_take_no_memory_without_end() -> None:
    rates = ClientRates(samples=1, sample_ms=1000)
    rates.update({(("client-id", None),): {PRODUCER_RATE: 10.0}})
    for number in range(METERS_MAX + 5):
        rates.find(b"%d" % number)
    assert len(rates.meters) <= METERS_MAX
