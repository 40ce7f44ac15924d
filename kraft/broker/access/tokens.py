"""Delegation tokens (KIP-48, KIP-373): a client's own need no permission."""

from functools import partial
from typing import Final

from kraft.broker.access.rules import Call, Check
from kraft.broker.api import Steps
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_delegation_token_response import (
    DescribedDelegationToken,
    DescribeDelegationTokenResponse,
)
from kraft.security.acls import Operation, ResourceType
from kraft.security.principal import Principal
from kraft.security.tokens import not_created, owner_of

CREATE_CHECKS: Final = (
    Check(Operation.CREATE_TOKENS, ResourceType.USER, "owner_principal_name", "for another user, from version 3 on"),)
DESCRIBE_CHECKS: Final = (
    Check(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, "tokens.token_id",
          "or DESCRIBE_TOKENS on the owner, for tokens of other users; those without it are removed", silent=True),
    Check(Operation.DESCRIBE_TOKENS, ResourceType.USER, "tokens.principal_name",
          "or DESCRIBE on the token", silent=True),
)


def create_delegation_token(call: Call) -> Steps | None:
    """Create a token for the client itself, or for a user for which it may create tokens."""
    request = call.request
    owner = owner_of(request, call.access.principal)
    if owner != call.access.principal and not call.access.may(
            Operation.CREATE_TOKENS, ResourceType.USER, str(owner)):
        call.answer(not_created(request, call.access.principal, call.version,
                                ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED))
        return None
    return call.serve(request, call.answer)


def describe_delegation_token(call: Call) -> Steps | None:
    """Describe the tokens that the client owns or renews, and those that it may describe."""
    return call.serve(call.request, call.filtered(partial(_keep, call)))


def _keep(call: Call, response: DescribeDelegationTokenResponse) -> Steps:
    kept = []
    for token in response.tokens:
        if _may_describe(call, token):
            kept.append(token)
        yield
    response.tokens = kept


def _may_describe(call: Call, token: DescribedDelegationToken) -> bool:
    owner = Principal(token.principal_type, token.principal_name)
    known = (owner, *(Principal(each.principal_type, each.principal_name) for each in token.renewers))
    return (call.access.principal in known
            or call.access.may(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)
            or call.access.may(Operation.DESCRIBE_TOKENS, ResourceType.USER, str(owner)))
