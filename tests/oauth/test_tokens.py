"""Checks of tokens: what is accepted, and every way in which a token can be wrong."""

import base64
import hashlib
import hmac
import json
from dataclasses import replace
from typing import Any

import pytest

from kraft.config.oauth_settings import Provider, TokenLogin, TokenRules
from kraft.oauth.keys import KeysError, KeySet, parse_keys
from kraft.oauth.tokens import check_token, expiry_ms, header_of, unsecured_token
from kraft.security.sasl.oauthbearer import Claims, TokenRefusedError
from tests.oauth.provider import AUDIENCE, ISSUER, SigningKey, key_set, now_s, unsecured

KEY, OTHER, CURVE = SigningKey(), SigningKey("k2", number=1), SigningKey("e1", "ES256")
KEYS = parse_keys(key_set(KEY, CURVE))
SIGNED = TokenRules(keys=Provider(url="https://p/keys"), audiences=(AUDIENCE, "other"), issuer=ISSUER)
UNSECURED = TokenRules(skew_ms=0)


def check(token: str, rules: TokenRules = SIGNED, keys: KeySet = KEYS) -> Claims:
    return check_token(token, keys, rules, int(now_s() * 1000))


def test_tokens_that_are_signed_with_a_known_key() -> None:
    exp = int(now_s()) + 60
    assert check(KEY.sign(exp=exp)) == Claims("alice", exp * 1000)
    assert check(CURVE.sign(sub="bob", exp=exp)) == Claims("bob", exp * 1000)
    assert check(KEY.sign(aud=["x", "other"], scope="a b")).name == "alice"
    assert check(SigningKey("k1", "PS384").sign()).name == "alice"
    assert check(KEY.sign(header={})).name == "alice", "without a key's id every key may fit"
    renamed = replace(SIGNED, subject_claim="azp", scopes=("a",), scope_claim="scp")
    assert check(KEY.sign(azp="carol", scp=["b", "a"]), renamed).name == "carol"


def test_clocks_may_differ() -> None:
    assert check(KEY.sign(exp=now_s() - 20, nbf=now_s() + 20)).expires_ms > now_s() * 1000
    with pytest.raises(TokenRefusedError, match="expired"):
        check(KEY.sign(exp=now_s() - 40))


@pytest.mark.parametrize(("claims", "why"), [
    ({"exp": None}, "no exp"), ({"iat": None}, "no iat"), ({"sub": None}, "claim sub is not a name"),
    ({"sub": " "}, "is not a name"), ({"exp": "1"}, "exp is no time"), ({"exp": True}, "exp is no time"),
    ({"exp": 1e300}, "exp is no time"), ({"nbf": 4_000_000_000}, "nbf is in the future"), ({"aud": "x"}, "audience"),
    ({"aud": None}, "audience"), ({"iss": "https://x"}, "issuer"), ({"iss": None}, "issuer"),
    ({"iat": 4_000_000_000}, "iat is in the future"),
])
def test_claims_that_are_refused(claims: dict[str, Any], why: str) -> None:
    with pytest.raises(TokenRefusedError, match=why):
        check(KEY.sign(**claims))


def hmac_signed(secret: bytes) -> str:
    """Return a token that a public key signs as if it were a secret: the known attack on verifiers of both kinds."""
    part = unsecured({"alg": "HS256", "kid": "k1"}).rpartition(".")[0]
    digest = hmac.digest(secret, part.encode(), hashlib.sha256)
    return f"{part}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


@pytest.mark.parametrize(("token", "why"), [
    ("", "three parts"), ("a.b", "three parts"), ("..", "header is no JSON object"), ("e30.e30.", "has no alg"),
    (unsecured(), "signed with any key by 'none', and no such key"),
    (unsecured({"alg": "none", "kid": "k1"}), "by 'none'"),
    (unsecured({"alg": "NoNe", "kid": "k1"}), "by 'NoNe'"),
    (hmac_signed(key_set(KEY)), "by 'HS256'"), (OTHER.sign(), "key 'k2'.* no such key is known"),
    (OTHER.sign(header={"kid": "k1"}), "not signed with key 'k1'"),
    (CURVE.sign(header={"kid": "k1"}), "key 'k1' by 'ES256', and no such key"),
    (KEY.sign(header={"kid": "k1", "crit": ["x"]}), "not signed with key 'k1'"),
    (KEY.sign()[:-4] + "AAAA", "not signed with key 'k1'"),
    (f"{base64.urlsafe_b64encode(b'[' * 100_000).decode()}.e30.", "header is no JSON object"),
])
def test_signatures_that_are_refused(token: str, why: str) -> None:
    with pytest.raises(TokenRefusedError, match=why):
        check(token)


def test_a_changed_claim_breaks_the_signature() -> None:
    head, body, signature = KEY.sign().split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    forged = base64.urlsafe_b64encode(json.dumps(claims | {"sub": "admin"}).encode()).rstrip(b"=").decode()
    with pytest.raises(TokenRefusedError, match="not signed"):
        check(f"{head}.{forged}.{signature}")


def test_unsecured_tokens_where_they_are_accepted() -> None:
    assert check(unsecured(), UNSECURED).name == "alice"
    for token, why in ((KEY.sign(), "is signed, and the listener has no keys"),
                       (unsecured(signature="AAAA"), "is signed"), (unsecured(exp=now_s() - 1), "expired"),
                       (unsecured(iat=now_s() + 60), "iat is in the future")):
        with pytest.raises(TokenRefusedError, match=why):
            check(token, UNSECURED)
    with pytest.raises(TokenRefusedError, match="lacks the scope 'admin'") as refused:
        check(unsecured(scope="read write"), replace(UNSECURED, scopes=("read", "admin")))
    assert (refused.value.status, refused.value.scope) == ("insufficient_scope", "admin")


def test_the_token_of_our_own_unsecured_login() -> None:
    login = TokenLogin(claims=(("sub", "bob"), ("scope", ("a", "b")), ("n", 1.5)), lifetime_s=60)
    token = unsecured_token(login, int(now_s() * 1000))
    assert check(token, replace(UNSECURED, scopes=("b",))).name == "bob"
    assert 0 < expiry_ms(token) / 1000 - now_s() <= 60
    assert expiry_ms("opaque") == 0
    assert header_of(token) == {"alg": "none"}


def test_keys_that_are_left_out() -> None:
    secret = {"kty": "oct", "k": "AAAA", "kid": "s", "alg": "HS256"}
    weak = {**KEY.jwk, "kid": "weak", "n": KEY.jwk["n"][:170]}
    entries: list[Any] = [KEY.jwk, secret, weak, {**KEY.jwk, "kid": "enc", "use": "enc"}, {**KEY.jwk, "kid": 7},
                          {"kty": "RSA"}, "x", {**KEY.jwk, "kid": "rs512", "alg": "RS512"},
                          {**KEY.jwk, "kid": "oaep", "alg": "RSA-OAEP"}, {**KEY.jwk, "key_ops": ["encrypt"]}]
    found = parse_keys(json.dumps({"keys": entries}).encode())
    assert found.ids == ("k1", "rs512")
    assert [each.algorithms for each in found.fitting("rs512", "RS512")] == [("RS512",)]
    assert found.fitting("rs512", "RS256") == []
    for text in (b"", b"[]", b'{"keys": 1}', b'{"keys": []}', json.dumps({"keys": [secret]}).encode()):
        with pytest.raises(KeysError):
            parse_keys(text)
