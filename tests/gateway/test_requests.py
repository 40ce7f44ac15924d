"""Bodies within the limits of one request and of all, pages of other sites, and filters."""

import asyncio
from typing import Any

import pytest

from kraft.gateway.errors import RequestError

pytest.importorskip("starlette")
pytest.importorskip("confluent_kafka")

from starlette.requests import Request

from kraft.gateway import requests
from kraft.gateway.requests import FILTERS_MAX, Bodies, check_origin, filter_of, positions_of_request
from kraft.gateway.settings import Limits
from kraft.gateway.subscriber import AT_END


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


class Known:
    """User that sees four partitions."""

    async def partitions(self, _topic: str) -> list[int]:
        return [0, 1, 2, 3]


def test_a_subscription_continues_in_every_partition() -> None:
    async def positions(given: Request) -> dict[int, int]:
        return await positions_of_request(given, Known(), "t", Limits(partitions=4))  # type: ignore[arg-type]

    async def main() -> None:
        assert await positions(request(last_event_id="0:15,3:20")) == {0: 15, 1: 0, 2: 0, 3: 20}
        assert await positions(request(query="last_event_id=0:15&from=end")) == {0: 15, 1: 0, 2: 0, 3: 0}
        assert await positions(request(query="partition=3", last_event_id="0:15,3:20")) == {3: 20}
        assert await positions(request(query="partition=3")) == {3: AT_END}
        for given in (request(query="partition=4"), request(last_event_id="4:1")):
            with pytest.raises(RequestError) as caught:
                await positions(given)
            assert caught.value.status == 404

    asyncio.run(main())
