"""Rules for every test: it releases what it acquired, it is repeatable, and a warning is a failure.

After each test the live native objects, the descriptors that the engine opened and those of the whole process must be
back at what they were before it. The closing report counts the tests that were checked and the leaks found.
"""

import gc
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from kraft_native.file import buffer, file_io
from tests import cycles
from tests.tls.libraries import library

__all__ = ["library"]

pytest_plugins = ["kraft.testing.pytest_plugin"]

for name, examples in (("ci", 60), ("long", 2_000)):
    settings.register_profile(name, max_examples=examples, stateful_step_count=40, derandomize=True, deadline=None,
                              database=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("KRAFT_TEST_PROFILE", "ci"))


class Tally:
    """Tests checked for leaks, and leaks found, in this process and (under xdist) in its workers."""

    def __init__(self) -> None:
        self.tests = 0
        self.leaks = 0


TALLY = pytest.StashKey[Tally]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kills", type=int, default=200, help="how often the long form of the kill test kills its node")
    parser.addoption("--cycles", type=int, default=200, help="how often the long form starts and stops a cluster")
    parser.addoption("--leader-kills", type=int, default=3, help="how often a mixed quorum loses its leader")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[TALLY] = Tally()
    os.environ["KRAFT_CONTEXT"] = ""        # no named cluster of the account that runs the tests
    # Background jobs of a shell ignore Ctrl-C, and so would every process that the tests start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    freeze()


def freeze() -> None:
    """Freeze all tests and modules: they live until the end, so no collection needs to traverse them."""
    gc.collect()
    gc.freeze()
    cycles.THAWED.clear()


def held() -> dict[str, int]:
    """Everything countable that a test could keep by mistake."""
    return {
        **buffer.counters(),
        "engine descriptors": file_io.open_descriptors(),
        "process descriptors": len(os.listdir("/proc/self/fd")),
    }


def leaked(before: dict[str, int]) -> dict[str, int]:
    """Return what is held beyond `before`. Cycles are collected only when something is: most tests do not pay."""
    for collect in (False, True):
        if collect:
            gc.collect()
        now = held()
        more = {kind: now[kind] - count for kind, count in before.items() if now[kind] > count}
        if not more:
            break
    return more


@pytest.fixture(autouse=True)
def no_leaks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail the test that leaks a buffer, a pin, a mapping or a descriptor."""
    tally = request.config.stash[TALLY]
    before = held()
    yield
    tally.tests += 1
    if cycles.THAWED:
        freeze()
    if more := leaked(before):
        tally.leaks += 1
        pytest.fail("left behind: " + ", ".join(f"{count} {kind}" for kind, count in more.items()))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand the tally of an xdist worker to the process that reports."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        tally = session.config.stash[TALLY]
        output["leaks"] = (tally.tests, tally.leaks)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    tests, leaks = getattr(node, "workeroutput", {}).get("leaks", (0, 0))
    tally = node.config.stash[TALLY]  # type: ignore[attr-defined]
    tally.tests += tests
    tally.leaks += leaks


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    tally = config.stash[TALLY]
    terminalreporter.write_line(f"leaks: {tally.leaks} over {tally.tests} tests")
