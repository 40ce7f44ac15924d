"""Which quota holds for a client, and who shares it."""

from kraft.broker.client_quotas import CONSUMER_RATE, METERS_MAX, PRODUCER_RATE, ClientRates
from kraft.metadata.image import QuotaEntity

# From the most specific to the least; the client is `app` of the user that everybody is without security.
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
        producing, fetching = rates.find(b"app")
        assert producing is not None and producing.rate == 1000 + place
        assert fetching is None
        del quotas[entity]
    assert rates.update(quotas)
    assert rates.find(b"app") == (None, None)


def test_who_shares_a_quota() -> None:
    rates = ClientRates(samples=11, sample_ms=1000)
    assert rates.update({(("user", None),): {PRODUCER_RATE: 10.0, CONSUMER_RATE: 20.0}})
    assert rates.find(b"one") == rates.find(b"two")
    rates.update({(("client-id", None),): {PRODUCER_RATE: 10.0}})
    assert rates.find(b"one") != rates.find(b"two")
    before, _ = rates.find(b"one")
    rates.update({(("client-id", None),): {PRODUCER_RATE: 30.0}})
    after, _ = rates.find(b"one")
    assert after is before and after is not None and after.rate == 30


def test_what_limits_no_bytes_is_no_concern_here() -> None:
    rates = ClientRates(samples=11, sample_ms=1000)
    assert not rates.update({(("user", None),): {"request_percentage": 10.0}, (("ip", None),): {"x": 1.0}})
    assert not rates.update({})


def test_client_ids_without_end_take_no_memory_without_end() -> None:
    rates = ClientRates(samples=1, sample_ms=1000)
    rates.update({(("client-id", None),): {PRODUCER_RATE: 10.0}})
    for number in range(METERS_MAX + 5):
        rates.find(b"%d" % number)
    assert len(rates._meters) <= METERS_MAX
