"""CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken, and the removal of expired tokens (KIP-48,
KIP-373; Kafka's DelegationTokenControlManager).

A request names a token by its secret. The secrets are derived from the tokens' ids, so the search for one derives those
of all tokens, in steps.
"""

import hmac
from collections.abc import Generator
from typing import Final

from kraft.controller.decision import Context, Decision, RefusedError
from kraft.metadata.snapshot import Record
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
from kraft.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse
from kraft.protocol.messages.delegation_token_record import DelegationTokenRecord
from kraft.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from kraft.protocol.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
from kraft.protocol.messages.remove_delegation_token_record import RemoveDelegationTokenRecord
from kraft.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from kraft.protocol.messages.renew_delegation_token_response import RenewDelegationTokenResponse
from kraft.security.principal import Principal, TokenUser
from kraft.security.tokens import SEARCHED_STEP, created, is_expired, owner_of, renewers_fault, token_hmac

TIME_MAX: Final = (1 << 63) - 1

RenewSteps = Generator[None, None, Decision[RenewDelegationTokenResponse]]
ExpireSteps = Generator[None, None, Decision[ExpireDelegationTokenResponse]]


def create_delegation_token(
    context: Context, request: CreateDelegationTokenRequest
) -> Decision[CreateDelegationTokenResponse]:
    """Create a token for the client, or for the owner that it names."""
    owner = owner_of(request, context.principal)
    try:
        _check_allowed(context)
        fault = renewers_fault(request)
    except RefusedError as refusal:
        fault = refusal.error
    if fault != ErrorCode.NONE:        # only this answer names owner and requester
        return Decision(created(owner, context.principal, context.api_version, fault))
    settings = context.settings
    life_ms = settings.token_life_max_ms
    if request.max_lifetime_ms > 0:
        life_ms = min(life_ms, request.max_lifetime_ms)
    last_ms = _sum(context.now_ms, life_ms)
    record = DelegationTokenRecord(
        owner=str(owner), requester=str(context.principal),
        renewers=[f"{each.principal_type}:{each.principal_name}" for each in request.renewers],
        issue_timestamp=context.now_ms, max_timestamp=last_ms,
        expiration_timestamp=min(last_ms, _sum(context.now_ms, settings.token_renewal_ms)),
        token_id=str(context.new_id()))
    response = created(owner, context.principal, context.api_version, ErrorCode.NONE)
    response.issue_timestamp_ms, response.max_timestamp_ms = record.issue_timestamp, record.max_timestamp
    response.expiry_timestamp_ms, response.token_id = record.expiration_timestamp, record.token_id
    response.hmac = token_hmac(settings.token_secret, record.token_id)
    return Decision(response, [Record(record)])


def renew_delegation_token(context: Context, request: RenewDelegationTokenRequest) -> RenewSteps:
    """Extend the life of a token."""
    token = yield from _token(context, request.hmac)
    if is_expired(token, context.now_ms):
        raise RefusedError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    _check_renewer(token, context.principal)
    period_ms = context.settings.token_renewal_ms
    if request.renew_period_ms > 0:
        period_ms = min(period_ms, request.renew_period_ms)
    expiry_ms = min(token.max_timestamp, _sum(context.now_ms, period_ms))
    return Decision(RenewDelegationTokenResponse(expiry_timestamp_ms=expiry_ms),
                    [Record(token.replace(expiration_timestamp=expiry_ms))])


def expire_delegation_token(context: Context, request: ExpireDelegationTokenRequest) -> ExpireSteps:
    """Remove a token, or set the time at which it expires. An expired one can still be removed."""
    token = yield from _token(context, request.hmac)
    _check_renewer(token, context.principal)
    if request.expiry_time_period_ms < 0:
        return Decision(ExpireDelegationTokenResponse(expiry_timestamp_ms=context.now_ms),
                        [Record(RemoveDelegationTokenRecord(token_id=token.token_id))])
    if is_expired(token, context.now_ms):
        raise RefusedError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    expiry_ms = min(token.max_timestamp, _sum(context.now_ms, request.expiry_time_period_ms))
    return Decision(ExpireDelegationTokenResponse(expiry_timestamp_ms=expiry_ms),
                    [Record(token.replace(expiration_timestamp=expiry_ms))])


def remove_expired(context: Context) -> Generator[None, None, Decision[bool]]:
    """Remove all tokens whose life is over. The response is False: none is left for another round."""
    records = []
    for number, token in enumerate(context.image.delegation_tokens.values(), 1):
        if is_expired(token, context.now_ms):
            records.append(Record(RemoveDelegationTokenRecord(token_id=token.token_id)))
        if number % SEARCHED_STEP == 0:
            yield
    return Decision(response=False, records=records, atomic=False)


def create_delegation_token_refused(
    request: CreateDelegationTokenRequest, code: ErrorCode, _message: str | None
) -> CreateDelegationTokenResponse:
    owner = Principal(request.owner_principal_type or "", request.owner_principal_name or "")
    return CreateDelegationTokenResponse(error_code=code, principal_type=owner.kind, principal_name=owner.name)


def renew_delegation_token_refused(
    _request: RenewDelegationTokenRequest, code: ErrorCode, _message: str | None
) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=code)


def expire_delegation_token_refused(
    _request: ExpireDelegationTokenRequest, code: ErrorCode, _message: str | None
) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(error_code=code)


def _check_allowed(context: Context) -> None:
    if isinstance(context.principal, TokenUser):
        raise RefusedError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if not context.settings.token_secret:
        raise RefusedError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    if not context.image.metadata_version.delegation_tokens:
        raise RefusedError(ErrorCode.UNSUPPORTED_VERSION)


def _token(context: Context, secret: bytes) -> Generator[None, None, DelegationTokenRecord]:
    _check_allowed(context)
    for number, token in enumerate(context.image.delegation_tokens.values(), 1):
        if hmac.compare_digest(token_hmac(context.settings.token_secret, token.token_id), secret):
            return token
        if number % SEARCHED_STEP == 0:
            yield
    raise RefusedError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)


def _check_renewer(token: DelegationTokenRecord, principal: Principal) -> None:
    if str(principal) not in (token.owner, *token.renewers):
        raise RefusedError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)


def _sum(now_ms: int, period_ms: int) -> int:
    return min(now_ms + period_ms, TIME_MAX)
