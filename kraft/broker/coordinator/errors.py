"""Refusals of a coordinator, and the client's error codes for failed appends."""

from __future__ import annotations

from kraft.protocol.error_codes import ErrorCode
from kraft_native.base.errors import OperationError

# Codes that a client can act on when its coordinator could not write (CoordinatorOperationExceptionHelper). A code that
# is not listed is sent unchanged.
_APPEND_ERRORS = {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}

_BY_CODE = {int(error): error for error in ErrorCode}


class RefusedError(OperationError):
    """Refusal of a request with `error`; no record was written and no state changed."""

    def __init__(self, error: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or error.message)
        self.error = error
        self.code = int(error)

    def __reduce__(self) -> tuple[type[RefusedError], tuple[ErrorCode, str]]:
        return type(self), (self.error, str(self))


def append_error(code: int) -> ErrorCode:
    """Return the client's error for an append that failed with Kafka's `code`; an unknown one is
    UNKNOWN_SERVER_ERROR."""
    error = _BY_CODE.get(code, ErrorCode.UNKNOWN_SERVER_ERROR)
    return _APPEND_ERRORS.get(error, error)
