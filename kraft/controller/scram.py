"""AlterUserScramCredentials: the data with which SCRAM verifies passwords (KIP-554), kept as records.

The client sends the salted password. The two keys that RFC 5802 derives from it are stored, never the password.
"""

import hashlib
import hmac
from collections.abc import Iterable
from typing import Final

from kraft.controller.decision import Context, Decision, RefusedError, text_of
from kraft.metadata.snapshot import Record
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kraft.protocol.messages.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from kraft.protocol.messages.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from kraft.protocol.messages.user_scram_credential_record import UserScramCredentialRecord

# Kafka's ids of the mechanisms, and their hashes.
HASHES: Final = {1: "sha256", 2: "sha512"}
ITERATIONS_MIN: Final = 4_096
ITERATIONS_MAX: Final = 16_384
BYTES_MAX: Final = 1_024
"""Maximum size of a salt, and of a salted password: those of clients have 20 to 64 bytes. Records keep the salt."""

Alteration = ScramCredentialDeletion | ScramCredentialUpsertion


def alter_user_scram_credentials(
    context: Context, request: AlterUserScramCredentialsRequest
) -> Decision[AlterUserScramCredentialsResponse]:
    """Decide each user's deletion or upsertion on its own. A user that is named twice is refused, unless the first
    mention is refused for another reason."""
    alterations: list[Alteration] = [*request.deletions, *request.upsertions]
    records: dict[str, Record] = {}
    refused: dict[str, AlterUserScramCredentialsResult] = {}
    for alteration in alterations:
        name = alteration.name
        if name in refused:
            continue
        is_second = records.pop(name, None) is not None
        try:
            records[name] = Record(_record(context, alteration, twice=is_second))
        except RefusedError as refusal:
            refused[name] = _result(name, refusal.error, refusal.message)
    results = [refused.get(name) or _result(name, ErrorCode.NONE, None) for name in _names(alterations)]
    return Decision(AlterUserScramCredentialsResponse(results=results), list(records.values()))


def alter_user_scram_credentials_refused(
    request: AlterUserScramCredentialsRequest, code: ErrorCode, message: str | None
) -> AlterUserScramCredentialsResponse:
    return AlterUserScramCredentialsResponse(results=[
        _result(name, code, message) for name in _names([*request.deletions, *request.upsertions])])


def _names(alterations: Iterable[Alteration]) -> list[str]:
    return list(dict.fromkeys(each.name for each in alterations))


def _result(name: str, code: ErrorCode, message: str | None) -> AlterUserScramCredentialsResult:
    return AlterUserScramCredentialsResult(user=name, error_code=code, error_message=text_of(code, message))


def _record(
    context: Context, alteration: Alteration, *, twice: bool
) -> UserScramCredentialRecord | RemoveUserScramCredentialRecord:
    if twice:
        raise RefusedError(ErrorCode.DUPLICATE_RESOURCE, "a user's credentials can be altered once per request")
    if not context.image.metadata_version.scram:
        raise RefusedError(ErrorCode.UNSUPPORTED_VERSION,
                           f"metadata.version {context.image.metadata_version.name} has no SCRAM credentials")
    if not alteration.name:
        raise RefusedError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "a user's name is not empty")
    if alteration.mechanism not in HASHES:
        raise RefusedError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"SCRAM mechanism {alteration.mechanism} is not known")
    if isinstance(alteration, ScramCredentialDeletion):
        if (alteration.mechanism, alteration.name) not in context.image.scram:
            raise RefusedError(ErrorCode.RESOURCE_NOT_FOUND, "the user has no such credential")
        return RemoveUserScramCredentialRecord(name=alteration.name, mechanism=alteration.mechanism)
    return _credential(alteration)


def _credential(upsertion: ScramCredentialUpsertion) -> UserScramCredentialRecord:
    if not ITERATIONS_MIN <= upsertion.iterations <= ITERATIONS_MAX:
        raise RefusedError(ErrorCode.UNACCEPTABLE_CREDENTIAL,
                           f"{upsertion.iterations} iterations are not {ITERATIONS_MIN} to {ITERATIONS_MAX}")
    if max(len(upsertion.salt), len(upsertion.salted_password)) > BYTES_MAX:
        raise RefusedError(ErrorCode.UNACCEPTABLE_CREDENTIAL,
                           f"salt and salted password have at most {BYTES_MAX} bytes each")
    digest = HASHES[upsertion.mechanism]
    client_key = hmac.digest(upsertion.salted_password, b"Client Key", digest)
    return UserScramCredentialRecord(
        name=upsertion.name, mechanism=upsertion.mechanism, salt=upsertion.salt, iterations=upsertion.iterations,
        stored_key=hashlib.new(digest, client_key).digest(),
        server_key=hmac.digest(upsertion.salted_password, b"Server Key", digest))
