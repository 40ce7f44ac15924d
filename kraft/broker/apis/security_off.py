"""Requests about security, on a node that has it switched off. The answers are Kafka's in that case:

- SaslHandshake (17), SaslAuthenticate (36): ILLEGAL_SASL_STATE, as the listener is plain.
"""

from kraft.broker.api import Answer, RequestContext
from kraft.broker.broker import Broker
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from kraft.protocol.messages.sasl_handshake_response import SaslHandshakeResponse


def sasl_handshake(_broker: Broker, _request: Message, _context: RequestContext, answer: Answer) -> None:
    """Refuse: the listener does not use SASL."""
    answer(SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))


def sasl_authenticate(_broker: Broker, _request: Message, _context: RequestContext, answer: Answer) -> None:
    """Refuse: the listener does not use SASL."""
    answer(SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE,
                                    error_message="SaslAuthenticate came after the connection was open for requests"))
