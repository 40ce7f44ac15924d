"""SaslHandshake (17) and SaslAuthenticate (36) where no login is expected: on a listener without SASL, and after one.

The answer is ILLEGAL_SASL_STATE, as in Kafka.
"""

from kraft.broker.api import Answer, RequestContext
from kraft.broker.broker import Broker
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from kraft.protocol.messages.sasl_handshake_response import SaslHandshakeResponse


def sasl_handshake(_broker: Broker, _request: Message, _context: RequestContext, answer: Answer) -> None:
    """Refuse: no login is expected."""
    answer(SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))


def sasl_authenticate(_broker: Broker, _request: Message, _context: RequestContext, answer: Answer) -> None:
    """Refuse: no login is expected."""
    answer(SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE,
                                    error_message="SaslAuthenticate came after the connection was open for requests"))
