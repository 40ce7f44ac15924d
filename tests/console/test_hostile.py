"""Requests that no browser sends, and records that are written to harm a page: each is answered, and bounded."""

import asyncio
import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from kraft.client import Cluster
from kraft.console import app as apps
from kraft.console import search as searches
from kraft.console.app import ADDRESS_CHARACTERS_MAX, FORM_FIELDS_MAX, HEADERS
from kraft.console.decoders import SHOWN_CHARACTERS_MAX, show
from kraft.console.recent import Recent
from kraft.console.search import Cursor, Query, Range, search
from tests.console.browsers import Browser, browsing

NOWHERE = "127.0.0.1:1"


@pytest.fixture
def browser() -> Iterator[Browser]:
    with browsing(NOWHERE, allow_changes=True, timeout=0.1) as found:
        yield found


@pytest.mark.parametrize(("method", "path", "options", "status"), [
    ("GET", "/", {"headers": {"host": "["}}, 421), ("GET", "/nowhere", {"headers": {"host": "[::"}}, 421),
    ("POST", "/login", {"headers": {"origin": "http://["}}, 403),
    ("POST", "/login", {"headers": {"origin": "null"}}, 403),
    ("POST", "/login", {"content": "&".join(["a=b"] * (FORM_FIELDS_MAX + 1))}, 400),
    ("POST", "/login", {"content": b"x" * 70_000}, 413),
    ("GET", "/groups/" + "g" * (ADDRESS_CHARACTERS_MAX + 1), {}, 414),
    ("GET", "/topics?q=" + "g" * (ADDRESS_CHARACTERS_MAX + 1), {}, 414),
])
def test_refusals(browser: Browser, method: str, path: str, options: dict[str, Any], status: int) -> None:
    answer = browser.client.request(method, path, **options)
    assert answer.status_code == status, answer.text
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS


def test_a_form_that_does_not_come(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apps, "FORM_SECONDS", 0.01)
    answers: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if answers or receive in seen:
            await asyncio.Event().wait()
        seen.append(receive)
        return {"type": "http.request", "body": b"a", "more_body": True}

    async def send(message: Any) -> None:
        answers.append(message)

    seen: list[object] = []
    scope = {"type": "http", "method": "POST", "path": "/login", "query_string": b"", "root_path": "",
             "headers": [(b"host", b"localhost")]}
    asyncio.run(asyncio.wait_for(apps.App(browser.console).asgi(scope, receive, send), 20))
    assert answers[0]["status"] == 408


def test_json_that_grows_by_its_indentation() -> None:
    """A short record of many levels would have gigabytes of spaces."""
    deep = b"[" * 400 + b",".join([b"1"] * 40_000) + b"]" * 400
    tracemalloc.start()
    shown = show(deep, "json")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 8 << 20
    assert (shown.kind, shown.is_cut, len(shown.text)) == ("json", True, SHOWN_CHARACTERS_MAX)
    small = show(b'{"a": [1, "\xc3\xa9"]}', "json")
    assert (small.text, small.is_cut) == (json.dumps({"a": [1, "é"]}, ensure_ascii=False, indent=2), False)


def test_a_slice_reads_something_however_long_the_offsets_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """A browser that continues at the same place would do so indefinitely."""
    now = [0.0]

    def slow_ranges(*_: object) -> list[Range]:
        now[0] += 5
        return [Range(0, 0, 10), Range(1, 0, 10)]

    def one_answer(*_: object) -> Iterator[tuple[int, int]]:
        now[0] += 5
        yield 100, 4

    monkeypatch.setattr(searches, "ranges", slow_ranges)
    monkeypatch.setattr(searches, "_partition", one_answer)
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with Cluster(NOWHERE) as cluster:
        found = search(cluster, "t", Query())
    assert (found.cursor, found.read_bytes, found.done) == (Cursor(0, 4), 100, 4)


def test_a_value_that_cannot_be_computed_leaves_nothing() -> None:
    recent = Recent()
    for number in range(3):
        with pytest.raises(ZeroDivisionError):
            recent.get(number, 1.0, lambda: 1 // 0)
        recent.get(f"kept {number}", 60.0, lambda: 7)
    assert len(recent._locks) == len(recent._values) == 3
    recent.clear()
    assert not recent._locks and not recent._values
