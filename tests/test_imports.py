"""Every module imports alone: no order of imports, and no other module, is needed first."""

import json
import subprocess
import sys

import pytest

from tools.layers import module_names
from tools.tree import ROOT

# One interpreter that has imported nothing of ours forks once per module. So each import starts from the same empty
# state, without the cost of a new interpreter. It imports foreign modules first, so that they cost nothing either.
# Modules that only the pipeline needs are so large that forks are slower with them: they have their own interpreter.
OTHERS = ("asyncio", "click")
LARGE = ("pyarrow.compute", "pyspark.sql.datasource", "confluent_kafka")
NEEDS_LARGE = ("kraft.pipeline", "kraft.spark")
PROGRAM = """
import gc, importlib.util, json, os, sys, traceback
first, names = (argument.split() for argument in sys.argv[1:])
for name in first:
    if importlib.util.find_spec(name.partition(".")[0]) is not None:
        __import__(name)
gc.freeze()
failed = []
for name in names:
    child = os.fork()
    if child == 0:
        try:
            __import__(name)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        failed.append(name)
print(json.dumps(failed))
"""


def import_alone(names: list[str], first: tuple[str, ...]) -> tuple[list[str], str]:
    """Names that failed, and the tracebacks."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", PROGRAM, " ".join(first), " ".join(names)], cwd=ROOT,
                          check=True, capture_output=True, text=True, timeout=200)
    return json.loads(done.stdout), done.stderr


def distinct(names: list[str]) -> list[str]:
    """Drop all generated messages but one: they import the same (`tests/protocol/test_generated.py` checks it)."""
    messages = [name for name in names if name.startswith("kraft.protocol.messages.")]
    return [name for name in names if name not in messages[1:]]


@pytest.mark.house
@pytest.mark.parametrize("large", [False, True])
def test_every_module_imports_alone(large: bool) -> None:
    names = [name for name in distinct(module_names()) if name.startswith(NEEDS_LARGE) == large]
    failed, tracebacks = import_alone(names, LARGE if large else OTHERS)
    assert len(names) > 20
    assert not failed, tracebacks


def test_a_failing_import_is_seen() -> None:
    failed, tracebacks = import_alone(["json", "kraft.no_such_module"], OTHERS)
    assert failed == ["kraft.no_such_module"]
    assert "ModuleNotFoundError" in tracebacks


LATE = ("kraft.client", "kraft.broker.groups.served", "kraft.broker.groups.requests", "kraft.broker.transactions.shard",
        "kraft.broker.transactions.requests", "kraft.broker.share_state.coordinator", "kraft.security.sasl",
        "kraft.oauth", "kraft.tls", "kraft.cursors", "kraft.appender", "kraft.async_log", "kraft_native.columns",
        "importlib.resources")


def test_a_node_starts_without_what_it_needs_later() -> None:
    """The imports are most of a start. `kraft server start` connects to no cluster as a client, and serves no group, no
    transaction and no login yet."""
    program = (f"import sys, kraft.cli.server, kraft.runtime.process, kraft.runtime.server_node; "
               f"print(*(name for name in sys.modules if name.startswith({LATE!r})))")
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True,
                          timeout=60)
    assert done.stdout.split() == []
