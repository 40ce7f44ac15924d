"""Logins by delegation tokens (KIP-48): a token's secret, in base64, is the password of SCRAM."""

import base64
import hmac

from kraft.security.sasl.scram import HASHES, ITERATIONS_MIN, SALT_BYTES, ScramCredential, credential, salted_password
from kraft.security.tokens import token_hmac


def token_credential(secret: bytes, mechanism: str, token_id: str, salt_secret: bytes) -> ScramCredential:
    """Derive a token's credential of SCRAM. It takes thousands of hashes: never call it on an event loop. The salt is
    always the same for a token."""
    digest = HASHES[mechanism]
    salt = hmac.digest(salt_secret, f"{mechanism} {token_id}".encode(), digest)[:SALT_BYTES]
    password = base64.b64encode(token_hmac(secret, token_id)).decode()
    return credential(mechanism, salted_password(digest, password, salt, ITERATIONS_MIN), salt, ITERATIONS_MIN)
