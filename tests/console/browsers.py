"""A browser without a screen: the application called in this process, with a cookie jar and the forms' tokens."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
from starlette.testclient import TestClient

from kraft.cli.console import CommandSources
from kraft.console.app import App
from kraft.console.visits import Console, Options

TOKEN = re.compile(r'name="token" value="([^"]+)"')


class Browser:
    """Requests to one console."""

    def __init__(self, console: Console, client: TestClient) -> None:
        self.console = console
        self.client = client

    def get(self, path: str, status: int = 200, **options: Any) -> str:
        answer = self.client.get(path, **options)
        assert answer.status_code == status, answer.text
        return answer.text

    def token(self, path: str) -> str:
        found = TOKEN.search(self.get(path))
        assert found is not None
        return found[1]

    def post(self, path: str, **fields: str) -> httpx2.Response:
        return self.client.post(path, data=fields)


@contextmanager
def browsing(bootstrap: str, sources: CommandSources | None = None, **options: Any) -> Iterator[Browser]:
    """A console of the cluster, and a browser for it."""
    console = Console(Options(bootstrap, **{"timeout": 5.0, **options}), sources or CommandSources())
    app = App(console)
    with TestClient(app.asgi, base_url="http://localhost:8080", follow_redirects=False) as client:
        yield Browser(console, client)
    app.close()
