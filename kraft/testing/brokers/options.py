"""Options of a run with brokers, drawn from its seed."""

from random import Random

from kraft.testing.sim.options import TURNS_US, Options, some


def draw(random: Random) -> Options:
    """Draw the options of a short run. Sessions, lags and deaths have about the same length, so much happens in little
    time."""
    brokers = random.choice((2, 3, 3, 3, 4))
    combined = random.random() < 0.5
    voters = random.choice((1, 3)) if combined else random.choice((1, 1, 3))
    options = Options().where(
        brokers=brokers, combined=combined, voters=voters,
        observers=max(0, brokers - voters) if combined else brokers,
        **_partitions(random, brokers), **_times(random), **_network(random), **_deaths(random), **_operators(random))
    options = options.where(**random.choice((_calm, _calm, _shuffles, _reboots, _overtakes))(random, options))
    return options.where(turn_us=random.choice(TURNS_US), **_producers(random), **_doubts(random),
                         **_directories(random), resize=random.random() < 0.5, **_leader_checks(random),
                         step_us=random.choice((0, 0, 100, 20_000)))


def _partitions(random: Random, brokers: int) -> dict[str, int | bool]:
    replication = min(brokers, random.choice((1, 2, 3, 3, 3)))
    return {
        "topics": random.choice((1, 1, 2)),
        "partitions": random.choice((1, 2)),
        "replication": replication,
        "min_insync": min(replication, random.choice((1, 2, 2, 2, 3))),
        "elr": random.random() < 0.75,
        "unclean": random.random() < 0.12,
        "durability": random.choice((0, 0, 1, 2)),
    }


def _times(random: Random) -> dict[str, int | bool]:
    return {
        "fault_seconds": random.choice((2, 4, 6, 10)),
        "election_timeout_ms": random.choice((200, 400)),
        "election_backoff_max_ms": 300,
        "fetch_timeout_ms": random.choice((600, 1000)),
        "session_ms": random.choice((400, 800, 1500)),
        "lag_ms": random.choice((150, 400, 1000)),
        "idle_ms": random.choice((0, 0, 710)),
        "fetch_wait_ms": random.choice((20, 100, 300)),
        "fetch_batches": random.choice((1, 3, 20)),
        "window": random.choice((1, 3, 5)),
        "produce_every_ms": random.choice((40, 80, 200)),
        "propose_every_ms": 2000,
        "clients": 1,
        "snapshot_every_offsets": random.choice((0, 0, 30)),
        "flush_us": random.choice((100, 1000, 10_000)),
        "slow_flush_per_mille": some(random, 0.2, 5, 100),
        "slow_flush_ms": random.choice((100, 600)),
    }


def _network(random: Random) -> dict[str, int | bool]:
    return {
        "delay_ms": random.choice((0, 1, 2, 10)),
        "jitter_ms": random.choice((1, 3, 15)),
        "drop_per_mille": some(random, 0.25, 2, 60),
        "late_per_mille": some(random, 0.3, 2, 60),
        "late_ms": random.choice((50, 300, 1200)),
        "refuse_per_mille": random.choice((0, 500, 1000, 1000)),
        "cut_every_ms": some(random, 0.5, 300, 5000),
        "part_every_ms": some(random, 0.3, 500, 5000),
        "isolate_every_ms": some(random, 0.45, 400, 5000),
        "flap_every_ms": some(random, 0.1, 1000, 6000),
        "cut_ms": random.choice((200, 800, 2000)),
    }


def _deaths(random: Random) -> dict[str, int | bool]:
    return {
        "kill_every_ms": some(random, 0.45, 400, 6000),
        "power_every_ms": some(random, 0.45, 400, 6000),
        "blackout_every_ms": some(random, 0.1, 2000, 10_000),
        "down_ms": random.choice((50, 300, 1000, 2500)),
        "pause_every_ms": some(random, 0.35, 500, 6000),
        "pause_ms": random.choice((100, 600, 2000)),
        "skew_ppm": some(random, 0.2, 100, 50_000),
        "jump_every_ms": some(random, 0.1, 2000, 8000),
        "resign_every_ms": some(random, 0.2, 1000, 8000),
        "shutdown_every_ms": some(random, 0.35, 500, 6000),
    }


