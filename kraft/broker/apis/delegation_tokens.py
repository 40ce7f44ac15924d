"""CreateDelegationToken (38), RenewDelegationToken (39), ExpireDelegationToken (40), DescribeDelegationToken (41),
versions 1 to 3, 2, 2 and 3 (KIP-48, KIP-373).

The active controller decides changes. A client that has not proven its identity, or by a token only, is refused here.
"""

from typing import Final

from kraft.broker.api import Answer, RequestContext, Steps, counted_steps
from kraft.broker.broker import Broker
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
from kraft.protocol.messages.delegation_token_record import DelegationTokenRecord
from kraft.protocol.messages.describe_delegation_token_request import DescribeDelegationTokenRequest
from kraft.protocol.messages.describe_delegation_token_response import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenResponse,
)
from kraft.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from kraft.protocol.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
from kraft.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from kraft.protocol.messages.renew_delegation_token_response import RenewDelegationTokenResponse
from kraft.security.principal import Principal
from kraft.security.tokens import (
    FIRST_VERSION_WITH_REQUESTER,
    NO_TIME,
    SEARCHED_STEP,
    may_request_tokens,
    not_created,
    parse_principal,
    renewers_fault,
    token_hmac,
)

NOT_ALLOWED: Final = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def create_delegation_token(broker: Broker, request: CreateDelegationTokenRequest, context: RequestContext,
                            answer: Answer) -> Steps:
    """Answer with the controller's token. Permission to create tokens for others is checked before."""
    code = renewers_fault(request) if _is_allowed(broker, context) else NOT_ALLOWED
    if code != ErrorCode.NONE:
        answer(not_created(request, context.principal, context.version, code))
        return
    yield from broker.submit_steps(request, context, answer)


def renew_delegation_token(broker: Broker, request: RenewDelegationTokenRequest, context: RequestContext,
                           answer: Answer) -> Steps:
    """Answer with the controller's decision."""
    return _submit(broker, request, context, answer, RenewDelegationTokenResponse(
        error_code=NOT_ALLOWED, expiry_timestamp_ms=NO_TIME))


def expire_delegation_token(broker: Broker, request: ExpireDelegationTokenRequest, context: RequestContext,
                            answer: Answer) -> Steps:
    """Answer with the controller's decision."""
    return _submit(broker, request, context, answer, ExpireDelegationTokenResponse(
        error_code=NOT_ALLOWED, expiry_timestamp_ms=NO_TIME))


def _submit(broker: Broker, request: Message, context: RequestContext, answer: Answer, refusal: Message) -> Steps:
    if _is_allowed(broker, context):
        yield from broker.submit_steps(request, context, answer)
    else:
        answer(refusal)


def describe_delegation_token(broker: Broker, request: DescribeDelegationTokenRequest, context: RequestContext,
                              answer: Answer) -> Steps:
    """Answer with the tokens that the named owners own or may renew, or with all. Those that the client may not see are
    removed afterwards."""
    secret = str(broker.setting("delegation.token.secret.key") or "").encode()
    code = (NOT_ALLOWED if not _is_allowed(broker, context)
            else ErrorCode.NONE if secret else ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    if code != ErrorCode.NONE or request.owners == []:
        answer(DescribeDelegationTokenResponse(error_code=code))
        return
    wanted: dict[str, int] | None = None
    if request.owners is not None:
        wanted = yield from counted_steps(f"{each.principal_type}:{each.principal_name}" for each in request.owners)
    found = []
    for number, token in enumerate(broker.image.delegation_tokens.values(), 1):
        if wanted is None or token.owner in wanted or any(each in wanted for each in token.renewers):
            found.append(_described(token, secret, context.version))
        if number % SEARCHED_STEP == 0:
            yield
    answer(DescribeDelegationTokenResponse(tokens=found))


def _is_allowed(broker: Broker, context: RequestContext) -> bool:
    return may_request_tokens(broker.config.protocol(context.listener), context.principal)


def _described(token: DelegationTokenRecord, secret: bytes, version: int) -> DescribedDelegationToken:
    owner, requester = parse_principal(token.owner), Principal("", "")
    if version >= FIRST_VERSION_WITH_REQUESTER:
        requester = parse_principal(token.requester)
    renewers = [parse_principal(each) for each in token.renewers]
    return DescribedDelegationToken(
        principal_type=owner.kind, principal_name=owner.name, token_requester_principal_type=requester.kind,
        token_requester_principal_name=requester.name, issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp, max_timestamp=token.max_timestamp, token_id=token.token_id,
        hmac=token_hmac(secret, token.token_id), renewers=[
            DescribedDelegationTokenRenewer(principal_type=each.kind, principal_name=each.name) for each in renewers])
