"""The source of the compiled clocks: the system, or a simulation that sets the time. See the stub."""

from libc.stdint cimport int64_t

from kraft_native.base.errors import InvalidArgumentError

simulated_ns = -1
simulated_wall_ms = -1


def simulate(int64_t now_ns, int64_t wall_ms) -> None:
    global simulated_ns, simulated_wall_ms
    if now_ns < 0:
        raise InvalidArgumentError(f"now_ns: {now_ns} is below 0")
    simulated_ns = now_ns
    simulated_wall_ms = wall_ms


def use_system() -> None:
    global simulated_ns
    simulated_ns = -1


def now_ns() -> int:
    return monotonic_ns()


def wall_ms() -> int:
    return clock_ms()
