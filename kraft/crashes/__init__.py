"""Crash tests for programs that embed a log: `crash_test` and `failure_test`. docs/crash-tests.md shows their use."""

from kraft.crashes.run import (
    FAILED_CALL,
    KILLED,
    POWER_LOST,
    Broken,
    BrokenInvariantError,
    Crash,
    CrashReport,
    crash_test,
    failure_test,
)

__all__ = [
    "FAILED_CALL", "KILLED", "POWER_LOST", "Broken", "BrokenInvariantError", "Crash", "CrashReport", "crash_test",
    "failure_test",
]
