"""Limits per address, and the gateway's description of itself."""

import asyncio
import base64
import json
import re
import time

import pytest

from kraft.gateway.errors import RequestError
from kraft.gateway.identity import TOKEN_SECONDS_DEFAULT, Guard, Identity, _expiry_s
from kraft.gateway.openapi import document, page
from kraft.gateway.settings import Limits, Settings
from tests.http_transport import connected


def test_connections_of_an_address() -> None:
    door = pytest.importorskip("kraft.gateway.door")
    counted = door.Door(2, 100)
    entered = [counted.enter(each) for each in (("a", 1), ("a", 2), ("a", 3), ("b", 1))]
    assert entered == [door.Entry.SERVED, door.Entry.SERVED, door.Entry.REFUSED, door.Entry.SERVED]
    assert (counted.connections, counted.refused) == (3, 1)
    counted.leave(("a", 3))        # it was refused
    counted.leave(("a", 1))
    assert counted.enter(("a", 4)) is door.Entry.SERVED
    assert counted.enter(("a", 5)) is door.Entry.REFUSED


def test_connections_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those beyond the limit have a limit, too, and none of them becomes one that is served."""
    door = pytest.importorskip("kraft.gateway.door")
    monkeypatch.setattr(door, "SPARE", 2)
    counted = door.Door(100, 2)
    served, turned_away, refused = door.Entry.SERVED, door.Entry.TURNED_AWAY, door.Entry.REFUSED
    assert [counted.enter(("a", port)) for port in range(5)] == [served, served, turned_away, turned_away, refused]
    assert [counted.turns_away(("a", port)) for port in range(5)] == [False, False, True, True, False]
    assert (counted.connections, counted.turned_away, counted.refused) == (4, 3, 0)
    counted.leave(("a", 2))
    assert counted.enter(("b", 1)) is turned_away
    counted.leave(("a", 0))
    assert counted.enter(("b", 2)) is served
    assert counted.enter(("b", 3)) is refused
    for address in (("a", 1), ("a", 3), ("b", 1), ("b", 2)):
        counted.leave(address)
    assert counted.connections == 0
    assert [counted.enter(("c", port)) for port in range(3)] == [served, served, turned_away]


def test_rates_of_an_address() -> None:
    now = 0.0
    rates = pytest.importorskip("kraft.gateway.door").Rates(10, lambda: now)
    assert [rates.take("a") for _ in range(20)] == [0.0] * 20       # a burst of two seconds
    assert rates.take("a") == pytest.approx(0.1)
    assert rates.take("b") == 0.0
    now = 0.1
    assert rates.take("a") == 0.0
    assert rates.take("a") > 0


def test_the_page_needs_no_network() -> None:
    found = document(Limits(), "shared")
    text = page(found)
    assert "<script" not in text
    assert re.findall(r"(?:src|href)=\"?([^ >\"]+)", text) == ["openapi.json"]
    for operation in ("produce", "consume"):
        assert f'"operationId": "{operation}"' in json.dumps(found)
    assert "value_base64" in text and "Last-Event-ID" in text


def test_authorization(tmp_path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("sixteen-or-more-1\nsixteen-or-more-2\n")
    guard = Guard(Settings("x", tokens_file=str(tokens)))
    assert guard.identify("Bearer sixteen-or-more-2") == Identity()
    for wrong in ("", "Bearer", "Bearer x", "Basic c2l4dGVlbi1vci1tb3JlLTE=", "sixteen-or-more-1"):
        with pytest.raises(RequestError) as caught:
            guard.identify(wrong)
        assert caught.value.status == 401
    assert Guard(Settings("x")).identify("") == Identity()


def test_an_endless_head_is_refused() -> None:
    """The server's parser keeps what it has read of a header, without a bound of its own."""
    door = pytest.importorskip("kraft.gateway.door")

    async def main() -> None:
        protocol, transport = connected(door.protocol_of(door.Door(2, 2)), None)
        protocol.data_received(b"GET / HTTP/1.1\r\nEndless: ")
        sent = 0
        while not transport.is_closing():
            protocol.data_received(b"x" * 4_096)
            sent += 4_096
            assert sent < 1 << 20
        assert transport.written.startswith(b"HTTP/1.1 431 ")
        assert door.HEAD_BYTES_MAX < sent <= door.HEAD_BYTES_MAX + 4_096
        protocol.connection_lost(None)

    asyncio.run(main())


def test_a_client_that_does_not_receive_its_last_answer_is_cut() -> None:
    door = pytest.importorskip("kraft.gateway.door")

    async def main() -> None:
        for unsent, is_cut in ((0, False), (1, True)):
            protocol, transport = connected(door.protocol_of(door.Door(2, 2)), None)
            transport.unsent = unsent
            protocol.timeout_keep_alive_handler()
            assert transport.aborted.is_set() == is_cut
            assert transport.is_closing()
            protocol.connection_lost(None)

    asyncio.run(main())


@pytest.mark.parametrize("expiry", ["1e999", "9" * 400, "NaN", "-5", '"x"', "[" * 5_000])
def test_a_token_without_a_readable_expiry(expiry: str) -> None:
    middle = base64.urlsafe_b64encode(f'{{"exp": {expiry}}}'.encode()).decode()
    assert time.time() < _expiry_s(f"head.{middle}.tail") <= time.time() + TOKEN_SECONDS_DEFAULT


def test_identities_differ_in_each_part() -> None:
    """However their texts are divided."""
    parts = ("a\0b", "c", ""), ("a", "b\0c", ""), ("a", "b", "c"), ("", "a", "b\0c")
    assert len({Identity(*each).key for each in parts}) == len(parts)
