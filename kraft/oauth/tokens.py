"""Checks of tokens: JSON web tokens (RFC 7519), signed (RFC 7515), or unsecured where a listener accepts those."""

import base64
import json
import math
from collections.abc import Mapping
from typing import Any, Final

from jwt import PyJWS
from jwt.exceptions import PyJWTError

from kraft.config.oauth_settings import TokenLogin, TokenRules
from kraft.oauth.keys import KeySet
from kraft.security.sasl.oauthbearer import INSUFFICIENT, Claims, TokenRefusedError

UNSECURED: Final = "none"
TRIED_MAX: Final = 8
"""Keys that are tried for a token without a key's id: each costs a signature check."""
SHOWN_MAX: Final = 100
Header = Mapping[str, Any]


def header_of(token: str) -> Header:
    """Return the header of a token, unverified. Raise `TokenRefusedError` for what is no JSON web token."""
    header = _object(token.partition(".")[0], "header")
    kid = header.get("kid")
    if not isinstance(header.get("alg"), str) or not (kid is None or isinstance(kid, str)):
        raise TokenRefusedError("the token's header has no alg, or a kid that is no text")
    return header


def check_token(token: str, keys: KeySet, rules: TokenRules, now_ms: int) -> Claims:
    """Return what a valid token says. Raise `TokenRefusedError`, which shows no part of the token but its claims, for
    another one. A signature takes tens of microseconds: not for an event loop."""
    if token.count(".") != 2:
        raise TokenRefusedError("the token has not three parts")
    header = header_of(token)
    if rules.keys is None:
        if header["alg"] != UNSECURED or token.rpartition(".")[2]:
            raise TokenRefusedError("the token is signed, and the listener has no keys that verify it")
    else:
        _verify(token, header, keys)
    return _claims(_object(token.split(".")[1], "body"), rules, now_ms)


def unsecured_token(login: TokenLogin, now_ms: int) -> str:
    """Return an unsecured token with the login's claims."""
    claims = {"exp": now_ms / 1000 + login.lifetime_s, "iat": now_ms / 1000, **dict(login.claims)}
    return f"{_encoded({'alg': UNSECURED})}.{_encoded(claims)}."


def expiry_ms(token: str) -> int:
    """Return the time at which a token expires, unverified; 0 when it does not say."""
    try:
        return _time(_object(token.split(".")[1], "body"), "exp") or 0
    except (TokenRefusedError, IndexError):
        return 0


def _verify(token: str, header: Header, keys: KeySet) -> None:
    kid, algorithm = header.get("kid"), header["alg"]
    named = f"key {_shown(kid)}" if kid is not None else "any key"
    fitting = keys.fitting(kid, algorithm)
    if not fitting:
        raise TokenRefusedError(f"the token is signed with {named} by {_shown(algorithm)}, and no such key is known")
    why = ""
    for key in fitting[:TRIED_MAX]:
        try:
            PyJWS().decode_complete(token, key.value, algorithms=list(key.algorithms))
        except PyJWTError as error:
            why = str(error)
        else:
            return
    raise TokenRefusedError(f"the token is not signed with {named}: {why}")


def _claims(claims: Mapping[str, Any], rules: TokenRules, now_ms: int) -> Claims:
    name, expires_ms = claims.get(rules.subject_claim), _time(claims, "exp")
    issued_ms, begins_ms = _time(claims, "iat"), _time(claims, "nbf")
    if not isinstance(name, str) or not name.strip():
        raise TokenRefusedError(f"the token's claim {rules.subject_claim} is not a name")
    if expires_ms is None or (issued_ms is None and rules.keys is not None):
        raise TokenRefusedError(f"the token of {_shown(name)} has no exp or no iat")
    if expires_ms + rules.skew_ms <= now_ms:
        raise TokenRefusedError(f"the token of {_shown(name)} expired {(now_ms - expires_ms) // 1000:,} s ago")
    for claim, at_ms in (("iat", issued_ms), ("nbf", begins_ms)):
        if at_ms is not None and at_ms - rules.skew_ms > now_ms:
            raise TokenRefusedError(f"the token of {_shown(name)} begins later: {claim} is in the future")
    if rules.issuer and claims.get("iss") != rules.issuer:
        raise TokenRefusedError(f"the token of {_shown(name)} is of issuer {_shown(claims.get('iss'))}")
    audiences = _texts(claims, "aud") or ()
    if rules.audiences and not set(audiences).intersection(rules.audiences):
        raise TokenRefusedError(f"the token of {_shown(name)} is for the audience {_shown(audiences)}")
    scopes = [part for each in _texts(claims, rules.scope_claim) or () for part in each.split()]
    for each in rules.scopes:
        if each not in scopes:
            raise TokenRefusedError(f"the token of {_shown(name)} lacks the scope {each!r}", INSUFFICIENT, each)
    # By a slow clock the token is still valid: its session ends with the tolerance.
    return Claims(name.strip(), expires_ms if expires_ms > now_ms else expires_ms + rules.skew_ms)


def _texts(claims: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    """Return a claim that is a text or a list of texts."""
    value = claims.get(name)
    found = (value,) if isinstance(value, str) else value
    if found is None:
        return None
    if not isinstance(found, list | tuple) or not all(isinstance(each, str) for each in found):
        raise TokenRefusedError(f"the token's claim {name} is no text and no list of texts")
    return tuple(found)


def _time(claims: Mapping[str, Any], name: str) -> int | None:
    """Return a claim that is a time, in milliseconds."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or abs(value) > 1e12:
        raise TokenRefusedError(f"the token's claim {name} is no time")
    return int(value * 1000)


def _object(part: str, what: str) -> dict[str, Any]:
    try:
        found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise TokenRefusedError(f"the token's {what} is no JSON object in base64")
    return found


def _encoded(fields: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).rstrip(b"=").decode()


def _shown(value: object) -> str:
    return repr(value)[:SHOWN_MAX]
