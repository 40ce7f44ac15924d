"""Assertions: tokens by which a client proves its identity to a provider, in place of a secret (KIP-1258, RFC 7523)."""

import json
import uuid
from typing import Any

from cryptography.hazmat.primitives.serialization import load_pem_private_key
from jwt import PyJWS
from jwt.exceptions import PyJWTError

from kraft.config.oauth_settings import ASSERTION_FILE, ASSERTION_KEY, ASSERTION_TEMPLATE, Assertion
from kraft.oauth.http import ProviderError, read_file


def assertion_text(assertion: Assertion, now_ms: int) -> str:
    """Return the assertion for one request: the one in its file, or a new one, signed with the key in its file. The
    files are read each time, so that they may be replaced. Raises a final `ProviderError`, which names the setting and
    the file, and shows nothing of the content."""
    if assertion.file:
        text = read_file(assertion.file).decode("ascii", "replace").strip()
        if text.count(".") != 2:
            raise _unusable(ASSERTION_FILE, assertion.file, "has no token, which has three parts with a dot between")
        return text
    header, payload = _template(assertion)
    now_s = now_ms // 1000
    payload = {**dict(assertion.claims), **payload, "iat": now_s, "exp": now_s + assertion.lifetime_s,
               "nbf": now_s - assertion.begun_s}
    if assertion.has_id:
        payload["jti"] = str(uuid.uuid4())
    # The library would take the algorithm from here.
    header = {name: value for name, value in header.items() if name not in ("alg", "typ")}
    try:
        return PyJWS().encode(json.dumps(payload).encode(), _key(assertion), assertion.algorithm, header)
    except (PyJWTError, TypeError, ValueError) as error:
        raise _unusable(ASSERTION_KEY, assertion.key_file,
                        f"does not sign by {assertion.algorithm}: {type(error).__name__}") from error


def _key(assertion: Assertion) -> Any:
    content = read_file(assertion.key_file)
    try:
        return load_pem_private_key(content, assertion.passphrase.encode() or None)
    except (ValueError, TypeError) as error:
        raise _unusable(ASSERTION_KEY, assertion.key_file,
                        "is no private key in PEM, or its passphrase is another one") from error


def _template(assertion: Assertion) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the header and the payload that the template has."""
    if not assertion.template_file:
        return {}, {}
    try:
        found = json.loads(read_file(assertion.template_file))
        header, payload = found.get("header", {}), found.get("payload", {})
        is_usable = isinstance(header, dict) and isinstance(payload, dict)
    except (ValueError, AttributeError, RecursionError):
        is_usable = False
    if not is_usable:
        raise _unusable(ASSERTION_TEMPLATE, assertion.template_file,
                        'is no JSON object with the objects "header" and "payload"')
    return header, payload


def _unusable(setting: str, path: str, why: str) -> ProviderError:
    error = ProviderError(f"{setting}: {path} {why}")
    error.is_final = True
    return error
