"""OAUTHBEARER: frames of RFC 7628, and both sides of a run."""

import json

import pytest

from kraft.security.sasl.client import SaslLogin, sasl_client
from kraft.security.sasl.mechanism import RefusedError, Work
from kraft.security.sasl.oauthbearer import (
    Claims,
    OAuthError,
    OAuthServer,
    Then,
    TokenRefusedError,
    oauth_client,
    parse_first,
)


def check(token: str, then: Then) -> Work:
    if token == "good":
        return Work(lambda: Claims("alice", 7), then)
    return Work(lambda: TokenRefusedError("it is bad", "insufficient_scope", "x"), then)


def answer(server: OAuthServer, message: bytes) -> bytes:
    work = server.step(message)
    return work.then(work.run())


def test_messages_as_the_specification_has_them() -> None:
    first = parse_first(b"n,a=user=2C=3D,\1host=server.example.com\1port=143\1auth=Bearer vF9dft4qmTc2Nvb3RlckBh==\1\1")
    assert first.token == "vF9dft4qmTc2Nvb3RlckBh=="
    assert first.authorization == "user,="
    assert first.extensions == {"host": "server.example.com", "port": "143"}
    assert next(oauth_client("t", [("traceId", "1 2")])) == b"n,,\1auth=Bearer t\1traceId=1 2\1\1"
    assert parse_first(b"n,,\1auth=BEARER  t.x_-~+/\1\1").token == "t.x_-~+/"


@pytest.mark.parametrize("message", [
    b"", b"\1", b"n,,", b"n,,\1\1", b"n,,\1auth=Bearer t\1", b"y,,\1auth=Bearer t\1\1", b"n,,\1auth=Basic t\1\1",
    b"n,,\1auth=Bearer\1\1", b"n,,\1auth=Bearer t u\1\1", b"n,,\1auth=Bearer \xc3\xa4\1\1", b"n,a=,\1auth=Bearer t\1\1",
    b"n,,\1auth=Bearer t\1auth=Bearer u\1\1", b"n,,\1auth=Bearer t\1x1=2\1\1", b"n,,\1auth=Bearer t\1x=\1\1",
    b"n,,\1auth=Bearer t\1\1\1", b"\xff", b"n,,\1" + b"a" * 500_000, b"n,,\1" + b"a=b\1" * 100_000,
])
def test_first_messages_of_another_form(message: bytes) -> None:
    with pytest.raises(RefusedError):
        parse_first(message)


def test_a_token_that_is_accepted() -> None:
    server = OAuthServer(check)
    client = sasl_client(SaslLogin("OAUTHBEARER", token="good", extensions=(("a", "b"),)), "")
    assert answer(server, next(client)) == b""
    assert (server.is_complete, server.username, server.expires_ms, server.by_token) == (True, "alice", 7, False)
    with pytest.raises(StopIteration):
        client.send(b"")


@pytest.mark.parametrize("second", [b"\1", b"n,,\1auth=Bearer good\1\1"])
def test_a_token_that_is_not_accepted_ends_the_run_with_the_next_message(second: bytes) -> None:
    server, client = OAuthServer(check), oauth_client("bad")
    found = answer(server, next(client))
    assert json.loads(found) == {"status": "insufficient_scope", "scope": "x"}
    assert not server.is_complete
    assert client.send(found) == b"\1"
    with pytest.raises(RefusedError, match="it is bad"):
        server.step(second)
    with pytest.raises(OAuthError, match="insufficient_scope"):
        client.send(b"")


def test_nobody_acts_as_another() -> None:
    assert answer(OAuthServer(check), b"n,a=alice,\1auth=Bearer good\1\1") == b""
    with pytest.raises(RefusedError, match="'alice' may not act as 'bob'"):
        answer(OAuthServer(check), b"n,a=bob,\1auth=Bearer good\1\1")


@pytest.mark.parametrize("extension", [("auth", "x"), ("a1", "x"), ("", "x"), ("a", ""), ("a", "\1"), ("a", "\u00e4")])
def test_extensions_that_cannot_be_sent(extension: tuple[str, str]) -> None:
    with pytest.raises(OAuthError):
        next(oauth_client("t", [extension]))
