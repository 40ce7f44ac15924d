"""A short campaign; `make crash-transactions` is the long one."""

from pathlib import Path

from kraft.testing.history import summary
from tests.crash_transactions.campaign import Campaign, Goal
from tests.crash_transactions.targets import OurCluster

SECONDS = 120.0


def test_transactions_through_a_few_faults(tmp_path: Path) -> None:
    with OurCluster(tmp_path, 5, brokers=1) as target:
        target.start()
        campaign = Campaign(target, 5, print, timeout_seconds=2.0, writers=2)
        assert summary(campaign.run(Goal(faults=2, transactions=60, seconds=SECONDS))) == ""
        assert target.faults.total() == 2
    assert campaign.totals.counts["transactions committed"] > 20
    assert campaign.totals.counts["records consumed and processed"] > 0
