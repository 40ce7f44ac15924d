"""The source of the compiled clocks: the system, or a simulation that sets the time.

The setting is one for the process, and takes effect with the next read of any compiled module. Call it where no other
thread runs compiled code that depends on the time.
"""

from libc.stdint cimport int64_t

from kraft_native.base.errors import InvalidArgumentError

simulated_ns = -1
simulated_wall_ms = -1


def simulate(int64_t now_ns, int64_t wall_ms) -> None:
    """Stop all compiled clocks at `now_ns` of the monotonic clock and `wall_ms` of the wall clock, until the next call.
    """
    global simulated_ns, simulated_wall_ms
    if now_ns < 0:
        raise InvalidArgumentError(f"now_ns: {now_ns} is below 0")
    simulated_ns = now_ns
    simulated_wall_ms = wall_ms


def use_system() -> None:
    """Read the clocks of the system again."""
    global simulated_ns
    simulated_ns = -1


def now_ns() -> int:
    """Read the monotonic clock of all deadlines, in nanoseconds."""
    return monotonic_ns()


def wall_ms() -> int:
    """Read the wall clock, in milliseconds since 1970."""
    return clock_ms()
