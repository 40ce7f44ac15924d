"""A node as a process."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import gc, os, signal, sys
from pathlib import Path
from kraft.runtime.process import run_node
from tests.runtime.nodes import config

def ready(node):
    print(gc.get_freeze_count())
    os.kill(os.getpid(), signal.SIGTERM)

run_node(config(Path(sys.argv[1])), ready)
"""


def test_what_a_start_made_is_no_garbage(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path / "data")], check=True, capture_output=True,
                          text=True, timeout=120)
    assert int(done.stdout) > 10_000
