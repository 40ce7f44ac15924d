"""Requests about security, on a node that has it switched off. The answers are Kafka's in that case:

- SaslHandshake (17), SaslAuthenticate (36): ILLEGAL_SASL_STATE, as the listener is plain.
- Delegation tokens (38 to 41): DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, as on any plain listener.
"""

from kraft.broker.api import Answer, RequestContext
from kraft.broker.broker import Broker
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse
from kraft.protocol.messages.describe_delegation_token_response import DescribeDelegationTokenResponse
from kraft.protocol.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
from kraft.protocol.messages.renew_delegation_token_response import RenewDelegationTokenResponse
from kraft.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from kraft.protocol.messages.sasl_handshake_response import SaslHandshakeResponse

FIRST_VERSION_WITH_REQUESTER = 3


def sasl_handshake(_broker: Broker, _request: Message, _context: RequestContext, answer: Answer) -> None:
    """Refuse: the listener does not use SASL."""
    answer(SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))


def sasl_authenticate(_broker: Broker, _request: Message, _context: RequestContext, answer: Answer) -> None:
    """Refuse: the listener does not use SASL."""
    answer(SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE,
                                    error_message="SaslAuthenticate came after the connection was open for requests"))


def create_delegation_token(_broker: Broker, _request: Message, context: RequestContext, answer: Answer) -> None:
    """Refuse on a plain listener."""
    named = context.version >= FIRST_VERSION_WITH_REQUESTER
    answer(CreateDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, principal_type="User", principal_name="ANONYMOUS",
        token_requester_principal_type="User" if named else "",
        token_requester_principal_name="ANONYMOUS" if named else "",
        issue_timestamp_ms=-1, expiry_timestamp_ms=-1, max_timestamp_ms=-1))


def renew_delegation_token(_broker: Broker, _request: Message, _context: RequestContext, answer: Answer) -> None:
    """Refuse on a plain listener."""
    answer(RenewDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
                                        expiry_timestamp_ms=-1))


def expire_delegation_token(_broker: Broker, _request: Message, _context: RequestContext, answer: Answer) -> None:
    """Refuse on a plain listener."""
    answer(ExpireDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
                                         expiry_timestamp_ms=-1))


def describe_delegation_token(_broker: Broker, _request: Message, _context: RequestContext, answer: Answer) -> None:
    """Refuse on a plain listener."""
    answer(DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED))