def _operators(random: Random) -> dict[str, int | bool]:
    return {
        "topic_every_ms": some(random, 0.2, 1500, 8000),
        "move_every_ms": some(random, 0.5, 300, 4000),
        "elect_every_ms": some(random, 0.4, 300, 4000),
        "delete_every_ms": some(random, 0.25, 200, 3000),
    }


def _producers(random: Random) -> dict[str, int | bool]:
    return {"delivery_ms": random.choice((0, 1000, 3000)), "stall_every_ms": some(random, 0.3, 300, 5000)}


def _doubts(random: Random) -> dict[str, int | bool]:
    return {"grace_ms": random.choice((0, 20, 60, 200)), "reset_every_ms": some(random, 0.4, 300, 4000)}


def _leader_checks(random: Random) -> dict[str, int | bool]:
    checked = random.random() < 0.6
    refusal_every_ms = some(random, 0.6, 300, 4000)
    return {"leader_checks": checked, "refusal_every_ms": refusal_every_ms if checked else 0}


def _directories(random: Random) -> dict[str, int | bool]:
    return {"directories": random.choice((1, 2)), "directory_every_ms": some(random, 0.5, 400, 5000)}


# Faults of several steps, and the options that they need to take effect.

def _calm(_random: Random, _options: Options) -> dict[str, int | bool]:
    return {}


def _shuffles(random: Random, options: Options) -> dict[str, int | bool]:
    return {
        "shuffle_every_ms": some(random, 1, 200, 2000),
        "swap_ms": random.choice((40, 120, 400)),
        "hold_ms": random.choice((150, 500, 1500)),
        "replication": min(options.brokers, 3),
        "lag_ms": random.choice((150, 150, 400)),
        "session_ms": random.choice((800, 1500, 3000)),
    }


def _reboots(random: Random, options: Options) -> dict[str, int | bool]:
    """Choose options for reboots of followers. Unflushed records are at risk only with a page cache. Such a loss is
    survived only with ELR and a minimum, while no other broker dies."""
    replication = min(options.brokers, random.choice((2, 2, 3)))
    return {
        "reboot_every_ms": some(random, 1, 300, 2000),
        "hold_ms": random.choice((30, 150, 500)),
        "kill_every_ms": 0, "power_every_ms": 0, "blackout_every_ms": 0, "pause_every_ms": 0, "shutdown_every_ms": 0,
        "durability": 0,
        "elr": True,
        "unclean": False,
        "replication": replication,
        "min_insync": random.choice((2, replication)),
        "fetch_batches": random.choice((1, 1, 3, 20)),
        "session_ms": random.choice((400, 800)),
    }


def _overtakes(random: Random, options: Options) -> dict[str, int | bool]:
    """Choose options for overtaken controllers. There is enough time between the election of another controller and the
    moment when the previous one gives up. No session ends in between, and nothing repairs the damage soon."""
    brokers = 4
    return {
        "zombie_every_ms": some(random, 1, 2500, 5000),
        "topics": 2, "partitions": 2,
        "kill_every_ms": 0, "power_every_ms": 0, "blackout_every_ms": 0, "pause_every_ms": 0, "shutdown_every_ms": 0,
        "move_every_ms": 0, "elect_every_ms": 0, "topic_every_ms": 0, "idle_ms": 0,
        "voters": 3,
        "brokers": brokers,
        "observers": brokers - 3 if options.combined else brokers,
        "replication": random.choice((3, 4)),
        "fetch_timeout_ms": random.choice((1000, 2000)),
        "session_ms": random.choice((2000, 4000)),
        "lag_ms": random.choice((100, 150)),
        "swap_ms": random.choice((20, 60)),
        "refuse_per_mille": 1000,
        "fault_seconds": random.choice((6, 10)),
    }
