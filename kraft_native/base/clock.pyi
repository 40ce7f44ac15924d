"""The source of the compiled clocks: the system, or a simulation that sets the time.

The setting is one for the process, and takes effect with the next read of any compiled module. Call it where no other
thread runs compiled code that depends on the time.
"""

def simulate(now_ns: int, wall_ms: int) -> None:
    """Stop all compiled clocks at `now_ns` of the monotonic clock and `wall_ms` of the wall clock, until the next call.
    """

def use_system() -> None:
    """Read the clocks of the system again."""

def now_ns() -> int:
    """Read the monotonic clock of all deadlines, in nanoseconds."""

def wall_ms() -> int:
    """Read the wall clock, in milliseconds since 1970."""
