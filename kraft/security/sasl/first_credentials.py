"""SCRAM credentials that a metadata log begins with (KIP-900): `kraft storage format --add-scram`.

    SCRAM-SHA-256=[name=alice,password=secret]
    SCRAM-SHA-512=[name=alice,iterations=8192,salt=BASE64,saltedpassword=BASE64]

Values may have double quotes around them, and no commas in them.
"""

import base64
from collections.abc import Callable
from typing import Final

from kraft.config.errors import InvalidConfigError
from kraft.protocol.messages.user_scram_credential_record import UserScramCredentialRecord
from kraft.security.sasl.scram import HASHES, IDS, ITERATIONS_MIN, credential, salted_password

OPTION: Final = "--add-scram"
ITERATIONS_MAX: Final = 16_384
"""Kafka's limit for credentials that it keeps."""
NAMES: Final = ("name", "password", "iterations", "salt", "saltedpassword")


def first_credential(text: str, draw_salt: Callable[[], bytes]) -> UserScramCredentialRecord:
    """Return the record of one argument. Raise `InvalidConfigError`, which shows no password, for another form."""
    mechanism, found, body = text.strip().partition("=")
    if mechanism not in HASHES:
        raise InvalidConfigError(f"{OPTION}: the mechanism before = is not one of {', '.join(HASHES)}")
    if not found or not (body.startswith("[") and body.endswith("]")):
        raise InvalidConfigError(f"{OPTION}: is not of the form {mechanism}=[name=NAME,password=PASSWORD]")
    values = _values(body[1:-1])
    if not values.get("name"):
        raise InvalidConfigError(f"{OPTION}: name is missing")
    iterations = _iterations(values.get("iterations", str(ITERATIONS_MIN)))
    salt = _decoded(values, "salt") if "salt" in values else draw_salt()
    if "password" in values:
        salted = salted_password(HASHES[mechanism], values["password"], salt, iterations)
    elif "saltedpassword" not in values:
        raise InvalidConfigError(f"{OPTION}: password or saltedpassword is missing")
    elif "salt" not in values:
        raise InvalidConfigError(f"{OPTION}: saltedpassword needs its salt")
    else:
        salted = _decoded(values, "saltedpassword")
    kept = credential(mechanism, salted, salt, iterations)
    return UserScramCredentialRecord(name=values["name"], mechanism=IDS[mechanism], salt=salt, iterations=iterations,
                                     stored_key=kept.stored_key, server_key=kept.server_key)


def _values(body: str) -> dict[str, str]:
    found = {}
    for part in body.split(","):
        name, separator, value = part.partition("=")
        if not separator or name not in NAMES:
            raise InvalidConfigError(f"{OPTION}: a part is not NAME=VALUE with one of {', '.join(NAMES)}")
        is_quoted = len(value) >= 2 and value[0] == value[-1] == '"'
        found[name] = value[1:-1] if is_quoted else value
    return found


def _iterations(text: str) -> int:
    value = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
    if not ITERATIONS_MIN <= value <= ITERATIONS_MAX:
        raise InvalidConfigError(f"{OPTION}: iterations is not a whole number in {ITERATIONS_MIN} to {ITERATIONS_MAX}")
    return value


def _decoded(values: dict[str, str], name: str) -> bytes:
    try:
        return base64.b64decode(values[name], validate=True)
    except ValueError:
        raise InvalidConfigError(f"{OPTION}: {name} is not base64") from None
