"""Pages in Debian's Chromium: the script refreshes and continues, and axe-core finds no violation in light or dark.

Without Chromium, or without npm for axe-core, the tests skip. `CONSOLE_SCREENSHOTS=directory` keeps a picture of each
page.
"""

import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from kraft.cli.console import CommandSources
from kraft.client import Cluster
from kraft.client.groups import commit_offsets
from kraft.console.app import App
from kraft.console.serving import listen
from kraft.console.visits import Console, Options
from tests.cli.nodes import Started
from tests.console.reports import Reports
from tests.console.test_pages import fill

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
         "--no-first-run", "--window-size=1200,900")
SCHEMES = {"light": "1", "dark": "0"}
AXE = "axe-core@4.10.3"
SECONDS = 90
RUN = b"""
addEventListener("load", async () => {
  const found = await axe.run(document, {resultTypes: ["violations"]});
  const shown = found.violations.map((each) => ({id: each.id, help: each.help,
    nodes: each.nodes.map((node) => node.html + " " + node.failureSummary)}));
  const result = document.createElement("pre");
  result.id = "axe-result";
  result.textContent = JSON.stringify({violations: shown, passes: found.passes.length});
  document.body.append(result);
});
"""

pytestmark = [pytest.mark.long, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")]


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    if shutil.which("npm") is None:
        pytest.skip("no npm is installed, which fetches axe-core")
    directory = tmp_path_factory.mktemp("axe")
    done = subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", directory, AXE],
                          check=False, capture_output=True, text=True, timeout=SECONDS)
    if done.returncode:
        pytest.skip(f"npm cannot install {AXE}: {done.stderr[-300:]}")
    return (directory / "node_modules" / "axe-core" / "axe.min.js").read_bytes()


class WithAxe:
    """The application with axe-core in each page, which its policy forbids elsewhere."""

    def __init__(self, app: Any, script: bytes) -> None:
        self.app, self.script = app, script + RUN

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope.get("path") == "/axe.js":
            headers = [(b"content-type", b"text/javascript")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": self.script})
            return

        async def changed(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [(name, value) for name, value in message["headers"] if name != b"content-length"]
            elif message.get("body", b"").rstrip().endswith(b"</html>"):
                message["body"] = message["body"].replace(b"</head>", b'<script src="/axe.js" defer></script></head>')
            await send(message)

        await self.app(scope, receive, changed)


@contextmanager
def served(bootstrap: str, script: bytes | None, sources: CommandSources | None = None) -> Iterator[str]:
    app = App(Console(Options(bootstrap, 5.0, allow_changes=script is not None), sources or CommandSources()))
    listener = listen("127.0.0.1", 0)
    asgi = app.asgi if script is None else WithAxe(app.asgi, script)
    server = uvicorn.Server(uvicorn.Config(asgi, log_level="error", http="h11", ws="none", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        app.close()
        listener.close()


def chromium(*arguments: str, profile: Path, scheme: str = "light") -> str:
    assert CHROMIUM is not None
    done = subprocess.run([CHROMIUM, *FLAGS, f"--user-data-dir={profile}",
                           f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}", *arguments],
                          check=True, capture_output=True, text=True, timeout=SECONDS)
    return done.stdout


@pytest.fixture(scope="module", autouse=True)
def warm(node: Started) -> None:
    """Start a server once: its event loop opens a descriptor that the process keeps."""
    with served(node.bootstrap, None):
        pass


def test_every_page_is_accessible(node: Started, cluster: Cluster, axe: bytes, tmp_path: Path) -> None:
    fill(cluster, "browsed", [b'{"name": "value %d"}' % each for each in range(150)])
    commit_offsets(cluster, "g-browsed", {("browsed", 0): 20})
    node_id = cluster.nodes()[0].node_id
    pages = ("/", "/why", "/brokers", f"/brokers/{node_id}", "/topics", "/topics/browsed",
             "/topics/browsed/records?search=1", "/topics/browsed/digests/0", "/groups", "/groups/g-browsed",
             "/clients", "/clients/i-1", "/transactions", "/quorum", "/timeline", "/metadata", "/metadata?at=3",
             "/configs", f"/configs/broker/{node_id}", "/quotas", "/acls", "/login", "/nowhere")
    shots = os.environ.get("CONSOLE_SCREENSHOTS")
    found = {}
    with served(node.bootstrap, axe, Reports()) as address:
        for scheme in SCHEMES:
            for page in pages:
                shown = chromium("--virtual-time-budget=8000", "--dump-dom", address + page, profile=tmp_path / "p",
                                 scheme=scheme)
                result = re.search(r'<pre id="axe-result">(.*?)</pre>', shown, re.DOTALL)
                assert result is not None, (page, shown[-500:])
                text = result[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
                if violations := json.loads(text)["violations"]:
                    found[scheme, page] = violations
                if shots:
                    name = re.sub(r"\W+", "-", page).strip("-") or "home"
                    chromium(f"--screenshot={Path(shots, f'{name}-{scheme}.png').absolute()}", address + page,
                             profile=tmp_path / "p", scheme=scheme)
    assert found == {}


def test_the_script_continues_a_search(node: Started, cluster: Cluster, tmp_path: Path) -> None:
    fill(cluster, "continued", [b"x"] * 350, 2, 1)
    with served(node.bootstrap, b"const axe = {run: async () => ({violations: [], passes: []})};") as address:
        shown = chromium("--virtual-time-budget=15000", "--dump-dom",
                         f"{address}/topics/continued/records?search=1&start=5&text=x", profile=tmp_path / "p")
    assert len(re.findall(r'<td class="place">', shown)) == 345
