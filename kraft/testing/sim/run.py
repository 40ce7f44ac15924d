"""One run from its seed, and its outcome."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from time import process_time
from traceback import extract_tb
from typing import Final, TextIO

from kraft.raft.events import Event
from kraft.testing.brokers.groups.options import draw as draw_with_groups
from kraft.testing.brokers.groups.world import GroupWorld
from kraft.testing.brokers.options import draw as draw_with_brokers
from kraft.testing.brokers.transactional.options import draw as draw_with_transactions
from kraft.testing.brokers.transactional.world import TransactionWorld
from kraft.testing.brokers.world import BrokerWorld
from kraft.testing.sim.options import SECOND, Options, draw
from kraft.testing.sim.relocation import RelocationWorld
from kraft.testing.sim.relocation import draw_options as draw_relocation
from kraft.testing.sim.violation import ViolationError
from kraft.testing.sim.world import World

NOTHING_RAISES: Final = "NothingRaises"
"""Violation of a run that raised an unexpected exception."""

Run = Callable[[int], "Outcome"]
"""Function that runs a seed."""


@dataclass(slots=True)
class Outcome:
    """Outcome of a run. `violation` is None when all invariants held."""

    seed: int
    options: Options
    digest: str
    violation: ViolationError | None
    virtual_seconds: float
    cpu_seconds: float
    events: int
    counts: Counter[str]
    transitions: Counter[tuple[str, str, str]]


def options_of(seed: int) -> Options:
    """Return the options of this seed's run."""
    return draw(Random(f"{seed}/options"))


def broker_options_of(seed: int) -> Options:
    """Return the options of this seed's run with brokers."""
    return draw_with_brokers(Random(f"{seed}/broker options"))


def transaction_options_of(seed: int) -> Options:
    """Return the options of this seed's run with transactions."""
    return draw_with_transactions(Random(f"{seed}/transaction options"))


def group_options_of(seed: int) -> Options:
    """Return the options of this seed's run with groups."""
    return draw_with_groups(Random(f"{seed}/group options"))


def relocation_options_of(seed: int) -> Options:
    """Return the options of this seed's run that restarts three voters at new addresses."""
    return draw_relocation(Random(f"{seed}/relocation options"))


def simulate_relocation(seed: int) -> Outcome:
    """Run one seed of restarts at new addresses."""
    return simulate(seed, relocation_options_of(seed))


def simulate_brokers(seed: int) -> Outcome:
    """Run one seed with brokers."""
    return simulate(seed, broker_options_of(seed))


def simulate_transactions(seed: int) -> Outcome:
    """Run one seed with transactions."""
    return simulate(seed, transaction_options_of(seed))


def simulate_groups(seed: int) -> Outcome:
    """Run one seed with groups."""
    return simulate(seed, group_options_of(seed))


def simulate(seed: int, options: Options | None = None, trace: TextIO | None = None,
             listen: Callable[[int, float, Event], None] | None = None) -> Outcome:
    """Run one seed, with its own options or with others. `listen(node id, milliseconds, event)` receives every event of
    a core."""
    options = options_of(seed) if options is None else options
    started = process_time()
    kind = (GroupWorld if options.groups else TransactionWorld if options.transactions
            else BrokerWorld if options.brokers else RelocationWorld if options.relocation else World)
    world = kind(seed, options, trace, listen)
    violation = None
    try:
        world.run()
    except ViolationError as error:
        violation = error
    except Exception as error:  # noqa: BLE001 - reported with the seed; thousands of other runs continue
        at = extract_tb(error.__traceback__)[-1]
        violation = ViolationError(NOTHING_RAISES, f"{type(error).__name__}: {error} ({at.filename}:{at.lineno})")
        violation.__cause__ = error
    return Outcome(seed, options, world.digest, violation, world.loop.now_us / SECOND, process_time() - started,
                   world.loop.events, world.counts, world.transitions)
