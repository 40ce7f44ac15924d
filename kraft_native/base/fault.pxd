"""Error codes, and the conversion of a nogil fault to an exception."""

from libc.stdint cimport int64_t

cdef enum:
    # Kafka's error codes that the engine answers with.
    ERROR_UNKNOWN_SERVER_ERROR = -1
    ERROR_NONE = 0
    ERROR_OFFSET_OUT_OF_RANGE = 1
    ERROR_CORRUPT_MESSAGE = 2
    ERROR_UNKNOWN_TOPIC_OR_PARTITION = 3
    ERROR_NOT_LEADER_OR_FOLLOWER = 6
    ERROR_REQUEST_TIMED_OUT = 7
    ERROR_MESSAGE_TOO_LARGE = 10
    ERROR_NETWORK_EXCEPTION = 13
    ERROR_COORDINATOR_LOAD_IN_PROGRESS = 14
    ERROR_COORDINATOR_NOT_AVAILABLE = 15
    ERROR_NOT_COORDINATOR = 16
    ERROR_INVALID_TOPIC_EXCEPTION = 17
    ERROR_NOT_ENOUGH_REPLICAS = 19
    ERROR_NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    ERROR_INVALID_REQUIRED_ACKS = 21
    ERROR_TOPIC_AUTHORIZATION_FAILED = 29
    ERROR_GROUP_AUTHORIZATION_FAILED = 30
    ERROR_INVALID_TIMESTAMP = 32
    ERROR_UNSUPPORTED_VERSION = 35
    ERROR_INVALID_REQUEST = 42
    ERROR_UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    ERROR_OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    ERROR_DUPLICATE_SEQUENCE_NUMBER = 46
    ERROR_INVALID_PRODUCER_EPOCH = 47
    ERROR_INVALID_TXN_STATE = 48
    ERROR_INVALID_PRODUCER_ID_MAPPING = 49
    ERROR_CONCURRENT_TRANSACTIONS = 51
    ERROR_TRANSACTION_COORDINATOR_FENCED = 52
    ERROR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    ERROR_KAFKA_STORAGE_ERROR = 56
    ERROR_FETCH_SESSION_ID_NOT_FOUND = 70
    ERROR_INVALID_FETCH_SESSION_EPOCH = 71
    ERROR_FENCED_LEADER_EPOCH = 74
    ERROR_UNKNOWN_LEADER_EPOCH = 75
    ERROR_UNSUPPORTED_COMPRESSION_TYPE = 76
    ERROR_INVALID_RECORD = 87
    ERROR_PRODUCER_FENCED = 90
    ERROR_UNKNOWN_TOPIC_ID = 100
    ERROR_FETCH_SESSION_TOPIC_ID_ERROR = 106
    ERROR_TRANSACTION_ABORTABLE = 120
    ERROR_INVALID_RECORD_STATE = 121
    ERROR_SHARE_SESSION_NOT_FOUND = 122
    ERROR_INVALID_SHARE_SESSION_EPOCH = 123
    ERROR_SHARE_SESSION_LIMIT_REACHED = 133

# A fault found by nogil code. `what` is a static printf pattern with at most two %lld, filled from a and b.
cdef struct Fault:
    int code
    const char* what
    int64_t a
    int64_t b


cdef inline int fault_set(Fault* fault, int code, const char* what, int64_t a, int64_t b) noexcept nogil:
    """Fill `fault` and return -1, so that a checker can end with `return fault_set(...)`."""
    fault.code = code
    fault.what = what
    fault.a = a
    fault.b = b
    return -1


# The filled pattern.
cdef str fault_text(const Fault* fault)

# Raises the exception class for fault.code (see `errors.BY_CODE`); always returns -1.
cdef int raise_fault(const Fault* fault) except -1
