"""Tokens for logins: fetched once for many logins, renewed in time, and kept while the provider cannot be reached."""

import base64
from pathlib import Path
from urllib.parse import quote_plus

import pytest

from kraft.config.oauth_settings import Provider, TokenLogin
from kraft.oauth.http import ANSWER_BYTES_MAX, ProviderError, fetch
from kraft.oauth.token_source import TokenSource, source_of
from kraft.tls.contexts import server_context
from tests.oauth.provider import CLIENT, SECRET, now_s, provider_server
from tests.tls.files import node_settings, write_pem


def login(url: str, secret: str = SECRET, **more: bool) -> TokenLogin:
    return TokenLogin(provider=Provider(url=url), client_id=CLIENT, client_secret=secret, scope="a b", **more)


def test_a_token_is_used_until_most_of_its_life_is_over() -> None:
    clock_ms = int(now_s() * 1000)
    with provider_server() as server:
        source = TokenSource(login(server.url("token")), wall_ms=lambda: clock_ms)
        first = source.token()
        assert source.token() == first
        assert server.seen == [("/token", {"grant_type": ["client_credentials"], "scope": ["a b"]})]
        clock_ms, server.life_s = clock_ms + 3_000_000, 10_000
        second = source.token()
        assert second != first
        server.status = 400
        clock_ms += 6_000_000
        assert source.token() == second, "it is valid, and there is no other"
        clock_ms += 3_000_000
        with pytest.raises(ProviderError, match="status 400") as error:
            source.token()
        assert SECRET not in str(error.value)


def test_tries_follow_each_other_unless_they_are_in_vain() -> None:
    pauses: list[float] = []
    with provider_server() as server:
        def pause(seconds: float) -> None:
            pauses.append(seconds)
            server.status = 503 if len(pauses) < 3 else 200

        server.status = 503
        assert TokenSource(login(server.url("token")), pause=pause).token().count(".") == 2
        assert pauses == [0.1, 0.2, 0.4]
        with pytest.raises(ProviderError, match="status 401"):
            TokenSource(login(server.url("token"), "wrong"), pause=pause).token()
        assert len(pauses) == 3
        with pytest.raises(ProviderError, match="status 401"):
            TokenSource(login(server.url("token"), encodes=True), pause=pause).token()


def test_ids_may_be_encoded_before_they_are_sent() -> None:
    seen: list[dict[str, str]] = []

    def get(_provider: Provider, _body: bytes, headers: dict[str, str]) -> bytes:
        seen.append(headers)
        return b'{"access_token": " opaque "}'

    assert TokenSource(login("https://p", encodes=True), get=get).token() == "opaque"
    sent = base64.b64decode(seen[0]["Authorization"].removeprefix("Basic ")).decode()
    assert sent == f"{CLIENT}:{quote_plus(SECRET)}"


@pytest.mark.parametrize("answer", [b"", b"[]", b"{}", b'{"access_token": ""}', b'{"access_token": 1}', b"[" * 100_000])
def test_answers_without_a_token(answer: bytes) -> None:
    def get(*_arguments: object) -> bytes:
        final = ProviderError("no second try")
        final.is_final = True
        if seen:
            raise final
        seen.append(1)
        return answer

    seen: list[int] = []
    with pytest.raises(ProviderError, match=r"no access_token|no second try"):
        TokenSource(login("https://p"), get=get, pause=lambda _seconds: None).token()


def test_a_token_in_a_file_is_read_by_each_login(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one\n")
    source = TokenSource(TokenLogin(provider=Provider(url=path.as_uri())))
    assert source.token() == "one"
    path.write_text("two")
    assert source.token() == "two"
    path.unlink()
    with pytest.raises(ProviderError, match="No such file"):
        source.token()
    path.write_bytes(bytes(ANSWER_BYTES_MAX + 1))
    with pytest.raises(ProviderError, match="more than"):
        source.token()


def test_providers_that_give_no_answer() -> None:
    with provider_server() as server:
        server.keys = bytes(ANSWER_BYTES_MAX + 1)
        with pytest.raises(ProviderError, match="has more than 1,048,576 bytes"):
            fetch(Provider(url=server.url("keys")))
        server.status = 302
        with pytest.raises(ProviderError, match="status 302"):
            fetch(Provider(url=server.url("keys")))
        with pytest.raises(ProviderError, match="SSL"):
            fetch(Provider(url=server.url("keys").replace("http:", "https:")))
        url = server.url("keys")
    with pytest.raises(ProviderError, match="refused"):
        fetch(Provider(url=url))
    with pytest.raises(ProviderError, match=r"missing\.pem"):
        fetch(Provider(url="https://127.0.0.1:1/", tls=(("ssl.truststore.location", "missing.pem"),)))


def test_a_provider_with_tls_is_trusted_by_the_options_of_the_login(tmp_path: Path) -> None:
    write_pem(tmp_path)
    with provider_server(server_context(node_settings())) as server:
        def get(*options: tuple[str, str]) -> bytes:
            return fetch(Provider(url=server.url("keys"), tls=options))

        assert get(("ssl.truststore.location", f"{tmp_path}/ca.pem")) == server.keys
        for options in ((), (("ssl.truststore.location", f"{tmp_path}/other.pem"),)):
            with pytest.raises(ProviderError, match="certificate verify failed"):
                get(*options)


def test_connections_share_a_source() -> None:
    assert source_of(login("https://a")) is source_of(login("https://a"))
    assert source_of(login("https://a")) is not source_of(login("https://b"))
