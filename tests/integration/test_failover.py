"""A producer goes on, and loses nothing, while nodes of its cluster are killed and restarted."""

from tests.integration.failover import NODES, Failover
from tests.integration.quorum import MakeQuorum

KILL_SECONDS = 5.0
"""Far more than it takes, far less than a broker's session."""
RESTART_SECONDS = 5.0


def test_a_kill_and_a_rolling_restart(new_quorum: MakeQuorum) -> None:
    cluster = Failover(new_quorum(NODES, is_broker=True))
    cluster.start()
    killed = cluster.kill()
    restarted = cluster.restart_all()
    for stream, outcome in zip(cluster.streams, cluster.outcomes(), strict=True):
        assert outcome.is_right, f"{outcome}: {stream.errors[:3]}"
    assert killed < KILL_SECONDS
    assert max(restarted) < RESTART_SECONDS
