"""Errors of requests, with their status and Kafka's name of the cause."""

from typing import TYPE_CHECKING, Final

from kraft.client.connection import AuthenticationError
from kraft.client.refusals import RefusedError
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.error_names import name_of
from kraft_native.base.errors import KraftError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

STATUSES: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: 403, ErrorCode.CLUSTER_AUTHORIZATION_FAILED: 403,
    ErrorCode.SASL_AUTHENTICATION_FAILED: 401, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 404,
    ErrorCode.INVALID_TOPIC_EXCEPTION: 400, ErrorCode.MESSAGE_TOO_LARGE: 413, ErrorCode.RECORD_LIST_TOO_LARGE: 413,
    ErrorCode.INVALID_TIMESTAMP: 400, ErrorCode.INVALID_RECORD: 400, ErrorCode.OFFSET_OUT_OF_RANGE: 416,
    ErrorCode.POLICY_VIOLATION: 403, ErrorCode.THROTTLING_QUOTA_EXCEEDED: 429,
}


class RequestError(KraftError):
    """A request is refused. `status`: that of HTTP; `name`: the cause, in Kafka's words where it has one."""

    def __init__(self, status: int, name: str, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.name = name
        self.retry_after = retry_after

    @property
    def body(self) -> dict[str, object]:
        """The answer's content."""
        return {"error": {"code": self.name, "message": str(self)}}


def bad_request(message: str) -> RequestError:
    """Return the error of a request that names a wrong field, with its value and what is allowed."""
    return RequestError(400, "INVALID_REQUEST", message)


def library_failure(what: str, error: "KafkaError") -> RequestError:
    """Convert an error of librdkafka. Those that the library has of its own are outages of the cluster."""
    from confluent_kafka import KafkaError

    own = {KafkaError._UNKNOWN_TOPIC: (404, "UNKNOWN_TOPIC_OR_PARTITION"),
           KafkaError._UNKNOWN_PARTITION: (404, "UNKNOWN_TOPIC_OR_PARTITION"),
           KafkaError._AUTHENTICATION: (401, "SASL_AUTHENTICATION_FAILED"),
           KafkaError._MSG_TIMED_OUT: (504, "REQUEST_TIMED_OUT"), KafkaError._TIMED_OUT: (504, "REQUEST_TIMED_OUT"),
           KafkaError._QUEUE_FULL: (503, "THROTTLING_QUOTA_EXCEEDED")}
    if error.code() > 0:
        return cluster_failure(RefusedError(what, error.code()))
    status, name = own.get(error.code(), (502, "BROKER_NOT_AVAILABLE"))
    return RequestError(status, name, f"{what}: {error.str()}", retry_after=1 if status >= 502 else None)


def cluster_failure(error: KraftError) -> RequestError:
    """Convert an error of kraft's own client."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, RefusedError):
        status = next((status for code, status in STATUSES.items() if code == error.code), 502)
        return RequestError(status, name_of(error.code), str(error), retry_after=1 if status == 502 else None)
    if isinstance(error, AuthenticationError):
        return RequestError(401, "SASL_AUTHENTICATION_FAILED", str(error))
    return RequestError(502, "BROKER_NOT_AVAILABLE", str(error), retry_after=1)
