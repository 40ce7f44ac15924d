"""The example of a service whose orders are in PostgreSQL and in a topic, or in neither."""

from pathlib import Path

import pytest

from kraft.client.topics import create_topic
from kraft.local.cluster import LocalCluster
from tests.examples.order_kills import SETTINGS, TOPIC, OrdersUnderKills
from tests.examples.postgres import Postgres, missing

KILLS = 20


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """Check nothing: the engine does not run in this process."""


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_each_order_is_in_both_after_kills_of_service_database_and_broker(tmp_path: Path) -> None:
    one_replica = {"offsets.topic.replication.factor": "1", "transaction.state.log.replication.factor": "1",
                   "transaction.state.log.min.isr": "1", "min.insync.replicas": "1"}
    with Postgres() as database, LocalCluster(tmp_path, brokers=1, controllers=0,
                                              settings=SETTINGS | one_replica) as cluster:
        cluster.start()
        with cluster.client() as client:
            create_topic(client, TOPIC, 1)
        with OrdersUnderKills(cluster, database, seed=1, services=2) as run:
            run.kill(KILLS, shares={"database": 0.1, "broker": 0.1})
            assert all(run.kills[each] >= 2 for each in ("service", "database", "broker"))
            assert run.check() > KILLS // 2
