"""Memory and time of the console's process with 10,000 topics. `-s` shows the figures."""

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from kraft.client import Cluster
from kraft.client.refusals import check
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kraft.protocol.messages.create_topics_response import CreateTopicsResponse
from tests.cli.nodes import END_SECONDS, Started, command, running
from tools.tree import ROOT

pytestmark = pytest.mark.long

TOPICS: Final = 10_000
AT_ONCE: Final = 500
BYTES_MAX: Final = 70_000_000
PAGES: Final = ("/", "/topics", "/topics?page=50", "/topics?q=07&order=partitions", "/brokers", "/")
ROUNDS: Final = 3


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    with running(tmp_path_factory.mktemp("large") / "data") as node:
        with Cluster(node.bootstrap, timeout=120) as cluster:
            for first in range(0, TOPICS, AT_ONCE):
                topics = [CreatableTopic(name=f"orders-of-shop-{number:05}", num_partitions=1, replication_factor=1)
                          for number in range(first, first + AT_ONCE)]
                answer = cluster.controller().send(CreateTopicsRequest(topics=topics, timeout_ms=100_000),
                                                   CreateTopicsResponse)
                for each in answer.topics:
                    check(each.name or "", each.error_code, each.error_message)
        yield node


def resident(pid: int) -> int:
    """Resident bytes of a process, with what it shares."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text("ascii"))
    assert found is not None
    return int(found[1]) * 1024


def test_memory_with_many_topics(large: Started, tmp_path: Path) -> None:
    """The process has the bytecode of its modules, as an installed package has: to compile them takes memory."""
    arguments = command("console", "--bootstrap", large.bootstrap, "--listen", "127.0.0.1:0", "--timeout", "30")
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(tmp_path)}
    warm = "import kraft.cli.console, kraft.console.serving, jinja2.ext, uvicorn.protocols.http.h11_impl"
    subprocess.run([sys.executable, "-c", warm], check=True, cwd=ROOT, env=environment)
    with subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        address = process.stdout.readline().removeprefix("console: ").strip()
        try:
            sizes = [("start", resident(process.pid), 0.0)]
            for page in PAGES * ROUNDS:
                began = time.monotonic()
                with urllib.request.urlopen(address + page.removeprefix("/"), timeout=60) as answer:
                    assert answer.status == 200
                    shown = answer.read().decode()
                sizes.append((page, resident(process.pid), time.monotonic() - began))
                assert f"{TOPICS:,}" in shown or "topics" not in page
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(END_SECONDS)
    for page, size, seconds in sizes:
        print(f"{page}: {size / 1e6:.1f} MB, {seconds * 1e3:.0f} ms")
    assert max(size for _, size, _ in sizes) <= BYTES_MAX, sizes
