"""Limits per address, and the gateway's description of itself."""

import json
import re

import pytest

from kraft.gateway.errors import RequestError
from kraft.gateway.identity import Guard, Identity
from kraft.gateway.openapi import document, page
from kraft.gateway.settings import Limits, Settings


def test_connections_of_an_address() -> None:
    door = pytest.importorskip("kraft.gateway.door").Door(2)
    assert [door.enter((host, port), None) for host, port in (("a", 1), ("a", 2), ("a", 3), ("b", 1))] == [
        True, True, False, True]
    assert (door.connections, door.refused) == (3, 1)
    door.leave(("a", 3))        # it was refused
    door.leave(("a", 1))
    assert door.enter(("a", 4), None)
    assert not door.enter(("a", 5), None)


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
