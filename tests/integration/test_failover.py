"""A producer continues, and loses nothing, while nodes of its cluster are killed and restarted."""

from tests.integration.failover import NODES, Failover
from tests.integration.quorum import MakeQuorum

KILL_SECONDS = 5.0
"""Limit far above the usual gap and far below a broker's session."""
RESTART_SECONDS = 5.0
SESSIONS = {"broker.heartbeat.interval.ms": "2000", "broker.session.timeout.ms": "9000"}
"""Default settings."""


def test_kills_and_a_rolling_restart(new_quorum: MakeQuorum) -> None:
    quorum = new_quorum(NODES, is_broker=True)
    for node in quorum.nodes.values():
        node.settings |= SESSIONS
    quorum.start()
    cluster = Failover(quorum)
    killed = [cluster.kill(controller=controller).seconds for controller in (True, False)]
    restarted = cluster.restart_all()
    for stream, outcome in zip(cluster.streams, cluster.outcomes(), strict=True):
        assert outcome.is_right, f"{outcome}: {stream.errors[:3]}"
    assert max(killed) < KILL_SECONDS
    assert max(restarted) < RESTART_SECONDS
