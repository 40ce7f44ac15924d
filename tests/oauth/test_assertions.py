"""Assertions in place of a client's secret: signed here, or from a file."""

import json
from pathlib import Path
from typing import Any

import pytest

from kraft.config.errors import InvalidConfigError
from kraft.config.jaas import Login
from kraft.config.oauth_settings import (
    ASSERTION,
    ASSERTION_FILE,
    ASSERTION_ISSUER,
    ASSERTION_KEY,
    ASSERTION_TEMPLATE,
    MODULE,
    TOKEN_URL,
    Assertion,
    Provider,
    TokenLogin,
    token_login,
)
from kraft.config.setting import Value
from kraft.config.tables import broker_settings
from kraft.oauth.assertions import assertion_text
from kraft.oauth.http import ProviderError
from kraft.oauth.token_source import TokenSource
from tests.oauth.provider import AUDIENCE, CLIENT, SigningKey, now_s, provider_server

CLAIMS = (("aud", AUDIENCE), ("iss", CLIENT), ("sub", CLIENT))
PASSPHRASE = "of the key"


def key_file(directory: Path, key: SigningKey, passphrase: str = "") -> str:
    path = directory / "key.pem"
    path.write_text(key.pem(passphrase))
    return str(path)


def now_ms() -> int:
    return int(now_s() * 1000)


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
@pytest.mark.parametrize("passphrase", ["", PASSPHRASE])
def test_an_assertion_is_signed_with_its_claims_and_times(tmp_path: Path, algorithm: str, passphrase: str) -> None:
    key, at = SigningKey(algorithm=algorithm), now_ms()
    made = Assertion(key_file=key_file(tmp_path, key, passphrase), passphrase=passphrase, algorithm=algorithm,
                     claims=CLAIMS, lifetime_s=90, begun_s=20)
    found = key.checked(assertion_text(made, at))
    assert found == {"header": {"alg": algorithm, "typ": "JWT"}, "payload": {
        **dict(CLAIMS), "iat": at // 1000, "exp": at // 1000 + 90, "nbf": at // 1000 - 20}}


def test_each_assertion_has_an_id_of_its_own(tmp_path: Path) -> None:
    key = SigningKey(algorithm="ES256")
    made = Assertion(key_file=key_file(tmp_path, key), algorithm="ES256", claims=CLAIMS, has_id=True)
    ids = {key.checked(assertion_text(made, now_ms()))["payload"]["jti"] for _ in range(3)}
    assert len(ids) == 3


def test_a_template_has_fields_of_its_own(tmp_path: Path) -> None:
    """It wins over the settings, and the clock and the algorithm over it."""
    key, template = SigningKey(algorithm="ES256"), tmp_path / "template.json"
    template.write_text(json.dumps({"header": {"kid": "k7", "alg": "none", "typ": "x"},
                                    "payload": {"sub": "other", "exp": 1, "groups": ["a"]}}))
    made = Assertion(key_file=key_file(tmp_path, key), algorithm="ES256", claims=CLAIMS, template_file=str(template))
    found = key.checked(assertion_text(made, now_ms()))
    assert found["header"] == {"alg": "ES256", "typ": "JWT", "kid": "k7"}
    assert (found["payload"]["sub"], found["payload"]["groups"]) == ("other", ["a"])
    assert found["payload"]["exp"] > now_s()


def test_a_provider_accepts_a_client_by_its_assertion(tmp_path: Path) -> None:
    """Each request for a token has another assertion; a file is read again when it has changed."""
    with provider_server() as server:
        signed = Assertion(key_file=key_file(tmp_path, server.of_clients), algorithm="ES256", claims=CLAIMS,
                           has_id=True)
        for client_id in ("", CLIENT):
            login = TokenLogin(provider=Provider(url=server.url("token")), client_id=client_id, assertion=signed,
                               scope="a")
            assert TokenSource(login).token().count(".") == 2
        forms = [form for _, form in server.seen]
        assert [form.get("client_id") for form in forms] == [None, [CLIENT]]
        assert len({form["client_assertion"][0] for form in forms}) == 2
        assert all(form["grant_type"] == ["client_credentials"] and form["scope"] == ["a"] for form in forms)
        file = tmp_path / "assertion"
        source = TokenSource(TokenLogin(provider=Provider(url=server.url("token")), assertion=Assertion(
            file=str(file))))
        file.write_text(SigningKey("other", "ES256").sign(iss=CLIENT))
        with pytest.raises(ProviderError, match="status 401"):
            source.token()
        file.write_text(server.of_clients.sign(iss=CLIENT) + "\n")
        assert source.token().count(".") == 2


@pytest.mark.parametrize(("fields", "content", "cause"), [
    ({"file": "F"}, "no token", f"{ASSERTION_FILE}: F has no token"),
    ({"key_file": "F"}, "no key", f"{ASSERTION_KEY}: F is no private key in PEM"),
    ({"key_file": "F", "passphrase": "another"}, "KEY", "its passphrase is another one"),
    ({"key_file": "F", "passphrase": PASSPHRASE, "algorithm": "RS256"}, "KEY", "F does not sign by RS256"),
    ({"key_file": "F", "template_file": "F"}, "[]", f"{ASSERTION_TEMPLATE}: F is no JSON object"),
    ({"key_file": "F", "template_file": "F"}, '{"header": 1}', f"{ASSERTION_TEMPLATE}: F is no JSON object"),
    ({"file": "F"}, None, "F: .*No such file"),
])
def test_files_that_are_no_use(tmp_path: Path, fields: dict[str, str], content: str | None, cause: str) -> None:
    path = tmp_path / "file"
    if content is not None:
        path.write_text(SigningKey(algorithm="ES256").pem(PASSPHRASE) if content == "KEY" else content)
    given: dict[str, Any] = {name: str(path) if text == "F" else text for name, text in fields.items()}
    with pytest.raises(ProviderError, match=cause.replace("F", str(path), 1)) as error:
        assertion_text(Assertion(**given), now_ms())
    assert PASSPHRASE not in str(error.value)
    assert PASSPHRASE not in repr(Assertion(passphrase=PASSPHRASE))


def login_of(texts: dict[str, str]) -> TokenLogin:
    def read(name: str) -> Value:
        setting = broker_settings().get(name)
        if setting is None:
            return None
        return setting.parse(texts[name]) if name in texts else setting.default

    return token_login("sasl.jaas.config", Login(MODULE, {}), read)


def test_settings_of_an_assertion() -> None:
    url = {TOKEN_URL: "https://provider/token"}
    signed = {ASSERTION_KEY: "/key", ASSERTION_ISSUER: "me", f"{ASSERTION}.algorithm": "es256",
              f"{ASSERTION}.claim.sub": "user", f"{ASSERTION}.private.key.passphrase": "p",
              f"{ASSERTION}.claim.exp.seconds": "60", f"{ASSERTION}.claim.nbf.seconds": "0",
              f"{ASSERTION}.claim.jti.include": "true", ASSERTION_TEMPLATE: "/template"}
    assert login_of(url | signed).assertion == Assertion(
        key_file="/key", passphrase="p", algorithm="ES256", template_file="/template",
        claims=(("iss", "me"), ("sub", "user")), lifetime_s=60, begun_s=0, has_id=True)
    assert login_of(url | signed | {ASSERTION_FILE: "/made"}).assertion == Assertion(file="/made")
    for missing in (ASSERTION_KEY, ASSERTION_ISSUER):
        with pytest.raises(InvalidConfigError, match=f"^{missing}: is needed by an assertion"):
            login_of({name: text for name, text in (url | signed).items() if name != missing})
    with pytest.raises(InvalidConfigError, match=f"needs without {ASSERTION_FILE}"):
        login_of(url)
