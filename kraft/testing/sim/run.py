"""One seed, one simulation, one result."""

from dataclasses import dataclass
from random import Random

from kraft.testing.sim.invariants import ViolationError
from kraft.testing.sim.options import SimOptions
from kraft.testing.sim.world import World


@dataclass(frozen=True, slots=True)
class Result:
    """`trace` is the hash of everything that happened; `violation` is None when all invariants held."""

    seed: int
    options: SimOptions
    trace: str
    simulated_ms: int
    counts: dict[str, int]
    checks: dict[str, int]
    violation: str | None
    lines: list[str] | None


def simulate(seed: int, options: SimOptions | None = None, *, keeps_trace: bool = False) -> Result:
    """Runs one seed: faults first, then none, and then all must be well. Options are drawn from the seed unless
    given."""
    options = options or SimOptions.draw(Random(f"options {seed}"))
    world = World(seed, options, keeps_trace=keeps_trace)
    violation = None
    try:
        world.begin()
        world.run_until(options.safety_ms)
        _converge(world, options)
    except AssertionError as error:
        violation = f"{world.now_ms} ms: {error!r}"
    return Result(seed, options, world.hash.hexdigest(), world.now_ms, dict(world.counts),
                  dict(world.checker.checks), violation, world.trace_lines)


def _converge(world: World, options: SimOptions) -> None:
    """The second phase: one leader, a new record committed, and everybody has everything."""
    world.heal()
    end_ms = world.now_ms + options.healing_ms
    world.run_until(end_ms - options.healing_ms // 3)
    leaders = world.leaders()
    if len(leaders) != 1:
        raise ViolationError("EventuallyLeaderElected", f"leaders: {[node.node_id for node in leaders]}")
    value = world.propose(leaders[0])
    world.run_until(end_ms)
    if value not in world.checker.acknowledged:
        raise ViolationError("ValuesEventuallyAcked", f"{value} by {leaders[0].node_id}")
    ends = {node.node_id: node.high_watermark for node in world.nodes.values()}
    if len(dict.fromkeys(ends.values())) != 1:
        raise ViolationError("EverybodyCatchesUp", f"high watermarks: {ends}")
    world.checker.check_logs()
    world.checker.check_acknowledged()
