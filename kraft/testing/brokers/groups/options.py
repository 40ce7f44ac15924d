"""Options of a run with groups, drawn from its seed."""

from random import Random

from kraft.testing.brokers.options import draw as draw_brokers
from kraft.testing.sim.options import Options, some

CLOCK_ODDS = 0.1


def draw(random: Random) -> Options:
    """Draw the options of a run. Sessions, rebalances and fail-overs have about the same length."""
    options = draw_brokers(random)
    if random.random() >= CLOCK_ODDS:
        # Ownership is judged by sessions, so only where clocks agree on their length.
        options = options.where(skew_ppm=0, jump_every_ms=0)
    return options.where(
        topics=0, topic_every_ms=0, delete_every_ms=0, unclean=False, stall_every_ms=0,
        partitions=random.choice((1, 1, 2)), heal_seconds=60, fault_seconds=random.choice((4, 6, 10)),
        propose_every_ms=2000, **_groups(random), **_members(random))


def _groups(random: Random) -> dict[str, int | bool]:
    return {
        "groups": random.choice((1, 2, 3)),
        "group_topics": random.choice((1, 2, 2)),
        "group_partitions": random.choice((1, 2, 3)),
        "group_topic_every_ms": some(random, 0.3, 400, 3000),
        "group_level_every_ms": some(random, 0.12, 800, 4000),
        "group_setting_every_ms": some(random, 0.2, 300, 3000),
        "migration_policy": random.choice((0, 1, 2, 3, 3, 3)),
        "assignment_ms": random.choice((0, 0, 0, 200, 1000)),
        "clean_per_mille": random.choice((0, 300, 1000)),
        "request_ms": random.choice((300, 1000)),
        "repeat_per_mille": random.choice((0, 0, 20, 200)),
    }


def _members(random: Random) -> dict[str, int | bool]:
    return {
        "members": random.choice((2, 3, 3, 5)),
        "classic_per_mille": random.choice((0, 0, 0, 300, 500, 1000)),
        "cooperates": random.random() < 0.5,
        "static_per_mille": random.choice((0, 0, 300, 700)),
        "regex_per_mille": random.choice((0, 0, 0, 300)),
        "group_session_ms": random.choice((500, 1000, 2000)),
        "group_rebalance_ms": random.choice((600, 1500, 3000)),
        "heartbeat_ms": random.choice((50, 100, 150)),
        "commit_per_mille": random.choice((100, 300, 700)),
        "member_every_ms": random.choice((150, 400, 1000, 2500)),
    }
