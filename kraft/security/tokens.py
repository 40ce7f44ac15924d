"""Delegation tokens (KIP-48): secrets, and the connections over which tokens may be requested.

A token's secret is derived from its id and from `delegation.token.secret.key`, so no record has it.
"""

import hmac
from typing import Final

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
from kraft.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse
from kraft.protocol.messages.delegation_token_record import DelegationTokenRecord
from kraft.security.principal import ANONYMOUS, USER, Principal, TokenUser

DIGEST: Final = "sha512"
FIRST_VERSION_WITH_REQUESTER: Final = 3
NO_TIME: Final = -1
SEARCHED_STEP: Final = 128
"""Tokens that one step inspects."""
RENEWERS_MAX: Final = 1_000
"""Renewers of one token. Kafka has no limit of its own."""
PLAINTEXT: Final = "PLAINTEXT"
SSL: Final = "SSL"


def token_hmac(secret: bytes, token_id: str) -> bytes:
    """Return the secret of a token."""
    return hmac.digest(secret, token_id.encode(), DIGEST)


def may_request_tokens(protocol: str, principal: Principal) -> bool:
    """Return whether a client may send requests about tokens: one that has proven its identity, and not by a token."""
    is_unknown = protocol == PLAINTEXT or (protocol == SSL and principal == ANONYMOUS)
    return not is_unknown and not isinstance(principal, TokenUser)


def parse_principal(text: str) -> Principal:
    """Return the principal of a record's text, such as `User:alice`."""
    kind, colon, name = text.partition(":")
    return Principal(kind, name) if colon else Principal(USER, text)


def is_expired(token: DelegationTokenRecord, now_ms: int) -> bool:
    """Return whether the token's life is over."""
    return min(token.max_timestamp, token.expiration_timestamp) < now_ms


def owner_of(request: CreateDelegationTokenRequest, requester: Principal) -> Principal:
    """Return the owner of the token that a client requests."""
    if not request.owner_principal_name:
        return requester
    return Principal(request.owner_principal_type or "", request.owner_principal_name)


def renewers_fault(request: CreateDelegationTokenRequest) -> ErrorCode:
    """Return the error of the renewers that a request names; NONE when they are right."""
    if len(request.renewers) > RENEWERS_MAX:
        return ErrorCode.POLICY_VIOLATION
    if any(each.principal_type != USER for each in request.renewers):
        return ErrorCode.INVALID_PRINCIPAL_TYPE
    return ErrorCode.NONE


def created(owner: Principal, requester: Principal, version: int, code: ErrorCode) -> CreateDelegationTokenResponse:
    """Return an answer without a token. Only later versions name the requester."""
    response = CreateDelegationTokenResponse(error_code=code, principal_type=owner.kind, principal_name=owner.name)
    if version >= FIRST_VERSION_WITH_REQUESTER:
        response.token_requester_principal_type = requester.kind
        response.token_requester_principal_name = requester.name
    return response


def not_created(request: CreateDelegationTokenRequest, requester: Principal, version: int,
                code: ErrorCode) -> CreateDelegationTokenResponse:
    """Return a broker's refusal of a token: one of a controller has 0 in place of `NO_TIME`."""
    response = created(owner_of(request, requester), requester, version, code)
    response.issue_timestamp_ms = response.expiry_timestamp_ms = response.max_timestamp_ms = NO_TIME
    return response
