"""Bodies within the limits of one request and of all, pages of other sites, and filters."""

import asyncio
from typing import Any

import pytest

from kraft.gateway.errors import RequestError

pytest.importorskip("starlette")
pytest.importorskip("confluent_kafka")

from starlette.requests import Request

from kraft.gateway import requests
from kraft.gateway.requests import FILTERS_MAX, Bodies, check_origin, filter_of
from kraft.gateway.settings import Limits


def request(parts: list[bytes] | None = None, query: str = "", **headers: str) -> Request:
    left = list(parts or [])

    async def receive() -> dict[str, Any]:
        if not left:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left) or parts == [b"slow"]}

    return Request({"type": "http", "method": "POST", "path": "/", "query_string": query.encode(), "headers": [
        (name.replace("_", "-").encode(), text.encode()) for name, text in headers.items()]}, receive)


def test_bodies_of_all_requests_are_bounded() -> None:
    async def main() -> None:
        bodies = Bodies(Limits(body_bytes=10, bodies_bytes=15))
        async with bodies.read(request([b"12345", b"67890"])) as body:
            assert (body, bodies.size) == (b"1234567890", 10)
            with pytest.raises(RequestError) as caught:
                async with bodies.read(request([b"123", b"456"])):
                    pass
            assert (caught.value.status, bodies.size) == (503, 10)
        assert bodies.size == 0
        for given in (request([b"12345678901"]), request([b""], content_length="11"),
                      request([b""], content_length="9" * 5_000)):
            with pytest.raises(RequestError, match="allowed: 10") as caught:
                async with bodies.read(given):
                    pass
            assert (caught.value.status, bodies.size) == (413, 0)

    asyncio.run(main())


def test_a_body_that_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "BODY_SECONDS", 0.01)

    async def main() -> None:
        bodies = Bodies(Limits())
        with pytest.raises(RequestError) as caught:
            async with bodies.read(request([b"slow"])):
                pass
        assert (caught.value.status, bodies.size) == (408, 0)

    asyncio.run(main())


@pytest.mark.parametrize(("origin", "others", "is_allowed"), [
    ("http://gateway:8088", {}, True), ("http://other", {}, False), ("null", {}, False), ("http://[", {}, False),
    ("https://page.example", {}, True), ("https://proxy", {"sec_fetch_site": "same-origin"}, True),
    ("https://proxy", {"sec_fetch_site": "cross-site"}, False),
])
def test_pages_of_other_sites_store_nothing(origin: str, others: dict[str, str], is_allowed: bool) -> None:
    given = request(host="gateway:8088", origin=origin, **others)
    check_origin(given, ("*",))
    check_origin(request(host="gateway:8088"), ())
    if is_allowed:
        check_origin(given, ("https://page.example",))
    else:
        with pytest.raises(RequestError, match="Origin: ") as caught:
            check_origin(given, ("https://page.example",))
        assert caught.value.status == 403


def test_filters_are_bounded() -> None:
    assert filter_of(request(query="&".join(["key=a"] * FILTERS_MAX))) is not None
    with pytest.raises(RequestError, match="257 of them; allowed: 256"):
        filter_of(request(query="&".join(["key=a"] * 128 + ["key_prefix=b"] * 129)))
