"""Options of a run with transactions, drawn from its seed."""

from random import Random

from kraft.testing.brokers.options import draw as draw_brokers
from kraft.testing.sim.options import Options, some

LONG_ODDS = 0.25
SHARE_ODDS = 0.33


def draw(random: Random) -> Options:
    """Draw the options of a run: mostly a short one in which much happens, sometimes one of hours in which little
    does."""
    options = draw_brokers(random)
    options = options.where(
        topics=random.choice((0, 0, 1)), topic_every_ms=0, delete_every_ms=0, unclean=False,
        transactions=random.choice((1, 2, 3, 4)), partitions=random.choice((1, 2, 2)), heal_seconds=60,
        fault_seconds=random.choice((6, 10, 15)),
        **_transactions(random))
    options = _long(random, options) if random.random() < LONG_ODDS else options
    return options.where(share=random.choice((1, 3))) if random.random() < SHARE_ODDS else options


def _transactions(random: Random) -> dict[str, int | bool]:
    return {
        "transaction_version": random.choice((0, 1, 2, 2, 2, 2)),
        "level_every_ms": some(random, 0.25, 500, 4000),
        "transaction_ms": random.choice((400, 1000, 3000)),
        "transaction_every_ms": random.choice((5, 30, 100)),
        "request_ms": random.choice((300, 1000)),
        "repeat_per_mille": random.choice((0, 20, 200)),
        "abandon_per_mille": random.choice((0, 50, 300)),
        "abort_per_mille": random.choice((0, 100, 400)),
        "stuck_per_mille": random.choice((0, 0, 20, 100)),
        "epochs": random.choice((0, 0, 6)),
        "coordinate_every_ms": some(random, 0.4, 200, 2000),
        "expiry_check_ms": random.choice((500, 3_600_000)),
        "id_expiration_ms": random.choice((2000, 604_800_000)),
    }


def _long(random: Random, options: Options) -> Options:
    """Return the options of hours: phases with faults, and long quiet ones between them in which transactions time out
    and ids expire. Sessions, requests and pauses are long, so that an hour has few events."""
    slower = {name: value * 10 for name, value in options.changed.items() if name.endswith("_every_ms")}
    return options.where(**slower).where(
        topics=0, clients=1, propose_every_ms=600_000, readers=0,
        phases=random.choice((2, 3)), fault_seconds=random.choice((60, 120)),
        quiet_seconds=random.choice((1800, 3600, 3600)),
        election_timeout_ms=20_000, election_backoff_max_ms=5000, fetch_timeout_ms=60_000, heal_seconds=600,
        session_ms=60_000, lag_ms=60_000, fetch_wait_ms=28_000, grace_ms=random.choice((0, 200)), idle_ms=0,
        transaction_ms=random.choice((10_000, 60_000, 600_000)), transaction_every_ms=5000, request_ms=30_000,
        abandon_per_mille=random.choice((300, 600)), expiry_check_ms=600_000,
        id_expiration_ms=random.choice((900_000, 604_800_000)), turn_us=0, step_us=0, skew_ppm=0,
        down_ms=random.choice((1000, 20_000)), pause_ms=10_000, cut_ms=20_000, hold_ms=10_000, swap_ms=5000)
